// What the interposed functions share: the state of the process, and what they say about descriptors.
#pragma once
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "runtime/shim/endings.h"
#include "runtime/shim/post.h"
#include "runtime/shim/protocol.h"
#include "runtime/shim/raw.h"
#include "runtime/shim/table.h"

struct epoll_event;

namespace chainio::shim {

struct Place;  // program_file.h

// ---- region.cpp: the process ----
extern constinit Table table;
// Maps the region when there is one, once; the first open or the library's constructor. Null when the process runs
// plain.
Region* start();
Region* region();       // null before start(), and in a thread that is silent, too
Region* live_region();  // null also when no server looks
Process& process();
// The process allows itself only some system calls from here on, or only those of some code, and one of ours could end
// it: everything is plain.
void enters_sandbox();
bool is_sandboxed();  // the process, or the calling thread where that is a child that shares its parent's memory
// The path of a file in the folder of `path`. False: it is too long, or there is no folder.
using Beside = char[kMaxPath + 16];
bool beside(const char* path, const char* name, Beside& out);
// Whether nobody else may write it. So it has to be with what a run has made: a process may outlive its run, whose
// folder anybody may make anew then. In a folder of the user's own nobody else changes what is opened.
bool is_users_alone(const struct stat& status);
// Whether a program that this process executes will find no region, since the run is another user's.
bool is_another_user();
bool in_vfork_child();  // the caller shares its memory with a parent that has other descriptors

// ---- process.cpp ----
// The process is about to become another program. Whether that one's loader would complain about us.
bool executes(const Place& place);
bool executes(const char* path);
// Whether seccomp restricts the process by these: who names no filter only asks whether there are any.
bool filters(unsigned long mode, unsigned long filter);
// Whether prctl with these arguments restricts which system calls are made, or from where.
bool restricts(int option, unsigned long a, unsigned long b);
void leaving();                          // the same, of a program that has been looked at
void starts_child(std::uint64_t flags);  // the thread is about to, by clone with these flags
void may_share_memory();  // the thread is about to start a child that shares its memory, and waits for it
// Whether the process runs under a filter of seccomp, which may end it for a system call that it would not make itself.
// It gets one before it executes the program, or by calls after which the library makes none of its own. Where there is
// no /proc nothing tells, and it is not asked again.
enum class Filter : std::uint8_t { unknown, none, some, untold };
// Asks, where that is not known yet. A process of several threads is only asked as it starts: see child.h, and a filter
// may let nobody make the child.
void learn_filter();
Filter filter_of_process();

// ---- classify.cpp ----
extern constinit Endings endings;
// A new descriptor, which they return: finds out whether a class matches it. Most are refused by the last two bytes of
// their path, so that an open costs little more, and most others by all that are known.
int may_be_matched(int descriptor, const char* path, std::uint64_t flags);
int may_end_alike(int descriptor, const char* path, std::uint64_t flags);
inline bool concerns_us(int opened, const char* path) {
    // One jump for both: each one behind a system call counts.
    const unsigned watched = table.may_be_watched(opened), well = endings.ends_well(path);
    return (watched | well) != 0;
}
inline int opened(int descriptor, const char* path, std::uint64_t flags) {
    if (concerns_us(descriptor, path)) [[unlikely]]
        return may_end_alike(descriptor, path, flags);
    return descriptor;
}
// Whether a path that ends as `path` does could match some class once its folder is known.
bool may_match(const Plan& plan, const char* path);
// removal.cpp: the file that had this name may be gone. Waits until the server, where it has it open, has let go of it.
void may_have_removed(const char* path);
inline void removed(const char* path) {
    if (endings.ends_well(path)) [[unlikely]]
        may_have_removed(path);
}
void inherited(int descriptor);                                // one that was there before the program
void closing(int descriptor);                                  // it is about to be closed, or has been replaced
void flags_set(int descriptor, std::uint64_t flags);           // by F_SETFL: it may read past the cache now, or by it
void closing_range(unsigned first, unsigned last, int flags);  // descriptor.cpp: before close_range, with its arguments
inline constexpr int kNoRule = -1;
// Of a file: nothing is told of it any more, nor of other descriptors of the same opening. The rule that it had.
int leave_alone(int descriptor);
void watch_again(int descriptor, int rule);  // it alone, as if it had been opened now
void duplicated(int from, int to);
// A TCP socket listens, or a UDP socket is bound, to `address` when that is known.
void listening(int descriptor, const char* call, const void* address = nullptr, unsigned bytes = 0);
// child.cpp: from here on nothing of ours opens or closes a file that the program may have open, too: it holds record
// locks, which end with any descriptor of their file, or has descriptors in common with somebody whom libc does not
// know.
void own_descriptors_only();
void accepted(int listener, int descriptor);
// read_ahead.cpp: of a descriptor that the program has just opened, as far as the server wishes for its class.
void read_nothing_ahead(Region& region, int descriptor, std::uint64_t flags);
// Of a read that has waited: the kernel is to read ahead again where the server no longer wishes otherwise.
void read_ahead_again(const Region& region, int descriptor, const Slot& slot);
void advised_by_program(int descriptor, int advice);  // it says itself how it reads the file
void connected(int descriptor, const void* address, unsigned bytes);

// ---- seen.cpp: what is said about reads ----
void post(Region& region, const Event& event, const void* payload, std::uint32_t bytes);
void post_note(Note note, const char* text, std::uint64_t device = 0, std::uint64_t inode = 0);
void post_note_of(Note note, int descriptor);  // classify.cpp: the kernel's name of what it has open
bool wants(const Slot& slot, std::uint32_t what);
// Of a file: whether the next one is to be timed and passed to post_read. A long one (kLongRead) takes no time of note
// to time.
bool looks_at_read(const Slot& slot, bool is_long);
// Whether a read of the slot's descriptor is more than the call itself; then it is read_seen()'s. Asked once for each
// read. What is not is best gone on with as a jump: the kernel makes the processor forget where functions return to, so
// that each frame of ours below a system call costs a return that is foretold wrongly.
bool concerns_us(const Slot& slot, std::size_t asked = 0);
// Whether it was told that the read begins.
bool post_begun(int descriptor, const Slot& slot, std::int64_t offset, std::size_t asked);
// `asked`: bytes, where one buffer takes all; else 0.
void post_read(int descriptor, const Slot& slot, EventKind kind, std::int64_t offset, std::int64_t length,
               std::uint32_t took, std::size_t asked = 0);
// Of a read that has ended: whether it was told that it begins, and whether it was served.
inline EventKind kind_of_read(const Slot& slot, bool told, bool served) {
    if (served) return told ? EventKind::served_ended : EventKind::served;
    const bool cached = table.opening(slot).reads.load(std::memory_order_relaxed) == Reads::cached;
    if (!cached) return told ? EventKind::direct_ended : EventKind::direct;
    return told ? EventKind::ended : EventKind::read;
}
void post_ready(Slot& slot, const void* bytes, std::size_t length);
// Receives that leave a socket's bytes where they are: a request is told of by the call that takes it.
inline constexpr int kTakesNothing = MSG_PEEK | MSG_ERRQUEUE | MSG_OOB;
// Where a receive has put what it took: with MSG_TRUNC it says more than it has written, of a stream it writes nothing.
inline const void* shown(const void* buffer, int flags) { return flags & MSG_TRUNC ? nullptr : buffer; }
// Who was told what a readable socket holds: the server is to be woken for it.
enum class Told : std::uint8_t { nobody, itself, server };
Told peek_ready(int descriptor);
void mapped(int fd, int protection, int flags);  // read.cpp: it has been
// ready.cpp
// A request that was told of has been received from `socket`: looks whether some socket of which the same was said
// before has got its next one, which the program cannot see before it waits again.
void look_at_answered(int socket);
// Whether the thread has such sockets, so that it should look at them before a file keeps it waiting: nobody sees what
// arrives while it waits.
bool has_answered_few();
inline bool looks_before_waits() { return !producer.answered.empty() && has_answered_few(); }
void look_before_waiting();
int epoll_ready(int epoll_descriptor, const epoll_event* events, int count);  // count, unchanged
void epoll_changed(int epoll, int operation, int fd, const epoll_event* event);
inline constexpr std::int64_t kAtPosition = -1;  // the read began where the descriptor's offset was

// ---- serve.cpp: reads that need no system call ----
void serve_from(long page);  // where the first page of kServedFile is mapped; before region() has anything
// The bytes that a pread of `slot`'s descriptor returns, copied to `buffer`; 0: the read is to be made.
ssize_t serve(const Slot& slot, int descriptor, std::int64_t at, void* buffer, std::size_t size);

std::uint64_t now_ns();
inline std::uint32_t since(std::uint64_t before) {
    const std::uint64_t took = now_ns() - before;
    return took > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(took);
}

// Calls `call`, which reads from `slot`'s descriptor into `buffer` and concerns us, and tells the server what it read.
// `asked`: bytes, where one buffer takes all; else 0. `offset` is looked at again after the call, which may set it.
template <class Call>
[[gnu::noinline]] auto read_seen(Slot& slot, int descriptor, const std::int64_t& offset, const void* buffer,
                                 std::size_t asked, Call call) {
    const Kind kind = slot.kind();
    if (kind == Kind::file) {
        const bool told = asked >= kLongRead && post_begun(descriptor, slot, offset, asked);
        producer.served = false;
        const std::uint64_t before = now_ns();
        const auto result = call();
        const std::uint32_t took = since(before);
        if (result > 0)
            post_read(descriptor, slot, kind_of_read(slot, told, producer.served), offset,
                      static_cast<std::int64_t>(result), took, asked);
        return result;
    }
    const auto result = call();
    if (kind == Kind::socket && result > 0) post_ready(slot, buffer, static_cast<std::size_t>(result));
    return result;
}

// The same of calls that move bytes out of a file from `*place` on, or from its position. That the pointer is good only
// the kernel can say, which has moved it on when anything was read.
template <class Call>
auto moved_seen(Slot& slot, int descriptor, const std::int64_t* place, Call call) {
    if (!concerns_us(slot)) return call();
    std::int64_t offset = kAtPosition;
    return read_seen(slot, descriptor, offset, nullptr, 0, [&] {
        const auto moved = call();
        if (moved > 0 && place) offset = *place - static_cast<std::int64_t>(moved);
        return moved;
    });
}

}  // namespace chainio::shim
