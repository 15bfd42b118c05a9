#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "runtime/shim/child.h"
#include "runtime/shim/glob.h"
#include "runtime/shim/may_lack.h"
#include "runtime/shim/next.h"
#include "runtime/shim/own_chain.h"
#include "runtime/shim/reach.h"
#include "runtime/shim/rewrite.h"
#include "runtime/shim/served.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"

CHAINIO_MAY_LACK(pthread_key_create);
CHAINIO_MAY_LACK(pthread_setspecific);

namespace chainio::shim {

constinit Table table;

namespace {

enum Stage : int { unknown, starting, plain, on };
constexpr int kInherited = 64;  // descriptors below this are looked at when the program starts

constinit std::atomic<int> stage{unknown};
constinit std::atomic<bool> sandboxed{false};
constinit std::atomic<Region*> shared{nullptr};
constinit Region* kept = nullptr;  // stays when a sandbox has taken `shared` away
constinit Process* own = nullptr;
constinit uid_t whose = 0;  // the run is
constinit bool release_key_made = false;
constinit pthread_key_t release_key = 0;

bool ends_in(const char* text, std::size_t size) { return std::memchr(text, 0, size) != nullptr; }

// A region that was not made for this version, or is damaged, is as good as none.
bool valid(const Region& found) {
    const Plan& plan = found.plan;
    if (found.magic != kMagic || found.version != kVersion || found.bytes != kRegionBytes) return false;
    if (plan.class_count > kMaxClasses || plan.socket_count > kMaxSockets || plan.exe_count > kMaxExes) return false;
    for (unsigned i = 0; i < plan.class_count; ++i)
        if (!ends_in(plan.classes[i].pattern, kMaxPattern)) return false;
    for (unsigned i = 0; i < plan.exe_count; ++i)
        if (!ends_in(plan.exes[i], kMaxPattern)) return false;
    return true;
}

// A descriptor of the folder that a run's region lies in.
long folder_of_run(const char* region_path) {
    Beside path;
    if (!beside(region_path, "", path)) return -ENAMETOOLONG;
    const long folder = raw_call(SYS_openat, AT_FDCWD, word(path), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (failed(folder)) return folder;
    struct stat status;
    if (!failed(raw_call(SYS_fstat, folder, word(&status))) && is_users_alone(status)) return folder;
    raw_call(SYS_close, folder);
    return -EACCES;
}

// What is mapped of a descriptor, which is closed.
long map_opened(long fd, int protection, std::uint64_t bytes, long place) {
    struct stat status;
    long memory = -1;
    if (!failed(raw_call(SYS_fstat, fd, word(&status))) && static_cast<std::uint64_t>(status.st_size) >= bytes)
        memory = raw_call(SYS_mmap, place, static_cast<long>(bytes), protection,
                          MAP_SHARED | (place != 0 ? MAP_FIXED : 0), fd, 0);
    raw_call(SYS_close, fd);
    return memory;
}

// Maps the first `bytes` of a region's file, or of the one called `name` beside it, to be written with O_RDWR; at
// `place`, in whose place whatever is there goes, or 0: anywhere. The kernel's answer, or -EACCES where somebody
// else could have made the file.
long map_file(const char* region_path, const char* name, int flags, std::uint64_t bytes, long place) {
    const long folder = folder_of_run(region_path);
    if (failed(folder)) return folder;
    const char* last = (name ? name : std::strrchr(region_path, '/')) + 1;
    const long fd = raw_call(SYS_openat, folder, word(last), flags | O_CLOEXEC | O_NOFOLLOW);
    raw_call(SYS_close, folder);
    if (failed(fd)) return fd;
    return map_opened(fd, PROT_READ | ((flags & O_ACCMODE) == O_RDWR ? PROT_WRITE : 0), bytes, place);
}

bool look_at_folder(const char* folder, struct stat& status) {
    return !failed(raw_call(SYS_newfstatat, AT_FDCWD, word(folder), word(&status), AT_SYMLINK_NOFOLLOW)) &&
           is_users_alone(status);
}

// Opens the region's file where only one more may be open. Its folder is the user's alone, and is so still when the
// file is open.
long open_alone(const char* region_path) {
    Beside folder;
    struct stat before, after;
    if (!beside(region_path, "", folder) || !look_at_folder(folder, before)) return -EACCES;
    const long fd = raw_call(SYS_openat, AT_FDCWD, word(region_path), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (failed(fd)) return fd;
    if (look_at_folder(folder, after) && after.st_dev == before.st_dev && after.st_ino == before.st_ino) return fd;
    raw_call(SYS_close, fd);
    return -EACCES;
}

// Where there is no room for all of the region there may be some for the page that the report is made of, and where two
// descriptors are too many, one may not be.
void say_not_begun(const char* path) {
    constexpr long kBytes = kPlanBytes + kLeastPage;
    static_assert(offsetof(Region, stats) + offsetof(Stats, chains) <= kBytes);
    const long fd = open_alone(path);
    if (failed(fd)) return;
    const long memory = map_opened(fd, PROT_READ | PROT_WRITE, kBytes, 0);
    if (failed(memory)) return;
    reinterpret_cast<Region*>(memory)->stats.not_begun.fetch_add(1);
    raw_call(SYS_munmap, memory, kBytes);
}

struct Start {
    const char* path;
    Region* found;
    long served;  // where the first page of kServedFile is mapped; failed: nowhere
};

bool has_any(const Plan& plan, std::uint32_t flag) {
    for (unsigned i = 0; i < plan.class_count; ++i)
        if (plan.classes[i].flags & flag) return true;
    return false;
}

int map_region(void* start) {
    auto& [path, out, served] = *static_cast<Start*>(start);
    const long memory = map_file(path, nullptr, O_RDWR, kRegionBytes, 0);
    if (memory == -ENOMEM || memory == -EMFILE || memory == -ENFILE) say_not_begun(path);
    if (failed(memory)) return 0;
    auto* found = reinterpret_cast<Region*>(memory);
    // What the kernel maps from a descriptor that can only be read can never be made writable.
    if (!failed(map_file(path, kPlanFile, O_RDONLY, kPlanBytes, memory)) && valid(*found)) {
        out = found;
        if (has_any(found->plan, kImmutable)) served = map_file(path, kServedFile, O_RDONLY, kServedPage, 0);
    } else {
        raw_call(SYS_munmap, memory, static_cast<long>(kRegionBytes));
    }
    return 0;
}

bool exe_matches(const Plan& plan) {
    if (plan.exe_count == 0) return true;
    char path[kMaxPath + 1];
    const long length = raw_call(SYS_readlinkat, AT_FDCWD, word("/proc/self/exe"), word(path), kMaxPath);
    if (failed(length)) return false;
    path[length] = 0;
    for (unsigned i = 0; i < plan.exe_count; ++i)
        if (glob_matches(plan.exes[i], path)) return true;
    return false;
}

Process* make_process() {
    constexpr long kPage = 4096;  // the kernel rounds up
    const long memory = raw_call(SYS_mmap, 0, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (failed(memory)) return nullptr;
    if (!failed(raw_call(SYS_madvise, memory, kPage, MADV_WIPEONFORK))) return reinterpret_cast<Process*>(memory);
    raw_call(SYS_munmap, memory, kPage);
    return nullptr;
}

bool can_keep_keys() { return pthread_key_create && pthread_setspecific; }

// To give a ring back takes no system call, which a sandbox could forbid; to give memory back does.
void thread_ends(void*) {
    release_ring(*kept, *own);
    if (!is_sandboxed()) release_levels();
}

// The last thing that the calling thread does in the process. In a child it is its parent's ring that this memory may
// name; of what has never posted it is known without a system call, which a filter could forbid.
void process_ends() {
    Region* found = region();
    if (found && own->id.load(std::memory_order_relaxed) != 0 && !in_vfork_child()) release_ring(*found, *own);
}

Region* try_start() {
    const char* path = secure_getenv(kRegionVariable);
    if (!path || path[0] != '/') return nullptr;
    Start mapped{path, nullptr, -ENOENT};
    ask_apart(map_region, &mapped);  // a library of the program may have made threads already
    Region* found = mapped.found;
    if (!found) return nullptr;
    whose = static_cast<uid_t>(raw_call(SYS_geteuid));
    if (found->server.load() != 0 && exe_matches(found->plan)) {
        own = make_process();
        if (own && table.create()) {
            endings.learn(found->plan, found->plan.explain != 0);
            if (!failed(mapped.served)) serve_from(mapped.served);
            if (has_any(found->plan, kReadAsAsked)) learn_filter();
            release_key_made = can_keep_keys() && pthread_key_create(&release_key, thread_ends) == 0;
            kept = found;
            shared.store(found, std::memory_order_release);
            return found;
        }
        found->stats.not_begun.fetch_add(1);
    }
    if (!failed(mapped.served)) raw_call(SYS_munmap, mapped.served, kServedPage);
    raw_call(SYS_munmap, word(found), static_cast<long>(kRegionBytes));
    return nullptr;
}

// Resolves every function before a lock of the dynamic loader could be in the way, and starts.
[[gnu::constructor(101)]] void library_loaded() {
    resolve_all();
    learn_own_entry();
    start();
    int from_environment_less = unknown;  // an early call may have come before libc knew its environment
    stage.compare_exchange_strong(from_environment_less, plain);
    Region* found = live_region();
    if (!found) return;
    load_steps(*found, secure_getenv(kRegionVariable));
    rewrite(*found, secure_getenv(kSitesVariable));
}

// A thread that ends the process is not ended as others are, so that its key's destructor is not called.
[[gnu::destructor(101)]] void library_ends() { process_ends(); }

}  // namespace

CHAINIO_CALL(void, _exit, int status) {
    process_ends();
    CHAINIO_NEXT(_exit)(status);
    __builtin_unreachable();
}
CHAINIO_CALL(void, _Exit, int status) {
    process_ends();
    CHAINIO_NEXT(_Exit)(status);
    __builtin_unreachable();
}

bool beside(const char* path, const char* name, Beside& out) {
    const char* slash = std::strrchr(path, '/');
    const auto folder = static_cast<std::size_t>(slash - path);
    if (!slash || folder + std::strlen(name) >= sizeof out) return false;
    std::memcpy(out, path, folder);
    std::strcpy(out + folder, name);
    return true;
}

bool is_users_alone(const struct stat& status) {
    return (status.st_mode & 022) == 0 && status.st_uid == static_cast<uid_t>(raw_call(SYS_geteuid));
}

// In a user namespace the same user may have another number, and then so has what is his.
bool is_another_user() {
    const auto now = static_cast<uid_t>(raw_call(SYS_geteuid));
    const char* path = now != whose ? secure_getenv(kRegionVariable) : nullptr;
    if (!path) return false;
    struct stat status;
    const long found = raw_call(SYS_newfstatat, AT_FDCWD, word(path), word(&status), AT_SYMLINK_NOFOLLOW);
    return found == -EACCES || (!failed(found) && status.st_uid != now);
}

Region* region() { return producer.silent == 0 ? shared.load(std::memory_order_acquire) : nullptr; }
Process& process() { return *own; }

Region* live_region() {
    Region* found = region();
    if (!found || found->server.load(std::memory_order_relaxed) == 0) return nullptr;
    return own->alone.load(std::memory_order_relaxed) == 0 ? found : nullptr;
}

// The first three are there; of the others one call says which are not, as nearly all. Where that is refused, as where
// fewer may be open, it has said so of none.
static void look_at_inherited() {
    constexpr int kUsual = 3;
    pollfd others[kInherited - kUsual];
    for (int fd = kUsual; fd < kInherited; ++fd) others[fd - kUsual] = {fd, 0, 0};
    const timespec at_once{};
    raw_call(SYS_ppoll, word(others), kInherited - kUsual, word(&at_once), 0, 0);
    for (int fd = 0; fd < kInherited; ++fd)
        if (fd < kUsual || (others[fd - kUsual].revents & POLLNVAL) == 0) inherited(fd);
}

// Apart from start(), which every open calls, since it takes much of a small stack.
[[gnu::noinline]] static Region* start_once() {
    int now = unknown;
    if (!environ || is_sandboxed() || !stage.compare_exchange_strong(now, starting)) return nullptr;
    learn_of_threads();
    Region* found = try_start();
    stage.store(found ? on : plain, std::memory_order_release);
    if (found) look_at_inherited();
    return found;
}

Region* start() {
    const int now = stage.load(std::memory_order_acquire);
    if (now == on) return region();
    return now == unknown ? start_once() : nullptr;
}

bool is_sandboxed() { return producer.silent != 0 || sandboxed.load(std::memory_order_relaxed); }

// Of what a parent has whose memory this is, only that its calls, too, are libc's is changed.
void enters_sandbox() {
    if (is_sandboxed()) return;
    go_straight_no_more();
    post_note(Note::sandbox, nullptr);
    if (in_vfork_child()) return fall_silent();
    sandboxed.store(true, std::memory_order_relaxed);
    int not_begun = unknown;
    stage.compare_exchange_strong(not_begun, plain);
    ask_no_more();
    if (!region()) return;
    stop_catching();
    table.stop();
    shared.store(nullptr, std::memory_order_release);
}

// Where there is no memory that fork wipes, a child of fork is taken for one, too. In a sandbox nothing is asked.
static bool shares_plain_memory() {
    return !is_sandboxed() && static_cast<std::uint32_t>(raw_call(SYS_gettid)) != producer.thread;
}

bool in_vfork_child() {
    if (!producer.may_be_vfork_child) return false;
    if (producer.silent != 0) return true;
    if (!region()) return shares_plain_memory();
    const bool has_number = static_cast<std::uint32_t>(raw_call(SYS_getpid)) == process_id(*own);
    // In another namespace it may have its parent's.
    if (!has_number || is_numbered_elsewhere(*own)) return true;
    producer.may_be_vfork_child = false;
    return false;
}

// glibc keeps the first keys' values in the thread itself; further ones would be allocated, and then the server frees
// the ring.
void release_at_thread_end() {
    constexpr pthread_key_t kInThread = 32;
    if (release_key_made && release_key < kInThread) pthread_setspecific(release_key, own);
}

}  // namespace chainio::shim
