// Bytes that move between descriptors inside the kernel, and pipes.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

void send_file(Actor& a) {
    const int from = a.slot();
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return;
    off_t at = static_cast<off_t>(a.rng.below(20000));
    const std::size_t count = a.rng.below(30000);
    if (a.rng.chance(50)) {
        a.call("sendfile", [&] { return ::sendfile(ends[1], from, &at, count); });
        a.note("offset", at);
    } else {
        a.call("sendfile64", [&] { return ::sendfile64(ends[1], from, nullptr, count); });
        a.position(from);
    }
    const auto into = a.buffer(30000);
    a.bytes(into.data(), a.call("read", [&] { return ::read(ends[0], into.data(), into.size()); }));
    ::close(ends[0]);
    ::close(ends[1]);
}

void splice_file(Actor& a) {
    const int from = a.slot(), to = a.slot();
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) return;
    off64_t at = static_cast<off64_t>(a.rng.below(20000));
    const bool keeps = a.rng.chance(50);
    const long moved = a.call(
        "splice in", [&] { return ::splice(from, keeps ? &at : nullptr, ends[1], nullptr, 20000, SPLICE_F_NONBLOCK); });
    if (moved > 0 && a.rng.chance(40)) {
        int copy[2] = {-1, -1};
        if (::pipe(copy) == 0) {
            a.call("tee", [&] { return ::tee(ends[0], copy[1], 5000, SPLICE_F_NONBLOCK); });
            ::close(copy[0]);
            ::close(copy[1]);
        }
    }
    if (a.rng.chance(50))
        a.call("splice out",
               [&] { return ::splice(ends[0], nullptr, to, nullptr, a.writable(to, 19999), SPLICE_F_NONBLOCK); });
    int left = 0;
    a.call("FIONREAD", [&] { return ::ioctl(ends[0], FIONREAD, &left); });
    const auto into = a.buffer(static_cast<std::size_t>(left) + 1);
    if (left > 0) a.bytes(into.data(), a.call("read", [&] { return ::read(ends[0], into.data(), into.size()); }));
    ::close(ends[0]);
    ::close(ends[1]);
    a.position(from);
}

void copy_range(Actor& a) {
    const int from = a.slot(), to = a.slot();
    off64_t at = static_cast<off64_t>(a.rng.below(20000)), into = static_cast<off64_t>(a.rng.below(20000));
    const std::size_t count = a.writable(to, a.rng.below(20000));
    const bool both = a.rng.chance(60);
    a.call("copy_file_range",
           [&] { return ::copy_file_range(from, both ? &at : nullptr, to, both ? &into : nullptr, count, 0); });
    a.text(fmt::format("{} {}", at, into));
}

void pipes(Actor& a) {
    int ends[2] = {-1, -1};
    a.call("pipe2", [&] { return ::pipe2(ends, a.rng.chance(50) ? O_NONBLOCK : O_CLOEXEC); });
    const bool waits = (::fcntl(ends[0], F_GETFL) & O_NONBLOCK) == 0;
    const auto into = a.buffer(9000);
    if (!waits) a.call("read of nothing", [&] { return ::read(ends[0], into.data(), into.size()); });
    const auto data = a.random_bytes(1 + a.rng.below(4000));
    a.call("write", [&] { return ::write(ends[1], data.data(), data.size()); });
    iovec part = {data.data(), data.size() / 2};
    a.call("vmsplice", [&] { return ::vmsplice(ends[1], &part, 1, 0); });
    pollfd waiting = {.fd = ends[0], .events = POLLIN, .revents = 0};
    a.call("poll", [&] { return ::poll(&waiting, 1, 1000); });
    a.bytes(into.data(), a.call("readv", [&] {
        const iovec parts[2] = {{into.data(), 100}, {into.data() + 100, 8000}};
        return ::readv(ends[0], parts, 2);
    }));
    a.call("pread of a pipe", [&] { return ::pread(ends[0], into.data(), 10, 0); });
    a.call("lseek of a pipe", [&] { return ::lseek(ends[0], 0, SEEK_CUR); });
    ::close(ends[1]);
    a.call("read at the end", [&] { return ::read(ends[0], into.data(), into.size()); });
    ::close(ends[0]);
}

void full_pipe(Actor& a) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return;
    a.call("F_SETPIPE_SZ", [&] { return ::fcntl(ends[1], F_SETPIPE_SZ, 4096); });
    const auto data = a.random_bytes(3000);
    for (int i = 0; i < 3; ++i) a.call("write", [&] { return ::write(ends[1], data.data(), data.size()); });
    ::close(ends[0]);
    // SIGPIPE is ignored in all programs.
    a.call("write to nobody", [&] { return ::write(ends[1], data.data(), data.size()); });
    ::close(ends[1]);
}

}  // namespace

Operations transfer_operations() {
    return {{"sendfile", 4, send_file, true, true},
            {"splice", 3, splice_file, true, true},
            {"copy range", 3, copy_range, true, true},
            {"pipes", 3, pipes, true, true},
            {"full pipe", 1, full_pipe, true, true}};
}

}  // namespace chainio::random_program
