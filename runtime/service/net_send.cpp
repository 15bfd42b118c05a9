// What leaves by a connection: text and frames in their order, in as few operations as there can be.
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "runtime/service/net.h"

namespace chainio::service {

// Operations that are linked are submitted together, and messages are of one submission.
void Net::make_room(std::size_t operations) {
    ring::Shared& ring = seat_->shared();
    bool goes_out = ring.has_room(static_cast<unsigned>(operations));
    if (messages_used_ + operations > messages_.size() && messages_of_ == ring.submissions())
        goes_out = goes_out && ring.submit_all();
    if (!goes_out) messages_used_ = 0;  // nothing that points to them does
}

// Sends one piece without a copy, or none where the first one is not to be sent so, and the others up to the next such
// piece behind it; where the first does not take all, those are cancelled. A send without a copy that is cancelled
// would have an event that kernels do not agree about, so that none stands behind another operation.
unsigned Net::send(std::uint32_t connection, int fd, std::span<const Outgoing> pieces) {
    make_room(2);
    unsigned operations = 0;
    const auto flags = [&] { return MSG_NOSIGNAL | MSG_WAITALL | (pieces.empty() ? 0 : MSG_MORE); };
    if (pieces.front().buffer >= 0) {
        const Outgoing first = pieces.front();
        pieces = pieces.subspan(1);
        io_uring_sqe* sqe = seat_->next_sqe(name_of(NetOp::send_zero_copy, connection, first.part));
        io_uring_prep_send_zc_fixed(sqe, fd, first.data, first.length, flags(), IORING_SEND_ZC_REPORT_USAGE,
                                    static_cast<unsigned>(first.buffer));
        operations++;
        if (pieces.empty() || pieces.front().buffer >= 0) return operations;
        sqe->flags |= IOSQE_IO_LINK;
    }
    const auto end = std::ranges::find_if(pieces, [](const Outgoing& piece) { return piece.buffer >= 0; });
    const auto copied = std::span(pieces.begin(), end);
    pieces = {end, pieces.end()};
    io_uring_sqe* sqe = next_sqe(NetOp::send, connection);
    if (copied.size() == 1) {
        io_uring_prep_send(sqe, fd, copied[0].data, copied[0].length, flags());
        return operations + 1;
    }
    Message& message = next_message();
    message.header = {};
    message.header.msg_iov = message.parts.data();
    message.header.msg_iovlen = copied.size();
    std::ranges::transform(copied, message.parts.begin(), [](const Outgoing& piece) {
        return iovec{const_cast<std::uint8_t*>(piece.data), piece.length};
    });
    io_uring_prep_sendmsg(sqe, fd, &message.header, static_cast<unsigned>(flags()));
    return operations + 1;
}

void Net::without_zero_copy() {
    if (!std::exchange(zero_copy_, false)) return;
    fallbacks_.note(
        "no-zero-copy",
        "the kernel does not send without a copy, or does not say when it copies all the same (SEND_ZC with "
        "REPORT_USAGE: Linux 6.2); replies are copied");
}

}  // namespace chainio::service
