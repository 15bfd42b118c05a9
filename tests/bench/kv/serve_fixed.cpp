// The best server over UDP sockets: one io_uring for all, multishot receive into provided buffers, reads into
// registered buffers from a registered file opened with O_DIRECT, sends out of the buffer that was read into. What has
// been read is answered in pieces with a system call each, and new requests begin before the next piece: a call for all
// that has come lets the disk and the clients wait for one another.
#include <fcntl.h>
#include <liburing.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <vector>

#include "tests/bench/kv/bench_kv.h"

namespace chainio::bench_kv {
namespace {

constexpr unsigned kSlots = 256, kReceive = 1024, kReceiveBytes = 512;
enum class Op : std::uint64_t { receive, read, send };

struct Place {
    sockaddr_in peer{};
    std::array<char, kFrame + 64> head;
    std::array<iovec, 3> parts;
    msghdr message{};
    std::uint32_t number = 0;
};

class FixedServer {
  public:
    explicit FixedServer(const Serve& serve) : serve_(serve), slots_(kSlots) {}
    bool open();
    int run();

  private:
    io_uring_sqe* sqe(Op op, std::uint32_t index);
    void receive();
    void take();
    void answer_some();
    bool look();
    void received(const io_uring_cqe& cqe);
    void start(std::span<const char> request, const sockaddr_in& peer);
    void answer(std::uint32_t index);

    Serve serve_;
    std::vector<Place> slots_;
    std::vector<std::uint32_t> free_, read_;
    std::size_t answered_ = 0;  // of read_
    io_uring ring_{};
    io_uring_buf_ring* buffers_ = nullptr;
    char *blocks_ = nullptr, *packets_ = nullptr;
    msghdr template_{};
    int socket_ = -1;
};

bool FixedServer::open() {
    const int file = ::open(serve_.file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    socket_ = bound_socket(serve_);
    if (file < 0 || socket_ < 0) return false;
    // As our own rings are: without an array of indices where the kernel can (Linux 6.6), and with a registered
    // descriptor.
    const auto made = [this](unsigned more) {
        io_uring_params params{};
        params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
                       IORING_SETUP_CQSIZE | more;
        params.cq_entries = 4096;
        return io_uring_queue_init_params(1024, &ring_, &params) == 0;
    };
    if (!made(IORING_SETUP_NO_SQARRAY) && !made(0)) return false;
    io_uring_register_ring_fd(&ring_);
    constexpr std::size_t kBytes = std::size_t{kSlots} * kBlock;
    void* memory = mmap(nullptr, kBytes + std::size_t{kReceive} * kReceiveBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return false;
    blocks_ = static_cast<char*>(memory);
    packets_ = blocks_ + kBytes;
    const iovec region{blocks_, kBytes};
    const std::array<int, 2> files{file, socket_};
    int error = 0;
    buffers_ = io_uring_setup_buf_ring(&ring_, kReceive, 0, 0, &error);
    if (buffers_ == nullptr || io_uring_register_buffers(&ring_, &region, 1) != 0 ||
        io_uring_register_files(&ring_, files.data(), files.size()) != 0)
        return false;
    for (unsigned i = 0; i < kReceive; i++)
        io_uring_buf_ring_add(buffers_, packets_ + std::size_t{i} * kReceiveBytes, kReceiveBytes,
                              static_cast<unsigned short>(i), io_uring_buf_ring_mask(kReceive), static_cast<int>(i));
    io_uring_buf_ring_advance(buffers_, kReceive);
    for (std::uint32_t i = kSlots; i-- > 0;) free_.push_back(i);
    return true;
}

io_uring_sqe* FixedServer::sqe(Op op, std::uint32_t index) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    while (entry == nullptr) {
        io_uring_submit(&ring_);
        entry = io_uring_get_sqe(&ring_);
    }
    entry->user_data = static_cast<std::uint64_t>(op) << 32 | index;
    return entry;
}

void FixedServer::receive() {
    template_.msg_namelen = sizeof(sockaddr_in);
    io_uring_sqe* entry = sqe(Op::receive, 0);
    const auto data = entry->user_data;
    io_uring_prep_recvmsg_multishot(entry, 1, &template_, 0);
    entry->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    entry->buf_group = 0;
    entry->user_data = data;
}

void FixedServer::received(const io_uring_cqe& cqe) {
    if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
        const unsigned id = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
        char* packet = packets_ + std::size_t{id} * kReceiveBytes;
        io_uring_recvmsg_out* out = cqe.res >= 0 ? io_uring_recvmsg_validate(packet, cqe.res, &template_) : nullptr;
        if (out != nullptr) {
            const auto* payload = static_cast<const char*>(io_uring_recvmsg_payload(out, &template_));
            const auto length = io_uring_recvmsg_payload_length(out, cqe.res, &template_);
            start({payload, length}, *static_cast<const sockaddr_in*>(io_uring_recvmsg_name(out)));
        }
        io_uring_buf_ring_add(buffers_, packet, kReceiveBytes, static_cast<unsigned short>(id),
                              io_uring_buf_ring_mask(kReceive), 0);
        io_uring_buf_ring_advance(buffers_, 1);
    }
    if ((cqe.flags & IORING_CQE_F_MORE) == 0) receive();
}

void FixedServer::start(std::span<const char> request, const sockaddr_in& peer) {
    if (request.size() < kFrame || free_.empty()) return;
    const std::uint32_t number = number_of(request.subspan(kFrame));
    if (number >= serve_.items.count) return;
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Place& slot = slots_[index];
    slot.peer = peer;
    slot.number = number;
    std::memcpy(slot.head.data(), request.data(), kFrame);
    io_uring_sqe* entry = sqe(Op::read, index);
    const auto data = entry->user_data;
    io_uring_prep_read_fixed(entry, 0, blocks_ + std::size_t{index} * kBlock, kBlock, std::uint64_t{number} * kBlock,
                             0);
    entry->flags |= IOSQE_FIXED_FILE;
    entry->user_data = data;
}

void FixedServer::answer(std::uint32_t index) {
    Place& slot = slots_[index];
    const std::size_t head = kFrame + write_head(slot.number, serve_.items.value_bytes, slot.head.data() + kFrame);
    slot.parts = {iovec{slot.head.data(), head}, iovec{blocks_ + std::size_t{index} * kBlock, serve_.items.value_bytes},
                  iovec{const_cast<char*>(kTail), kTailBytes}};
    slot.message = {};
    slot.message.msg_name = &slot.peer;
    slot.message.msg_namelen = sizeof slot.peer;
    slot.message.msg_iov = slot.parts.data();
    slot.message.msg_iovlen = slot.parts.size();
    io_uring_sqe* entry = sqe(Op::send, index);
    const auto data = entry->user_data;
    io_uring_prep_sendmsg(entry, 1, &slot.message, 0);
    entry->flags |= IOSQE_FIXED_FILE;
    entry->user_data = data;
}

int FixedServer::run() {
    receive();
    announce();
    while (!g_stop) {
        const bool waits = answered_ == read_.size();
        const int entered =
            waits && !look() ? io_uring_submit_and_wait(&ring_, 1) : io_uring_submit_and_get_events(&ring_);
        if (entered < 0 && entered != -EINTR) return 3;
        take();
        answer_some();
    }
    return 0;
}

// Whether something has come within the time before it sleeps. What has arrived for a ring of this kind shows when the
// kernel is asked for it.
bool FixedServer::look() {
    if (serve_.spin_us == 0) return false;
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(serve_.spin_us);
    io_uring_submit_and_get_events(&ring_);
    while (io_uring_cq_ready(&ring_) == 0) {
        if (std::chrono::steady_clock::now() >= until) return false;
        if ((*ring_.sq.kflags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0) io_uring_get_events(&ring_);
    }
    return true;
}

void FixedServer::take() {
    unsigned head = 0, count = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring_, head, cqe) {
        count++;
        const auto index = static_cast<std::uint32_t>(cqe->user_data);
        switch (static_cast<Op>(cqe->user_data >> 32)) {
            case Op::receive: received(*cqe); break;
            case Op::read: (cqe->res == static_cast<int>(kBlock) ? read_ : free_).push_back(index); break;
            case Op::send: free_.push_back(index); break;
        }
    }
    io_uring_cq_advance(&ring_, count);
}

void FixedServer::answer_some() {
    const std::size_t busy = kSlots - free_.size();
    const std::size_t piece = std::max<std::size_t>(2, (busy - std::min<std::size_t>(busy, 24)) / 4);
    for (std::size_t i = 0; i < piece && answered_ < read_.size(); i++) answer(read_[answered_++]);
    if (answered_ < read_.size()) return;
    read_.clear();
    answered_ = 0;
}

}  // namespace

int serve_fixed(const Serve& serve) {
    FixedServer server(serve);
    if (!server.open()) {
        std::perror("bench_kv serve-fixed");
        return 3;
    }
    return server.run();
}

}  // namespace chainio::bench_kv
