#include "runtime/service/net.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace chainio::service {
namespace {

constexpr int kBufferGroup = 0, kDatagramGroup = 1;

}  // namespace

std::expected<std::unique_ptr<Net>, std::string> Net::create(ring::Shared& ring, metrics::Fallbacks& fallbacks) {
    auto seat = ring.sit();
    if (seat == nullptr) return std::unexpected("the io_uring has too many users");
    std::unique_ptr<Net> net(new Net(std::move(seat), fallbacks));
    if (const int bound = ring.bind(); bound < 0)
        return std::unexpected(std::string("the io_uring cannot be used: ") + std::strerror(-bound));
    io_uring* shared = ring.ring().get();
    if (auto handed = net->buffers_.hand_to(shared, kBufferGroup); !handed) return std::unexpected(handed.error());
    if (auto handed = net->datagrams_.hand_to(shared, kDatagramGroup); !handed) return std::unexpected(handed.error());
    net->receive_form_.msg_namelen = kPeerBytes;
    net->receive_form_.msg_controllen = kControlBytes;
    return net;
}

Net::Message& Net::next_message() {
    const std::uint64_t submissions = seat_->shared().submissions();
    if (messages_of_ != submissions) messages_used_ = 0;
    messages_of_ = submissions;
    return messages_[messages_used_++];
}

void Net::accept(std::uint32_t listener, int fd) {
    io_uring_sqe* sqe = next_sqe(NetOp::accept, listener);
    io_uring_prep_multishot_accept(sqe, fd, nullptr, nullptr, SOCK_CLOEXEC);
}

void Net::receive(std::uint32_t connection, int fd) {
    io_uring_sqe* sqe = next_sqe(NetOp::receive, connection);
    if (multishot_) {
        io_uring_prep_recv_multishot(sqe, fd, nullptr, 0, 0);
    } else {
        io_uring_prep_recv(sqe, fd, nullptr, kBufferBytes, 0);
    }
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = kBufferGroup;
}

void Net::receive_to(std::uint32_t connection, int fd, std::span<std::uint8_t> room) {
    io_uring_prep_recv(next_sqe(NetOp::receive, connection), fd, room.data(), room.size(), 0);
}

void Net::cancel(NetOp op, std::uint32_t index) {
    io_uring_prep_cancel64(next_sqe(NetOp::cancel, index), seat_->user_data(name_of(op, index)), 0);
}

void Net::stop_receiving(std::uint32_t connection) { cancel(NetOp::receive, connection); }

void Net::stop_accepting(std::uint32_t listener) { cancel(NetOp::accept, listener); }

void Net::receive_from(std::uint32_t index, int fd) {
    io_uring_sqe* sqe = next_sqe(NetOp::receive_from, index);
    io_uring_prep_recvmsg_multishot(sqe, fd, &receive_form_, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = kDatagramGroup;
}

void Net::stop_receiving_from(std::uint32_t index) { cancel(NetOp::receive_from, index); }

void Net::watch(std::uint32_t index, int fd) {
    io_uring_sqe* sqe = next_sqe(NetOp::readable, index);
    io_uring_prep_poll_multishot(sqe, fd, POLLIN);
}

void Net::stop_watching(std::uint32_t index) { cancel(NetOp::readable, index); }

std::optional<Received> Net::datagram(std::uint32_t buffer, std::size_t length) {
    std::uint8_t* at = datagrams_.data(buffer);
    io_uring_recvmsg_out* out = io_uring_recvmsg_validate(at, static_cast<int>(length), &receive_form_);
    if (out == nullptr) return std::nullopt;
    Received received;
    received.peer = {static_cast<std::uint8_t*>(io_uring_recvmsg_name(out)), std::min(out->namelen, kPeerBytes)};
    received.control = {received.peer.data() + kPeerBytes, std::min(out->controllen, kControlBytes)};
    received.bytes = {static_cast<std::uint8_t*>(io_uring_recvmsg_payload(out, &receive_form_)),
                      io_uring_recvmsg_payload_length(out, static_cast<int>(length), &receive_form_)};
    received.cut = (out->flags & MSG_TRUNC) != 0;
    return received;
}

void Net::send_to(std::uint32_t index, int fd, const Received& to, std::span<const iovec> parts) {
    make_room(1);
    io_uring_sqe* sqe = next_sqe(NetOp::send_to, index);
    Message& message = next_message();  // of the same submission as the operation
    std::ranges::copy(parts, message.parts.begin());
    message.header = {};
    message.header.msg_name = to.peer.data();
    message.header.msg_namelen = static_cast<socklen_t>(to.peer.size());
    message.header.msg_iov = message.parts.data();
    message.header.msg_iovlen = parts.size();
    message.header.msg_control = to.control.empty() ? nullptr : to.control.data();
    message.header.msg_controllen = to.control.size();
    io_uring_prep_sendmsg(sqe, fd, &message.header, MSG_NOSIGNAL);
}

unsigned Net::take(std::span<NetEvent> events) {
    const auto count = static_cast<unsigned>(std::min<std::size_t>(seat_->waiting(), events.size()));
    for (NetEvent& event : events.first(count)) {
        const ring::Came came = seat_->take();
        event.op = static_cast<NetOp>(came.data >> 40);
        event.index = static_cast<std::uint32_t>(came.data);
        event.part = static_cast<std::uint8_t>(came.data >> 32);
        event.result = came.result;
        event.more = (came.flags & IORING_CQE_F_MORE) != 0;
        event.let_go = (came.flags & IORING_CQE_F_NOTIF) != 0;
        event.copied = event.let_go && (static_cast<std::uint32_t>(came.result) & IORING_NOTIF_USAGE_ZC_COPIED) != 0;
        event.buffer =
            (came.flags & IORING_CQE_F_BUFFER) != 0 ? came.flags >> IORING_CQE_BUFFER_SHIFT : engine::kNoIndex;
        if (event.buffer != engine::kNoIndex) (event.op == NetOp::receive_from ? datagrams_ : buffers_).used();
    }
    return count;
}

void Net::without_multishot() {
    if (!multishot_) return;
    multishot_ = false;
    fallbacks_.note("single-receive", "the kernel has no multishot receive (Linux 6.0); each receive is asked for");
}

std::string Net::describe() const {
    return "io_uring (" + seat_->shared().ring().flags() + ", " + (multishot_ ? "multishot" : "single") +
           " receive into " + std::to_string(kBuffers) + " provided buffers of " + std::to_string(kBufferBytes) +
           " bytes)";
}

}  // namespace chainio::service
