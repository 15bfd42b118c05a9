#include "tests/unit/shadow/kernel.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace chainio::shadow::test {

std::atomic<ReadsNow> reads_now{ReadsNow::as_they_are};
std::atomic<unsigned> reads_begun{0};
std::atomic<RingReads> ring_reads{RingReads::as_they_are};

}  // namespace chainio::shadow::test

// What is linked with these asks the kernel by way of them.
extern "C" ssize_t readahead(int fd, off64_t offset, size_t length) noexcept {
    chainio::shadow::test::reads_begun++;
    return syscall(SYS_readahead, fd, offset, length);
}

extern "C" ssize_t preadv2(int fd, const iovec* vector, int count, off_t offset, int flags) {
    using chainio::shadow::test::ReadsNow;
    const ReadsNow how = chainio::shadow::test::reads_now;
    const bool now = (flags & RWF_NOWAIT) != 0;
    if (now && how == ReadsNow::never) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (now && (how == ReadsNow::slowly || how == ReadsNow::waiting))
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (now && how == ReadsNow::waiting) flags &= ~RWF_NOWAIT;
    return syscall(SYS_preadv2, fd, vector, count, offset, 0, flags);
}

#ifndef LIBURING_NOEXCEPT
#define LIBURING_NOEXCEPT
#endif

extern "C" int io_uring_submit_and_get_events(io_uring* ring) LIBURING_NOEXCEPT {
    using chainio::shadow::test::RingReads;
    if (chainio::shadow::test::ring_reads == RingReads::not_yet) return 0;
    static const auto next = reinterpret_cast<int (*)(io_uring*)>(dlsym(RTLD_NEXT, "io_uring_submit_and_get_events"));
    return next(ring);
}

extern "C" int io_uring_submit_and_wait(io_uring* ring, unsigned wait_for) LIBURING_NOEXCEPT {
    using chainio::shadow::test::RingReads;
    static const auto next =
        reinterpret_cast<int (*)(io_uring*, unsigned)>(dlsym(RTLD_NEXT, "io_uring_submit_and_wait"));
    const int result = next(ring, wait_for);
    if (chainio::shadow::test::ring_reads != RingReads::again) return result;
    unsigned head = 0;
    io_uring_cqe* done = nullptr;
    io_uring_for_each_cqe(ring, head, done) { done->res = -EAGAIN; }
    return result;
}
