// Buffers that the kernel receives into: all of them serve, few are with the kernel, and the last one back is the next
// one used.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "runtime/ring/shared.h"
#include "runtime/service/provided.h"

namespace chainio::service {
namespace {

constexpr std::uint32_t kCount = 8, kBytes = 64, kWithKernel = 2;

TEST(Provided, FewAreUsedWhereFewAreNeeded) {
    metrics::Fallbacks fallbacks;
    auto ring = ring::Shared::create({.entries = 8, .cq_entries = 64}, fallbacks);
    if (!ring) GTEST_SKIP() << ring.error();
    ASSERT_EQ((*ring)->bind(), 0);
    auto seat = (*ring)->sit();
    Provided buffers(kCount, kBytes, kWithKernel);
    ASSERT_TRUE(buffers.hand_to((*ring)->ring().get(), 3));
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    const auto receive = [&] {
        io_uring_sqe* sqe = seat->next_sqe(0);
        io_uring_prep_recv(sqe, ends[0], nullptr, kBytes, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = 3;
    };
    // The number of the buffer that the next message came into; -1: there was none for it.
    const auto next = [&](char message) {
        EXPECT_EQ(send(ends[1], &message, 1, 0), 1);
        receive();
        EXPECT_EQ((*ring)->turn(1), 0);
        const ring::Came came = seat->take();
        if (came.result == -ENOBUFS) return -1;
        const auto buffer = came.flags >> IORING_CQE_BUFFER_SHIFT;
        EXPECT_EQ(*buffers.data(buffer), static_cast<std::uint8_t>(message));
        buffers.used();
        return static_cast<int>(buffer);
    };
    std::set<int> seen;
    for (int i = 0; i < 50; i++) {
        const int buffer = next('a');
        seen.insert(buffer);
        buffers.give_back(static_cast<std::uint32_t>(buffer));
    }
    EXPECT_EQ(seen.size(), kWithKernel + 1);
    // None comes back: each serves once, and what finds none is told so.
    seen.clear();
    for (std::uint32_t i = 0; i < kCount; i++) seen.insert(next('b'));
    EXPECT_EQ(seen.size(), kCount);
    EXPECT_EQ(next('c'), -1);
    for (const int buffer : seen) buffers.give_back(static_cast<std::uint32_t>(buffer));
    char byte = 0;
    EXPECT_EQ(recv(ends[0], &byte, 1, MSG_DONTWAIT), 1) << "what was refused waits in the socket";
    EXPECT_EQ(next('d'), *seen.begin());
    close(ends[0]);
    close(ends[1]);
}

}  // namespace
}  // namespace chainio::service
