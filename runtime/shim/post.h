// Posting events: a ring for each thread, found once and kept in thread-local memory. Everything here may run in a
// signal handler, in a child of vfork, and before or after any constructor.
#pragma once
#include <cstdint>

#include "runtime/shim/protocol.h"

namespace chainio::shim {

// Appends an event and its payload to a ring whose only producer is the caller. `seen_head` is where the server was
// when the caller last looked. False, and counted in Ring::lost, when there is no room.
bool put(Ring& ring, std::uint32_t& seen_head, const Event& event, const void* payload, std::uint32_t payload_bytes);

// Who takes a ring: a thread, its process, the PID namespace of both numbers (0: not known), and which image it is.
struct Taker {
    std::uint32_t thread, process, pids = 0, image = 0;
};
// Takes a free ring, or nullptr when all are taken or there is no memory for another.
Ring* claim(Region& region, const Taker& taker);
// Takes one whose thread is gone without having given it back, as far as the namespaces let that be seen.
Ring* take_over(Region& region, const Taker& taker);
// Frees what threads have that the taker's process had before it executed a program, or whoever had its number.
void free_of_earlier_images(Region& region, const Taker& taker);

// Memory of the process that a child of fork finds zeroed, however it was forked.
struct Process {
    std::atomic<std::uint32_t> id;
    std::atomic<std::uint32_t> image;             // unlike the number, of this one alone; 0: it has not posted yet
    std::atomic<std::uint32_t> alone;             // 1: the server was found dead
    std::atomic<std::uint32_t> rings;             // 1: it has set up an io_uring or an AIO context
    std::atomic<std::uint32_t> waits_in_vain;     // for frames that were said to be on their way
    std::atomic<std::uint32_t> removals_in_vain;  // waits until the server has let go of deleted files
    std::atomic<std::uint32_t> maps_frames;       // 1: one of its threads does, or has
    std::atomic<std::uint32_t> pids;              // its PID namespace, once that has been asked for
    std::atomic<std::uint32_t> found_none;        // threads that found no free ring
    std::atomic<std::uint32_t> reads_by_threads;  // 1: it has been told that it reads by POSIX AIO
};

// Sockets of which the thread has received a request, the longest ago first, as their clients will have the answers
// first and ask again. When there is no room, the next is left to the program's own wait.
struct Answered {
    static constexpr unsigned kRoom = 32;
    std::uint16_t sockets[kRoom] = {};
    std::uint32_t first = 0, end = 0;  // count up
    std::uint32_t in_vain = 0;         // looks at the first that found nothing
    bool among_many = false;           // they are answered in between so many that the next wait is soon enough

    bool empty() const { return first == end; }
};

// The thread's own state.
struct Producer {
    Ring* ring = nullptr;
    std::uint32_t process = 0;  // its number
    std::uint32_t thread = 0;   // the thread's, once it has made a child that shares its memory
    std::uint32_t image = 0;    // whose ring it is: a child of fork may have its parent's number, in another namespace
    std::uint32_t seen_head = 0;
    std::uint32_t refused = 0;             // posts since no ring was free
    std::uint32_t until_look = kLookedAt;  // reads of files of which only slow ones are wanted
    std::uint32_t quick_looks = 0;         // how many of those that were timed were quick, since the last slow one
    std::uint32_t posted_after = 0;        // of those, how many more are posted since one was slow
    long waits = 0;                        // how often it had given up its processor by itself when that was last asked
    std::uint8_t nested = 0;  // posts lost in a row because a signal handler came while one was being written
    volatile bool writing = false;
    bool may_be_vfork_child = false;
    // Of a child of vfork that has gone into a sandbox, what reach.cpp knows of the library: from then on it says
    // nothing. The kernel makes it 0 when the child leaves its parent's memory, so that the parent never finds it.
    volatile std::uint32_t silent = 0;
    bool served = false;  // the read that has just ended
    Answered answered;
};
extern constinit thread_local Producer producer [[gnu::tls_model("initial-exec")]];

// What a read of so many bytes may take without having waited for a device, ns: to copy 8 bytes takes less than one.
inline constexpr std::uint64_t quick_for(std::uint64_t bytes) { return kSlowReadNs + bytes / 8; }

// Posts from the calling thread; `region` and `process` are those of the process.
void post_event(Region& region, Process& process, Event event, const void* payload, std::uint32_t payload_bytes);
// The thread or the process ends, or executes another program.
void release_ring(Region& region, Process& process);
void wake(Region& region);  // the server, when it sleeps
std::uint32_t process_id(Process& process);
// The PID namespace of its number; 0: it cannot be known, as where there is no /proc.
std::uint32_t pids_of(Process& process);
bool is_numbered_elsewhere(Process& process);  // the caller has another one than its process, as far as is known
bool owns_ring(const Process& process);        // whether the calling thread's ring is its process's

}  // namespace chainio::shim
