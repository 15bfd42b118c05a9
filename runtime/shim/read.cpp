// Reads of files and receives of sockets by read(2) and its relatives, and what leaves a file by other ways.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdint>

#include "runtime/shim/may_lack.h"
#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/vectors.h"

CHAINIO_MAY_LACK(pthread_testcancel);

namespace chainio::shim {
namespace {

// The bytes of a vector that a socket's server may be shown: those of its first buffer. A file's are not looked at.
template <class Call>
ssize_t vector_seen(Slot& slot, int fd, std::int64_t offset, const iovec* list, int count, Call call) {
    if (slot.kind() == Kind::file) return read_seen(slot, fd, offset, nullptr, 0, call);
    const bool is_told_of = count > 0 && wants(slot, kPostReady);
    const iovec first = is_told_of ? Vectors().first_of(list, static_cast<std::size_t>(count)) : iovec{};
    const ssize_t got = call();
    if (got > 0) {
        const auto all = static_cast<std::size_t>(got);
        post_ready(slot, first.iov_base, all < first.iov_len ? all : first.iov_len);
    }
    return got;
}

// Tries to read without waiting, which some file systems (FUSE) do not know; a read that would wait is preceded by a
// look at who asks. What the kernel says of the try.
long try_or_look(int fd, std::int64_t at, void* buffer, std::size_t size) {
    if (at < 0) return -EINVAL;  // for this call -1 is the descriptor's own place, which would move on
    const iovec vector{buffer, size};
    const long got = raw_call(SYS_preadv2, fd, word(&vector), 1, at, 0, RWF_NOWAIT);
    if (got == -EAGAIN) look_before_waiting();
    return got;
}

// The bytes of a whole read that need not wait, or 0: the program's own call is to be made.
ssize_t read_or_look(int fd, std::int64_t at, void* buffer, std::size_t size) {
    if (pthread_testcancel) pthread_testcancel();  // as the call would
    return try_or_look(fd, at, buffer, size) == static_cast<long>(size) ? static_cast<ssize_t>(size) : 0;
}

// Of bytes that go from a file's place elsewhere, by calls that are made in any case: the first says it for all.
void look_if_waits(int fd, const off_t* place, std::size_t size) {
    if (!place || size >= kLongRead || !looks_before_waits()) [[likely]]
        return;
    off_t at = 0;
    char first;
    if (read_safely(word(place), &at, sizeof at)) try_or_look(fd, at, &first, sizeof first);
}

// What moves from a file to a socket, a pipe or another file is read by the program as far as the disk is concerned.
template <class Call>
ssize_t moved(int in, const off_t* offset, std::size_t size, Call call) {
    Slot* slot = table.watched(in);
    if (!slot || slot->kind() != Kind::file) [[likely]]
        return call();
    return moved_seen(*slot, in, offset, [&] {
        look_if_waits(in, offset, size);
        return call();
    });
}

// What a read into one buffer from a place of its own is besides the call; the only kind that may be served.
struct Concern {
    bool seen = false;      // to be told of
    bool served = false;    // may be answered from served memory
    bool may_wait = false;  // to be tried without waiting first
    bool any() const { return seen || served || may_wait; }
};

// Long reads are told of before they begin.
Concern concern_of(const Slot& slot, std::size_t size) {
    if (slot.kind() != Kind::file) return {};
    const bool served = table.opening(slot).reads.load(std::memory_order_relaxed) == Reads::served;
    return {concerns_us(slot, size), served, !served && size < kLongRead && looks_before_waits()};
}

template <class Call>
[[gnu::noinline]] ssize_t pread_seen(Slot& slot, int fd, std::int64_t at, void* buffer, std::size_t size,
                                     Concern concern, Call call) {
    const auto read = [&] {
        const ssize_t got = concern.served     ? serve(slot, fd, at, buffer, size)
                            : concern.may_wait ? read_or_look(fd, at, buffer, size)
                                               : 0;
        return got > 0 ? got : call();
    };
    return concern.seen ? read_seen(slot, fd, at, buffer, size, read) : read();
}

// Reads of matched descriptors, apart from the look-up that every call pays for. The room behind the others is for the
// functions that look at it; to the rest it is an argument that nobody reads. In the order in which the registers are.
using Pread = ssize_t (*)(int, void*, std::size_t, off_t, std::size_t);
[[gnu::noinline]] ssize_t pread_matched(int fd, void* buffer, std::size_t size, off_t at, Slot& slot, Pread next) {
    const Concern concern = concern_of(slot, size);
    if (!concern.any()) return next(fd, buffer, size, at, size);
    return pread_seen(slot, fd, at, buffer, size, concern, [=] { return next(fd, buffer, size, at, size); });
}

using Read = ssize_t (*)(int, void*, std::size_t, std::size_t);
[[gnu::noinline]] ssize_t read_matched(int fd, void* buffer, std::size_t size, std::size_t room, Slot& slot,
                                       Read next) {
    if (!concerns_us(slot, size)) return next(fd, buffer, size, room);
    return read_seen(slot, fd, kAtPosition, buffer, size, [=] { return next(fd, buffer, size, room); });
}

}  // namespace

void mapped(int fd, int protection, int flags) {
    Slot* slot = flags & MAP_ANONYMOUS ? nullptr : table.watched(fd);
    if (!slot || slot->kind() != Kind::file || !(protection & (PROT_READ | PROT_EXEC))) [[likely]]
        return;
    Opening& opening = table.opening(*slot);
    if (opening.mapped.exchange(1) == 0) post_note(Note::mapped, nullptr, opening.device.load(), opening.inode.load());
}

// The one look-up that a call pays for whose descriptor nothing matches; then it goes on as a jump. More than there is
// room for is libc's to refuse.
#define CHAINIO_READ(name, room, parameters, ...)                                                              \
    CHAINIO_CALL(ssize_t, name, CHAINIO_LIST parameters) {                                                     \
        Slot* slot = table.watched(fd);                                                                        \
        if (!slot || size > room) [[likely]]                                                                   \
            return CHAINIO_NEXT(name)(__VA_ARGS__);                                                            \
        return read_matched(fd, buffer, size, room, *slot, reinterpret_cast<Read>(next_function(Name::name))); \
    }
#define CHAINIO_PREAD(name, room, parameters, ...)                                                             \
    CHAINIO_CALL(ssize_t, name, CHAINIO_LIST parameters) {                                                     \
        Slot* slot = table.watched(fd);                                                                        \
        if (!slot || size > room) [[likely]]                                                                   \
            return CHAINIO_NEXT(name)(__VA_ARGS__);                                                            \
        return pread_matched(fd, buffer, size, at, *slot, reinterpret_cast<Pread>(next_function(Name::name))); \
    }
#define CHAINIO_READV(name, offset, parameters, ...)                                                         \
    CHAINIO_CALL(ssize_t, name, CHAINIO_LIST parameters) {                                                   \
        Slot* slot = table.watched(fd);                                                                      \
        if (!slot || !concerns_us(*slot)) [[likely]]                                                         \
            return CHAINIO_NEXT(name)(__VA_ARGS__);                                                          \
        return vector_seen(*slot, fd, offset, list, count, [=] { return CHAINIO_NEXT(name)(__VA_ARGS__); }); \
    }
#define CHAINIO_LIST(...) __VA_ARGS__

CHAINIO_READ(read, SIZE_MAX, (int fd, void* buffer, std::size_t size), fd, buffer, size)
CHAINIO_READ(__read, SIZE_MAX, (int fd, void* buffer, std::size_t size), fd, buffer, size)
CHAINIO_READ(__read_chk, room, (int fd, void* buffer, std::size_t size, std::size_t room), fd, buffer, size, room)
CHAINIO_PREAD(pread, SIZE_MAX, (int fd, void* buffer, std::size_t size, off_t at), fd, buffer, size, at)
CHAINIO_PREAD(pread64, SIZE_MAX, (int fd, void* buffer, std::size_t size, off_t at), fd, buffer, size, at)
CHAINIO_PREAD(__pread64, SIZE_MAX, (int fd, void* buffer, std::size_t size, off_t at), fd, buffer, size, at)
CHAINIO_PREAD(__pread_chk, room, (int fd, void* buffer, std::size_t size, off_t at, std::size_t room), fd, buffer, size,
              at, room)
CHAINIO_PREAD(__pread64_chk, room, (int fd, void* buffer, std::size_t size, off_t at, std::size_t room), fd, buffer,
              size, at, room)
CHAINIO_READV(readv, kAtPosition, (int fd, const iovec* list, int count), fd, list, count)
CHAINIO_READV(preadv, at, (int fd, const iovec* list, int count, off_t at), fd, list, count, at)
CHAINIO_READV(preadv64, at, (int fd, const iovec* list, int count, off_t at), fd, list, count, at)
CHAINIO_READV(preadv2, at, (int fd, const iovec* list, int count, off_t at, int flags), fd, list, count, at, flags)
CHAINIO_READV(preadv64v2, at, (int fd, const iovec* list, int count, off_t at, int flags), fd, list, count, at, flags)

#define CHAINIO_SENDFILE(name)                                                                     \
    CHAINIO_CALL(ssize_t, name, int out, int in, off_t* offset, std::size_t size) {                \
        return moved(in, offset, size, [=] { return CHAINIO_NEXT(name)(out, in, offset, size); }); \
    }
CHAINIO_SENDFILE(sendfile)
CHAINIO_SENDFILE(sendfile64)

CHAINIO_CALL(ssize_t, splice, int in, off_t* in_offset, int out, off_t* out_offset, std::size_t size, unsigned flags) {
    return moved(in, in_offset, size,
                 [=] { return CHAINIO_NEXT(splice)(in, in_offset, out, out_offset, size, flags); });
}
CHAINIO_CALL(ssize_t, copy_file_range, int in, off_t* in_offset, int out, off_t* out_offset, std::size_t size,
             unsigned flags) {
    return moved(in, in_offset, size,
                 [=] { return CHAINIO_NEXT(copy_file_range)(in, in_offset, out, out_offset, size, flags); });
}

#define CHAINIO_MMAP(name)                                                                                        \
    CHAINIO_CALL(void*, name, void* address, std::size_t size, int protection, int flags, int fd, off_t offset) { \
        if (flags & MAP_ANONYMOUS || !table.watched(fd)) [[likely]]                                               \
            return CHAINIO_NEXT(name)(address, size, protection, flags, fd, offset);                              \
        void* memory = CHAINIO_NEXT(name)(address, size, protection, flags, fd, offset);                          \
        if (memory != MAP_FAILED) mapped(fd, protection, flags);                                                  \
        return memory;                                                                                            \
    }
CHAINIO_MMAP(mmap)
CHAINIO_MMAP(mmap64)

}  // namespace chainio::shim
