// The memory that unmodified programs and the shadow server beside them share: what is matched, what the programs did,
// and the figures that `chainio top` shows. Two files in a directory of the run, mapped behind each other by every
// process of the run.
//
// The first kPlanBytes come from kPlanFile. The server alone writes them: programs map them from a descriptor that can
// only be read, so that no process of the run can change what another goes by, one that has kept its mappings and given
// up its privileges least of all. The rest everybody writes: programs their events and what they count, the server how
// far it has read and what it counts. Both sides treat it as untrusted: every length and index is checked where it is
// used. All integers are in the byte order of the machine.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace chainio::shim {

inline constexpr std::uint64_t kMagic = 0x316d696873'6f6963;  // "ciosshm1"
inline constexpr std::uint32_t kVersion = 17;
inline constexpr char kRegionVariable[] = "CHAINIO_REGION";  // environment: absolute path of the region's file
inline constexpr char kPlanFile[] = "/plan";                 // beside it: its beginning
inline constexpr char kStepsFile[] = "/steps";  // beside it: a shared object, the code of chains that programs run
// Environment: absolute path of chainio-sites, where system calls are to be caught that go past libc.
inline constexpr char kSitesVariable[] = "CHAINIO_SITES";

inline constexpr unsigned kRings = 256;  // threads that can post at the same time; others are counted as `no_ring`
inline constexpr std::uint32_t kRingBytes = 64 * 1024;
inline constexpr unsigned kMaxClasses = 64, kMaxSockets = 32, kMaxExes = 16, kMaxChains = 128, kMaxProbes = 32;
inline constexpr std::uint32_t kMaxPattern = 512, kMaxPath = 4096, kMaxPeek = 4096, kMaxName = 64, kMaxIndex = 256,
                               kMaxProbeBytes = 1024;

enum class EventKind : std::uint8_t {
    skip =
        0,  // no event: the rest of the ring up to its end. Where less than an Event is left there, nothing is written
    opened = 1,   // a matched file was opened; payload: its absolute path; `offset`: the open's flags (O_DIRECT …)
    read = 2,     // a read of a matched file returned `length` bytes from `offset`
    ready = 3,    // a matched socket has become readable; payload: the bytes that wait, peeked
    probe = 4,    // payload: the probe's arguments in order: an integer in 8 bytes; a C string: its length in 8 bytes,
                  // then its bytes without the NUL, filled up to a multiple of 8
    closed = 5,   // the last descriptor of that opening was closed
    passed = 6,   // a file or socket that no class matches (`source` is 0), or one more than the number of the socket's
                  // rule; only while Plan::explain; payload: path or address; `offset`: a Passed
    note = 7,     // something that the report must say: `source` is a Note; payload: text, may be empty
    begun = 9,    // a read of a matched file begins that asks for `length` bytes from `offset`; only while kPostBegun
    ended = 10,   // as `read`, of one that was said to begin
    served = 11,  // as `read`, of one whose bytes came from served memory (served.h) and not from the disk
    served_ended = 12,  // as `ended`, of such a one
    ran = 13,           // the program's own thread has run the chain `source`; payload: Ran; `offset` is of the range
    // As `read`, `begun` and `ended`, of one that went past the page cache (O_DIRECT) and was not served.
    direct = 14,
    direct_begun = 15,
    direct_ended = 16,
};

// Why what was opened belongs to no class of files.
enum class Passed : std::uint64_t {
    unmatched = 0,
    no_file = 1,  // a folder, or what matches by its name and is a pipe or a device
    place = 2,    // opened with O_PATH
    unnamed = 3,  // opened with O_TMPFILE
    inherited = 4,
};

// What came of a chain that a program ran itself.
enum class Outcome : std::uint32_t {
    nothing = 0,    // it asked for nothing
    failed = 1,     // its outcome was no success
    begun = 2,      // a range that the kernel has been told to read
    in_memory = 3,  // one that was in memory already, or on its way there
};
struct Ran {
    std::uint64_t begun_ns;  // CLOCK_MONOTONIC
    std::uint32_t length;    // bytes of the range
    Outcome outcome;
};
static_assert(sizeof(Ran) == 16);

// Why a request was left to the server although its chain is one that programs run.
enum class Left : std::uint32_t {
    code,     // its code is not there
    threads,  // the process has several threads, descriptors in common with others, or record locks
    request,  // the chain asked for more than one range, or for one whose name is no plain text of the request
    disk,     // what the file's disk does with reads is not known (yet)
    name,     // the file's name is not in memory, or leads to none that may be read
    length,   // it is longer than what the kernel reads ahead
    many,     // more at once than may be under way
    count
};

enum class Note : std::uint8_t {
    io_uring = 1,          // the process has set up an io_uring: its operations are not seen
    aio = 2,               // the process has set up a kernel AIO context
    static_program = 3,    // it is about to execute a static program, which runs plain; payload: path
    descriptors = 5,       // a descriptor above the table's size was opened and not looked at
    mapped = 6,            // a matched file is mapped: reads through the mapping are not seen
    sandbox = 7,           // the process allows itself fewer system calls from here on, and goes on plain
    not_rewritten = 8,     // a program's own system calls stay unseen, as asked otherwise; payload: why
    filtered = 9,          // the kernel's read-ahead was left on: the process may make only some system calls
    not_judged = 10,       // no child process could be made to look whether a program is static, or it is
                           // looked for from another folder
    kept = 11,             // the server did not let go in time of a file that was deleted
    narrow_program = 12,   // it is about to execute a 32-bit program, which runs plain; payload: path
    foreign_program = 13,  // the same of one for another kind of machine; payload: path
    other_user = 14,       // it is about to execute a program as another user than whose the run is: that runs plain
    other_library = 15,    // it is about to execute a program of another C library, which runs plain; payload: path
    posix_aio = 16,        // the process reads a matched file by POSIX AIO: libc's threads do that, and are not seen
};

// An event in a ring. Its payload follows; `bytes` is the whole, a multiple of 8. Of a read that took fewer bytes than
// its one buffer has room for, as at a file's end, that is how many it asked for (4 bytes).
struct Event {
    std::uint16_t bytes;
    EventKind kind;
    std::uint8_t source;  // index into Plan::classes (files), Plan::sockets, Plan::probes, or a Note
    std::uint32_t process;
    std::uint64_t device, inode;  // of the file
    std::uint64_t offset;
    std::uint32_t length;   // read: bytes; others: bytes of payload that count
    std::uint32_t took_ns;  // read: how long the program's own call took (saturated)
};
static_assert(sizeof(Event) == 40);

inline constexpr std::uint32_t kTaking = 0x80000000;
// A byte ring with one producer (a thread of a program) and one consumer (the server). Positions count bytes and wrap
// at 2^32; an event never crosses the end of `data`. A full ring loses the event, never the program's time.
struct Ring {
    alignas(64) std::atomic<std::uint32_t> tail;  // written by the producer
    std::atomic<std::uint32_t> lost;              // events that found no room
    alignas(64) std::atomic<std::uint32_t> head;  // written by the server
    alignas(64) std::uint8_t data[kRingBytes];
};

// Whose a ring is.
struct Holder {
    // tid of the producer; 0: free; with kTaking: of one that is about to be, while the other fields are not its own
    // yet. A thread takes a free ring and frees it when it ends, its process ends, or executes another program, with
    // events still in it; the next owner goes on behind them. The server frees those of dead processes, and a thread
    // that finds none free takes one of a dead process.
    std::atomic<std::uint32_t> owner;
    std::atomic<std::uint32_t> process;
    std::atomic<std::uint32_t> pids;   // the PID namespace of both numbers; 0: not known
    std::atomic<std::uint32_t> image;  // which of the process's images it is, by Region::images
};

// What a program's calls are compared with. Written before the program starts, not changed afterwards.
struct ClassRule {
    char pattern[kMaxPattern];  // glob over the absolute path, NUL-terminated; see glob.h
    std::uint32_t flags;        // kDirect, kImmutable, kReadAsAsked
    std::uint32_t root;         // so many bytes of the pattern are the class's root; 0: it has none, or another one
};
inline constexpr std::uint32_t kDirect = 1, kImmutable = 2, kReadAsAsked = 4;
struct SocketRule {
    std::uint16_t port;  // local port of accepted or bound sockets, peer's port of connected ones
    std::uint8_t tcp;
};
// A chain that programs may run when a socket is ready: it goes by the request's bytes alone, and asks for files of one
// class by name.
struct OwnChain {
    std::uint32_t chain;               // of Stats::chains, plus one; 0: there is none
    std::uint32_t program;             // in the code of kStepsFile
    std::uint32_t target, file_class;  // the class, as prefetches name it, and of Plan::classes
    char index[kMaxIndex];             // what a folder's path means of the class; empty: nothing
};
// Where the prefetch list lies in the memory of a step (bpf-templates/chainio_step.h), and how large all of that is.
struct StepMemory {
    std::uint32_t bytes, prefetch_offset, prefetch_count;
};
struct Plan {
    std::uint32_t class_count, socket_count, exe_count;
    std::uint32_t explain;             // 1: post `passed` events
    char exes[kMaxExes][kMaxPattern];  // globs over the executable's path or its last part; none: every program
    ClassRule classes[kMaxClasses];
    SocketRule sockets[kMaxSockets];
    OwnChain own[kMaxSockets];
    StepMemory step;
    std::uint32_t has_steps;  // 1: kStepsFile is there
};

// What the server wants to hear of a class or a socket just now; the gate clears bits and sets them again.
inline constexpr std::uint32_t kPostOpens = 1, kPostReads = 2, kPostReady = 4;
inline constexpr std::uint32_t kWakeOpens =
    8;  // an open wakes a sleeping server: a chain wants to be ahead of the first read
// Instead of kPostReads: one read in kLookedAt is timed, and when it waited for a device it is posted with the next
// kPostedAfter of the thread. The server need not be quick for that to end. Of a thread whose reads were quick at
// kQuickLooks looks one in twice as many is timed, and at twice kQuickLooks one in four times as many: a look takes a
// third as long as a short read from memory.
inline constexpr std::uint32_t kPostSlowReads = 16, kLookedAt = 8, kPostedAfter = 64, kQuickLooks = 16;
// Besides kPostSlowReads: they do not wake the server, unless they are long, or it rests.
inline constexpr std::uint32_t kLetSleep = 64;
// Besides kPostReads: reads by one buffer that ask for at least kLongRead are told of before they begin. What they need
// next can then be read beside them; of shorter ones the telling takes as long as the reading.
inline constexpr std::uint32_t kPostBegun = 32, kLongRead = 32 * 1024;
// Of a socket: programs may run its Plan::own themselves, as long as they know of the disk (Region::disks).
inline constexpr std::uint32_t kRunsItself = 128;
// Of a class: in files that are opened from now on the kernel is to read what is asked for, and nothing ahead.
inline constexpr std::uint32_t kNoReadAhead = 256;

enum class GateState : std::uint32_t { on = 0, off = 1, probing = 2 };

using Counter = std::atomic<std::uint64_t>;
struct ChainStats {
    char name[kMaxName];
    std::atomic<GateState> gate;
    std::atomic<std::uint32_t> gate_changes;
    Counter events;   // runs of the shadow step
    Counter failed;   // of those, ended in an outcome other than ok
    Counter fetches;  // ranges handed to the disk
    Counter fetched_bytes;
    Counter walks;      // call chains run for it
    Counter cached;     // ranges that were in memory already
    Counter duplicate;  // ranges that were in flight or fetched already
    Counter dropped;    // ranges refused by a bound (memory, in flight, path, gate)
    Counter hits;       // fetched ranges that the program then read from memory
    Counter late;       // the program came while the fetch was in flight
    Counter wasted;     // fetched and never read
    Counter saved_ns;   // estimate: of each read that was a hit, what a wait for an idle disk takes less what it took
    Counter served;     // of `hits` and `late`: those whose bytes were copied from served memory
    Counter own;        // of `fetches`: those that a program's own thread began
};
struct ClassStats {
    char name[kMaxName];
    Counter opened, reads, read_bytes, read_ns;
    Counter slow_reads, slow_ns;  // reads that waited for the device
    // Counted by the programs: reads that were answered from served memory, and openings in which the kernel reads
    // nothing ahead.
    Counter served, served_bytes, no_read_ahead;
};
struct Stats {
    Counter lost_events, bad_events, no_ring, wakes, server_ns, spins_ns;
    std::atomic<std::uint32_t> chain_count, class_count, processes;
    std::atomic<std::uint32_t> not_begun;  // counted by programs that had no memory or no descriptor for the library
    Counter left[static_cast<std::size_t>(Left::count)];  // counted by programs
    ChainStats chains[kMaxChains];
    ClassStats classes[kMaxClasses];
};

// Counted by the programs whose own system calls are caught.
struct Rewriting {
    Counter programs;  // of which calls were replaced
    Counter sites;     // replaced calls
    Counter others;    // calls that stay, by a number that nobody looks at
    Counter unknown;   // bytes outside of functions that could be calls, and stay
    Counter calls;     // that were looked at
    Counter missed;    // made without being looked at, since there was no stack to look from
};

// Whole pages of every machine.
inline constexpr std::size_t kPlanBytes = 64 * 1024, kLeastPage = 4096, kPlanUses = 13 * kLeastPage;

// A disk on which the server has begun reads that need nobody's help, and that the kernel counts (ru_inblock).
struct DiskFacts {
    std::atomic<std::uint64_t> device;   // 0: none
    std::atomic<std::uint64_t> longest;  // bytes that the kernel begins to read at a time
};
inline constexpr unsigned kMaxDisks = 8;

struct Region {
    // ---- of kPlanFile ----
    std::uint64_t magic;
    std::uint32_t version, bytes;
    std::atomic<std::uint32_t> server;                    // its process; 0 once it has ended: programs go on plain
    std::atomic<std::uint32_t> class_posts[kMaxClasses];  // kPost…
    std::atomic<std::uint32_t> socket_posts[kMaxSockets];
    // By class: shorter reads are of no use to chains on reads, as far as is known, so that they neither wake the
    // server, unless it rests, nor are told of before they begin. 0: all may be.
    std::atomic<std::uint32_t> least_read[kMaxClasses];
    std::atomic<std::uint32_t> serves[kRings];  // the process whose reads may be served, while `holders` has it
    std::atomic<std::uint64_t>
        served;  // bytes of the file kServedFile beside the region's (served.h); 0: nothing is served yet
    DiskFacts disks[kMaxDisks];
    std::atomic<std::uint32_t> own_at_once;  // fetches that a thread may begin itself from one wait to the next
    std::atomic<std::uint32_t> holds_files;  // 1: the server may have files open
    std::atomic<std::uint32_t> let_go;       // futex: what `removals` was when it last had none of what was asked for
    std::atomic<std::uint32_t> rests;  // 1: the server has seen nothing for long, and any read that has waited wakes it
    Plan plan;
    alignas(kLeastPage) std::uint8_t unused[kPlanBytes - kPlanUses];

    // ---- of the file that kRegionVariable names, whose first kPlanBytes nobody uses ----
    std::atomic<std::uint32_t> asleep;    // futex: 1 while the server waits to be woken; a program sets 0 and wakes it
    std::atomic<std::uint32_t> arrivals;  // futex: counts up when frames have arrived while somebody waits
    std::atomic<std::uint32_t> waiting;   // threads that wait for frames; those killed meanwhile stay counted
    std::atomic<std::uint32_t> removals;  // counts files that programs have deleted, and wait for `let_go` after
    std::atomic<std::uint32_t> unmounts;  // before `removals`: counts those that want all files closed
    std::atomic<std::uint32_t> images;    // counts processes that have posted, each anew when it has executed a program
    // One bit a ring, set by the first thread that takes it: the server leaves the memory of the others untouched.
    std::atomic<std::uint64_t> used_rings[kRings / 64];
    Stats stats;
    alignas(64) Rewriting rewriting;
    // By ring. They lie together, as each thread looks for one that is free, and each program for what was its own: in
    // the rings that would be a page fault each.
    alignas(64) Holder holders[kRings];
    Ring rings[kRings];
};
inline constexpr std::size_t kRegionBytes = sizeof(Region);
static_assert(offsetof(Region, asleep) == kPlanBytes);
// Whatever moves here is another protocol: kVersion has to say so.
static_assert(kVersion == 17 && offsetof(Region, disks) == 1696 && offsetof(Region, plan) == 1840 &&
              sizeof(Plan) == 50'336 && offsetof(Region, stats) == kPlanBytes + 56 && sizeof(Stats) == 32'376 &&
              sizeof(Ring) == 65'664 && offsetof(Region, holders) == 98'048 && offsetof(Region, rings) == 102'144);

// A read that took longer than this, and in which the thread slept, waited for a device: it wakes a sleeping server. Of
// others that took longer, this is told. They leave their event for when the server next looks, so that a warm program
// pays for no wake-up.
inline constexpr std::uint32_t kSlowReadNs = 20'000;

}  // namespace chainio::shim
