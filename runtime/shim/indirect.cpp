// A way around the names: syscall(), whose calls are told apart by their numbers.
#include "runtime/shim/indirect.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cerrno>

#include "runtime/shim/lease.h"
#include "runtime/shim/next.h"
#include "runtime/shim/program_file.h"
#include "runtime/shim/removal.h"
#include "runtime/shim/rewrite.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {
namespace {

// What a call reads, when it reads from a descriptor that something matches.
struct Reading {
    Slot* slot = nullptr;
    int fd = -1;
    std::int64_t offset = kAtPosition;
    const std::int64_t* place = nullptr;  // where the call finds the offset, of those that move it on
    const void* buffer = nullptr;
};

Reading reading(long number, const Arguments& in) {
    Reading found;
    found.fd = static_cast<int>(number == SYS_sendfile ? in.b : in.a);
    found.slot = table.watched(found.fd);
    if (!found.slot) return found;
    switch (number) {
        case SYS_pread64:
        case SYS_preadv:
        case SYS_preadv2: found.offset = in.d; break;
        case SYS_sendfile: found.place = reinterpret_cast<const std::int64_t*>(in.c); break;
        case SYS_splice:
        case SYS_copy_file_range: found.place = reinterpret_cast<const std::int64_t*>(in.b); break;
        case SYS_read: found.buffer = reinterpret_cast<const void*>(in.b); break;
        case SYS_recvfrom:
            if (in.d & kTakesNothing) found.slot = nullptr;
            found.buffer = shown(reinterpret_cast<const void*>(in.b), static_cast<int>(in.d));
            break;
        default: break;
    }
    return found;
}

std::uint64_t flags_of(long number, const Arguments& in) {
    switch (number) {
        case SYS_openat: return static_cast<std::uint64_t>(in.c);
        case SYS_openat2: return in.c != 0 ? reinterpret_cast<const open_how*>(in.c)->flags : 0;
#ifdef SYS_open
        case SYS_open: return static_cast<std::uint64_t>(in.b);
#endif
        default: return O_CREAT | O_WRONLY | O_TRUNC;
    }
}

long open_by_number(Six call, long number, const Arguments& in) {
    const long fd = call(number, in.a, in.b, in.c, in.d, in.e, in.f);
    const bool in_folder = number == SYS_openat || number == SYS_openat2;
    if (fd >= 0)
        opened(static_cast<int>(fd), reinterpret_cast<const char*>(in_folder ? in.b : in.a), flags_of(number, in));
    return fd;
}

bool read_by_number(Six call, long number, const Arguments& in, long& result) {
    const Reading found = reading(number, in);
    if (!found.slot) return false;
    const auto read = [=] { return call(number, in.a, in.b, in.c, in.d, in.e, in.f); };
    if (found.place) {
        result = moved_seen(*found.slot, found.fd, found.place, read);
        return true;
    }
    if (!concerns_us(*found.slot)) return false;
    result = read_seen(*found.slot, found.fd, found.offset, found.buffer, 0, read);
    return true;
}

// Of a socket that does not block, the call says that it is under way: the kernel's own way, or libc's.
bool connects(long result) { return result == 0 || result == -EINPROGRESS || (result == -1 && errno == EINPROGRESS); }

void before_close(long number, const Arguments& in) {
    if (number == SYS_close) return closing(static_cast<int>(in.a));
    closing_range(static_cast<unsigned>(in.a), static_cast<unsigned>(in.b), static_cast<int>(in.c));
}

// What a call has done to descriptors, after it succeeded.
void after_call(long number, const Arguments& in, long result) {
    switch (number) {
        case SYS_fcntl:
            if (in.b == F_SETFL) return flags_set(static_cast<int>(in.a), static_cast<std::uint64_t>(in.c));
            if (in.b == F_SETLK || in.b == F_SETLKW) own_descriptors_only();
            if (in.b != F_DUPFD && in.b != F_DUPFD_CLOEXEC) return;
            [[fallthrough]];
        case SYS_dup:
        case SYS_dup3:
#ifdef SYS_dup2
        case SYS_dup2:
#endif
            return duplicated(static_cast<int>(in.a), static_cast<int>(result));
        case SYS_mmap: return mapped(static_cast<int>(in.e), static_cast<int>(in.c), static_cast<int>(in.d));
        case SYS_listen: return listening(static_cast<int>(in.a), "listen");
        case SYS_bind:
            return listening(static_cast<int>(in.a), "bind", reinterpret_cast<const void*>(in.b),
                             static_cast<unsigned>(in.c));
        case SYS_accept:
        case SYS_accept4: return accepted(static_cast<int>(in.a), static_cast<int>(result));
        case SYS_epoll_ctl:
            return epoll_changed(static_cast<int>(in.a), static_cast<int>(in.b), static_cast<int>(in.c),
                                 reinterpret_cast<const epoll_event*>(in.d));
#ifdef SYS_epoll_wait
        case SYS_epoll_wait:
#endif
        case SYS_epoll_pwait:
        case SYS_epoll_pwait2:
            epoll_ready(static_cast<int>(in.a), reinterpret_cast<const epoll_event*>(in.b), static_cast<int>(result));
            return;
        case SYS_connect:
            return connected(static_cast<int>(in.a), reinterpret_cast<const void*>(in.b), static_cast<unsigned>(in.c));
#ifdef SYS_unlink
        case SYS_unlink: return removed(reinterpret_cast<const char*>(in.a));
        case SYS_rename:
#endif
        case SYS_unlinkat: return removed(reinterpret_cast<const char*>(in.b));
        case SYS_renameat:
        case SYS_renameat2: return removed(reinterpret_cast<const char*>(in.d));
        case SYS_io_uring_setup: return post_note(Note::io_uring, nullptr);
        case SYS_io_setup: return post_note(Note::aio, nullptr);
        default: return;
    }
}

// clone3 takes its flags from memory, which may be any.
std::uint64_t flags_of_child(long number, const Arguments& in) {
    auto flags = static_cast<std::uint64_t>(in.a);
    if (number != SYS_clone3) return flags;
    flags = CLONE_VM;
    read_safely(in.a, &flags, sizeof flags);
    return flags;
}

// seccomp(2) also tells what the kernel knows of it. The strict mode has neither flags nor a filter: with either the
// kernel refuses it, which is how libseccomp asks whether there is such a call.
bool restricts_by_seccomp(const Arguments& in) {
    const auto operation = static_cast<unsigned>(in.a), flags = static_cast<unsigned>(in.b);
    if (operation == SECCOMP_SET_MODE_STRICT) return flags == 0 && in.c == 0;
    return operation == SECCOMP_SET_MODE_FILTER && filters(SECCOMP_MODE_FILTER, static_cast<unsigned long>(in.c));
}

void before_sandbox(long number, const Arguments& in) {
    const bool is_prctl = number == SYS_prctl;
    const auto b = static_cast<unsigned long>(in.b), c = static_cast<unsigned long>(in.c);
    if (is_prctl ? restricts(static_cast<int>(in.a), b, c) : restricts_by_seccomp(in)) enters_sandbox();
}

}  // namespace

bool seen_by_number(Six call, long number, const Arguments& in, long& result) {
    switch (number) {
#ifdef SYS_open
        case SYS_open:
        case SYS_creat:
#endif
        case SYS_openat:
        case SYS_openat2: result = open_by_number(call, number, in); return true;
        case SYS_read:
        case SYS_pread64:
        case SYS_readv:
        case SYS_preadv:
        case SYS_preadv2:
        case SYS_sendfile:
        case SYS_splice:
        case SYS_copy_file_range:
        case SYS_recvfrom: return read_by_number(call, number, in, result);
        case SYS_close:
        case SYS_close_range: before_close(number, in); return false;
        case SYS_fadvise64: advised_by_program(static_cast<int>(in.a), static_cast<int>(in.d)); return false;
        case SYS_rt_sigaction: handles_by_number(in.a, in.b); return false;
        case SYS_seccomp:
        case SYS_prctl: before_sandbox(number, in); return false;
#ifdef SYS_vfork
        case SYS_vfork: may_share_memory(); return false;
#endif
        case SYS_clone:
        case SYS_clone3: starts_child(flags_of_child(number, in)); return false;
        case SYS_execve: executes(reinterpret_cast<const char*>(in.a)); return false;
        case SYS_execveat:
            executes({static_cast<int>(in.a), reinterpret_cast<const char*>(in.b), static_cast<int>(in.e)});
            return false;
        case SYS_umount2: {
            const auto unmount = [&] { return call(number, in.a, in.b, in.c, in.d, in.e, in.f); };
            result = without_open_files(EBUSY, unmount);
            return true;
        }
        case SYS_fcntl:
            if (in.b == F_SETLEASE) {
                const auto set = [&] { return call(number, in.a, in.b, in.c, in.d, in.e, in.f); };
                result = leased(static_cast<int>(in.a), in.c, set);
                return true;
            }
            [[fallthrough]];
#ifdef SYS_dup2
        case SYS_dup2:
#endif
#ifdef SYS_epoll_wait
        case SYS_epoll_wait:
#endif
#ifdef SYS_unlink
        case SYS_unlink:
        case SYS_rename:
#endif
        case SYS_unlinkat:
        case SYS_renameat:
        case SYS_renameat2:
        case SYS_mmap:
        case SYS_dup:
        case SYS_dup3:
        case SYS_listen:
        case SYS_bind:
        case SYS_accept:
        case SYS_accept4:
        case SYS_connect:
        case SYS_epoll_ctl:
        case SYS_epoll_pwait:
        case SYS_epoll_pwait2:
        case SYS_io_uring_setup:
        case SYS_io_setup:
            result = call(number, in.a, in.b, in.c, in.d, in.e, in.f);
            if (result >= 0 || (number == SYS_connect && connects(result))) after_call(number, in, result);
            return true;
        default: return false;
    }
}

// libc's takes what it is given in registers, and so does this one; what nobody passed is handed on and read by nobody.
// Calls that are not listed are jumped to: after some of them, the stack is not what it was.
CHAINIO_CALL(long, syscall, long number, long a, long b, long c, long d, long e, long f) {
    auto* next = CHAINIO_NEXT(syscall);
    long result = 0;
    if (seen_by_number(next, number, {a, b, c, d, e, f}, result)) return result;
    [[clang::musttail]] return next(number, a, b, c, d, e, f);
}

}  // namespace chainio::shim
