// Operations that nobody beside the program can see: through an io_uring, through kernel AIO, and by system calls past
// libc, on the same files and descriptors as all others.
#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "runtime/shim/raw.h"
#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

using shim::raw_call;
using shim::word;

constexpr std::size_t kMostRead = 9000;

class Uring {
  public:
    Uring() : made_(::io_uring_queue_init(8, &ring_, 0)) {}
    ~Uring() {
        if (made_ == 0) ::io_uring_queue_exit(&ring_);
    }
    Uring(const Uring&) = delete;
    int made() const { return made_; }

    // What the operation that `prepare` writes comes to.
    template <class Prepare>
    int run(Prepare prepare) {
        io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
        prepare(entry);
        io_uring_cqe* done = nullptr;
        int result = ::io_uring_submit_and_wait(&ring_, 1);
        while ((result = ::io_uring_wait_cqe(&ring_, &done)) == -EINTR) {}
        if (result != 0) return result;
        result = done->res;
        ::io_uring_cqe_seen(&ring_, done);
        return result;
    }

  private:
    io_uring ring_{};
    int made_;
};

void ring_reads(Actor& a, Uring& ring, int fd) {
    const std::uint64_t at = a.rng.chance(30) ? ~std::uint64_t{0} : a.rng.below(kMostBytes);
    const auto count = static_cast<unsigned>(a.rng.below(kMostRead));
    const auto into = a.buffer(kMostRead);
    const int got = ring.run([&](io_uring_sqe* e) { ::io_uring_prep_read(e, fd, into.data(), count, at); });
    a.note("ring read", got);
    a.bytes(into.data(), got);
    a.position(fd);
}

void ring_writes(Actor& a, Uring& ring, int fd) {
    const auto from = a.random_bytes(a.writable(fd, a.rng.below(3000)));
    const auto count = static_cast<unsigned>(from.size());
    const std::uint64_t at = a.rng.below(kMostBytes);
    a.note("ring write", ring.run([&](io_uring_sqe* e) { ::io_uring_prep_write(e, fd, from.data(), count, at); }));
}

// A descriptor that a ring opens, and one that a ring closes: the number stands for another file then.
void ring_opens(Actor& a, Uring& ring) {
    const std::string one = a.path(a.file()), two = a.path(a.file());
    const int fd = a.call_fd("open", [&] { return ::open(one.c_str(), O_RDONLY | O_CLOEXEC); });
    const auto into = a.buffer(kMostRead);
    a.bytes(into.data(), a.call("read", [&] { return ::read(fd, into.data(), 3000); }));
    a.note("ring close", ring.run([&](io_uring_sqe* e) { ::io_uring_prep_close(e, fd); }));
    const int again =
        ring.run([&](io_uring_sqe* e) { ::io_uring_prep_openat(e, AT_FDCWD, two.c_str(), O_RDONLY | O_CLOEXEC, 0); });
    a.note("ring open", again < 0 ? again : 0);
    if (again < 0) return;
    a.bytes(into.data(), a.call("read", [&] { return ::read(again, into.data(), 3000); }));
    a.bytes(into.data(), a.call("pread", [&] { return ::pread(again, into.data(), 3000, 512); }));
    ::close(again);
}

void use_ring(Actor& a) {
    Uring ring;
    a.note("ring", ring.made());
    if (ring.made() != 0) return;
    for (std::size_t i = 0, count = 1 + a.rng.below(4); i < count; ++i) {
        const int fd = a.slot();
        switch (a.rng.below(4)) {
            case 0: ring_writes(a, ring, fd); break;
            case 1: ring_opens(a, ring); break;
            default: ring_reads(a, ring, fd); break;
        }
    }
}

// In a thread of its own: the kernel interrupts whoever has used a ring when that has been closed, some time later, and
// its workers stay a while where their thread does.
void uring(Actor& a) {
    std::jthread([&] { use_ring(a); }).join();
}

void kernel_aio(Actor& a) {
    aio_context_t context = 0;
    if (a.call("io_setup", [&] { return ::syscall(SYS_io_setup, 4, &context); }) != 0) return;
    const int fd = a.slot(), other = a.slot();
    const auto into = a.buffer(2 * 8192);
    const auto from = a.random_bytes(a.writable(other, a.rng.below(3000)));
    iocb read{}, write{};
    read.aio_lio_opcode = IOCB_CMD_PREAD;
    read.aio_fildes = static_cast<std::uint32_t>(fd);
    read.aio_buf = reinterpret_cast<std::uint64_t>(into.data());
    read.aio_nbytes = a.rng.chance(50) ? 8192 : a.rng.below(8192);
    read.aio_offset = static_cast<std::int64_t>(a.rng.below(4) * 4096);
    write = read;
    write.aio_lio_opcode = IOCB_CMD_PWRITE;
    write.aio_fildes = static_cast<std::uint32_t>(other);
    write.aio_buf = reinterpret_cast<std::uint64_t>(from.data());
    write.aio_nbytes = from.size();
    for (iocb* each : {&read, &write}) {
        iocb* list[] = {each};
        io_event done{};
        const long sent = a.call("io_submit", [&] { return ::syscall(SYS_io_submit, context, 1L, list); });
        if (sent != 1 || ::syscall(SYS_io_getevents, context, 1L, 1L, &done, nullptr) != 1) continue;
        a.note("io_getevents", static_cast<long>(done.res));
        // What a read that failed left in memory is the disk's business.
        if (each == &read) a.bytes(into.data(), static_cast<long>(done.res));
    }
    a.position(fd);
    a.call("io_destroy", [&] { return ::syscall(SYS_io_destroy, context); });
}

// What a program does without libc: seen only where the run rewrites.
void past_libc(Actor& a) {
    const std::string one = a.path(a.file()), two = a.path(a.file());
    const auto into = a.buffer(kMostRead);
    const long fd = raw_call(SYS_openat, AT_FDCWD, word(one.c_str()), O_RDWR | O_CLOEXEC);
    a.note("raw open", std::min(fd, 0L));
    const auto count = static_cast<long>(a.rng.below(kMostRead));
    const long at = static_cast<long>(a.rng.below(kMostBytes));
    const auto read = [&](std::string_view what, long got) {
        a.note(what, got);
        a.bytes(into.data(), got);
    };
    read("raw read", raw_call(SYS_read, fd, word(into.data()), count));
    read("raw pread", raw_call(SYS_pread64, fd, word(into.data()), count, at));
    a.note("raw lseek", raw_call(SYS_lseek, fd, at, SEEK_SET));
    const long copy = raw_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 200);
    a.note("raw copy", std::min(copy, 0L));
    read("raw read of it", raw_call(SYS_read, copy, word(into.data()), 700));
    a.note("raw close", raw_call(SYS_close, fd));
    // The same number again, by libc, and closed past it.
    const int again = a.call_fd("open", [&] { return ::open(two.c_str(), O_RDONLY | O_CLOEXEC); });
    a.bytes(into.data(), a.call("read", [&] { return ::read(again, into.data(), 2000); }));
    a.note("raw close", raw_call(SYS_close, again));
    // Beside other threads the number may stand for what one of them has opened by now.
    if (a.alone) a.bytes(into.data(), a.call("read of a closed one", [&] { return ::read(again, into.data(), 10); }));
    read("raw read of it", raw_call(SYS_read, copy, word(into.data()), 700));
    a.note("raw close", raw_call(SYS_close, copy));
    a.note("raw no such", raw_call(SYS_read, -1, word(into.data()), 1));
    a.note("raw fault", raw_call(SYS_openat, AT_FDCWD, 8, O_RDONLY));
    a.call("open of nothing", [&] { return ::open(reinterpret_cast<const char*>(8), O_RDONLY); });
}

// How much of it is there at once depends on who reads ahead: what is there has to be right, and nothing else changes.
void without_waiting(Actor& a) {
    const int fd = a.slot();
    const auto into = a.buffer(2 * kMostRead);
    const auto at = static_cast<off_t>(a.rng.below(kMostBytes));
    const iovec part = {into.data(), kMostRead}, whole = {into.data() + kMostRead, kMostRead};
    errno = kUntouched;
    const ssize_t some = ::preadv2(fd, &part, 1, at, RWF_NOWAIT);
    const int error = some < 0 ? errno : 0;
    const long all = a.call("preadv2", [&] { return ::preadv2(fd, &whole, 1, at, 0); });
    a.bytes(whole.iov_base, all);
    // In the same words for both: whatever drops clean pages, on this machine or in this program, decides which it is.
    const bool right =
        some < 0 ? error == EAGAIN || error == EOPNOTSUPP || all < 0
                 : some <= all && std::memcmp(part.iov_base, whole.iov_base, static_cast<std::size_t>(some)) == 0;
    a.note("right without waiting", right);
    a.position(fd);
}

}  // namespace

Operations ring_operations() {
    return {{"io_uring", 4, uring, true, true, true},
            {"kernel AIO", 2, kernel_aio, true, true, true},
            {"past libc", 4, past_libc, true, true},
            {"without waiting", 2, without_waiting, true, true}};
}

}  // namespace chainio::random_program
