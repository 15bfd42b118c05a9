#include "tests/unit/shadow/kernel.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace chainio::shadow::test {

std::atomic<ReadsNow> reads_now{ReadsNow::as_they_are};
std::atomic<unsigned> reads_begun{0};

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
