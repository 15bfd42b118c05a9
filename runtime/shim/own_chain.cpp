#include "runtime/shim/own_chain.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "bpf-templates/chainio_step.h"
#include "bpf-templates/chainio_step_begin.h"
#include "runtime/shim/child.h"
#include "runtime/shim/glob.h"
#include "runtime/shim/may_lack.h"
#include "runtime/shim/next.h"
#include "runtime/shim/rewrite.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/without_signals.h"

CHAINIO_MAY_LACK(dlerror);
CHAINIO_MAY_LACK(dlopen);

namespace chainio::shim {
namespace {

using Step = void (*)(cio_io* io, const unsigned char* block);

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kMostSteps = std::size_t{1} << 20;  // bytes of their memory
constexpr std::size_t kBlock = CIO_MAX_BLOCK + CIO_PAD;

// A file below a class's root.
struct ChainPath {
    char whole[kMaxPath];
    std::size_t root;  // bytes of it

    const char* below() const { return whole + root; }
};

// Of the process; a child of fork has its own copy of the memory.
struct Steps {
    Step of_socket[kMaxSockets] = {};
    cio_io* io = nullptr;  // and what lies behind it; null: there is no code
    std::uint8_t* block = nullptr;
    bool through_links = false;           // some class's path has led through a symbolic link
    std::atomic<std::uint32_t> begun{0};  // since begin_anew(), which every thread calls
    ChainPath path = {};                  // here, since it takes much of a small stack
};
constinit Steps steps;

bool fits(const StepMemory& step) {
    const std::uint64_t end = step.prefetch_offset + std::uint64_t{step.prefetch_count} * sizeof(cio_prefetch);
    return step.bytes >= sizeof(cio_io) && step.bytes <= kMostSteps && end <= step.bytes && step.prefetch_count != 0 &&
           step.prefetch_offset % alignof(cio_prefetch) == 0;
}

bool fits(const Plan& plan, const OwnChain& own) {
    return own.chain != 0 && own.chain <= kMaxChains && own.file_class < plan.class_count &&
           plan.classes[own.file_class].root != 0 && plan.classes[own.file_class].root < kMaxPattern;
}

bool is_private(const char* path, mode_t kind) {
    struct stat info;
    return raw_call(SYS_newfstatat, AT_FDCWD, word(path), word(&info), AT_SYMLINK_NOFOLLOW) == 0 &&
           (info.st_mode & S_IFMT) == kind && is_users_alone(info);
}

bool make_memory(const StepMemory& step) {
    const std::size_t bytes = (step.bytes + CIO_PAD + kPage - 1) / kPage * kPage;
    const long memory = raw_call(SYS_mmap, 0, static_cast<long>(bytes + kBlock), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (failed(memory)) return false;
    steps.block = reinterpret_cast<std::uint8_t*>(memory) + bytes;
    steps.io = reinterpret_cast<cio_io*>(memory);
    return true;
}

// What the chain asks for, where that is something of a program's own: a file that the request names in plain text.
struct Wanted {
    const char* name = nullptr;
    std::size_t length = 0;
    std::uint64_t offset = 0, bytes = 0;
};

enum class Said : std::uint8_t { nothing, failed, a_file, more };

Said run_step(const Region& region, unsigned socket, const void* request, std::size_t bytes, Wanted& wanted) {
    const Plan& plan = region.plan;
    cio_io& io = *steps.io;
    std::memcpy(steps.block, request, bytes);
    std::memset(steps.block + bytes, 0, CIO_PAD);
    cio_begin(&io, 0, bytes, static_cast<std::uint32_t>(bytes));
    steps.of_socket[socket](&io, steps.block);
    if (io.outcome != CIO_OK) return Said::failed;
    if (io.prefetch_count == 0) return Said::nothing;
    const auto& prefetch =
        *reinterpret_cast<const cio_prefetch*>(reinterpret_cast<const std::uint8_t*>(&io) + plan.step.prefetch_offset);
    const bool plain = io.prefetch_count == 1 && prefetch.kind == CIO_PREFETCH_PATH &&
                       prefetch.name_space == CIO_SPACE_BLOCK && prefetch.target == plan.own[socket].target;
    if (!plain || std::uint64_t{prefetch.name_offset} + prefetch.name_length > bytes) return Said::more;
    wanted = {reinterpret_cast<const char*>(steps.block) + prefetch.name_offset, prefetch.name_length, prefetch.offset,
              prefetch.length};
    return Said::a_file;
}

// The name as a path: nothing in it is escaped, ends it or leads up.
bool is_plain(const char* name, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i)
        if (name[i] == '%' || name[i] == 0 || (name[i] == '.' && i + 1 < length && name[i + 1] == '.')) return false;
    return true;
}

bool path_of(const Plan& plan, const OwnChain& own, Wanted& wanted, ChainPath& path) {
    const ClassRule& rule = plan.classes[own.file_class];
    while (wanted.length != 0 && *wanted.name == '/') ++wanted.name, --wanted.length;
    const bool is_folder = wanted.length == 0 || wanted.name[wanted.length - 1] == '/';
    const std::size_t index = is_folder ? ::strnlen(own.index, kMaxIndex - 1) : 0, length = wanted.length + index;
    if (length == 0 || !is_plain(wanted.name, wanted.length) || rule.root + length + 2 > sizeof path.whole)
        return false;
    std::memcpy(path.whole, rule.pattern, rule.root);
    path.root = rule.root;
    if (path.whole[path.root - 1] != '/') path.whole[path.root++] = '/';
    std::memcpy(path.whole + path.root, wanted.name, wanted.length);
    std::memcpy(path.whole + path.root + wanted.length, own.index, index);
    path.whole[path.root + length] = 0;
    return glob_matches(rule.pattern, path.whole);
}

long open_as(int at, const char* path, std::uint64_t flags, std::uint64_t resolve) {
    // Names and inodes that are not in memory are read by whoever asks for them.
    const open_how how{
        .flags = flags | O_CLOEXEC, .mode = 0, .resolve = resolve | RESOLVE_CACHED | RESOLVE_NO_MAGICLINKS};
    return raw_call(SYS_openat2, at, word(path), word(&how), sizeof how);
}

// The file at the path, where it lies below the root wherever links lead.
long open_below(const ChainPath& path, std::uint64_t flags) {
    if (!steps.through_links) {
        const long file = open_as(AT_FDCWD, path.whole, flags, RESOLVE_NO_SYMLINKS);
        if (file != -ELOOP) return file;
        steps.through_links = true;
    }
    char root[kMaxPattern + 1];
    std::memcpy(root, path.whole, path.root);
    root[path.root] = 0;
    const long folder = open_as(AT_FDCWD, root, O_PATH | O_DIRECTORY, 0);
    if (failed(folder)) return folder;
    const long file = open_as(static_cast<int>(folder), path.below(), flags, RESOLVE_BENEATH);
    raw_call(SYS_close, folder);
    return file;
}

// A file, as far as it is known without asking a server (of NFS or FUSE) for it.
struct KnownFile {
    std::uint64_t device = 0, inode = 0, size = 0;
};

// What the path leads to is looked at before it is opened: to open a pipe lets go of who waits at its other end.
bool look_at(const ChainPath& path, KnownFile& file) {
    const long place = open_below(path, O_PATH);
    if (failed(place)) return false;
    struct statx info;
    const bool known = raw_call(SYS_statx, place, word(""), AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                                STATX_TYPE | STATX_INO | STATX_SIZE, word(&info)) == 0;
    raw_call(SYS_close, place);
    if (!known || !S_ISREG(info.stx_mode)) return false;
    file = {makedev(info.stx_dev_major, info.stx_dev_minor), info.stx_ino, info.stx_size};
    return true;
}

std::uint64_t longest_on(const Region& region, std::uint64_t device) {
    for (const DiskFacts& disk : region.disks)
        if (disk.device.load(std::memory_order_acquire) == device) return disk.longest.load(std::memory_order_relaxed);
    return 0;
}

// What the thread has had read from disks so far. Unlike cachestat(2), which only tells who may write to a file what of
// it is in memory, this says whether a read was begun whoever owns the file.
long blocks_read() {
    rusage usage;
    return failed(raw_call(SYS_getrusage, RUSAGE_THREAD, word(&usage))) ? 0 : usage.ru_inblock;
}

constexpr auto kNotLeft = Left::count;

void tell(Region& region, const OwnChain& own, Outcome outcome, const KnownFile& file = {}, std::uint64_t offset = 0,
          std::uint64_t bytes = 0, std::uint64_t begun_ns = 0) {
    const Ran ran{begun_ns, static_cast<std::uint32_t>(bytes), outcome};
    Event event{};
    event.kind = EventKind::ran;
    event.source = static_cast<std::uint8_t>(own.chain - 1);
    event.device = file.device;
    event.inode = file.inode;
    event.offset = offset;
    event.length = sizeof ran;
    post(region, event, &ran, sizeof ran);
}

// Has the kernel read what is wanted of the file, of whole pages.
Left begin_reading(Region& region, const OwnChain& own, const ChainPath& path, const KnownFile& known, Wanted wanted) {
    if (wanted.offset >= known.size) return Left::name;
    const std::uint64_t longest = longest_on(region, known.device), rest = known.size - wanted.offset;
    const std::uint64_t offset = wanted.offset / kPage * kPage;
    const std::uint64_t bytes = std::min(wanted.bytes == 0 ? rest : wanted.bytes, rest) + wanted.offset - offset;
    if (longest == 0) return Left::disk;
    if (bytes > longest) return Left::length;
    const long file = open_below(path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
    if (failed(file)) return Left::name;
    const std::uint64_t now = now_ns();
    const long before = blocks_read();
    const long asked = raw_call(SYS_readahead, file, static_cast<long>(offset), static_cast<long>(bytes));
    const bool begun = blocks_read() != before;
    raw_call(SYS_close, file);
    if (failed(asked) && !begun) return Left::name;
    if (begun) steps.begun.fetch_add(1, std::memory_order_relaxed);
    tell(region, own, begun ? Outcome::begun : Outcome::in_memory, known, offset, bytes, now);
    return kNotLeft;
}

Left try_own(Region& region, unsigned socket, const void* request, std::size_t bytes) {
    const OwnChain& own = region.plan.own[socket];
    // A descriptor that another thread may come upon must not come and go.
    if (!is_alone() || in_vfork_child()) return Left::threads;
    if (steps.begun.load(std::memory_order_relaxed) >= region.own_at_once.load(std::memory_order_relaxed))
        return Left::many;
    const WithoutSignals no_handler_finds_our_descriptors;
    Wanted wanted;
    KnownFile known;
    Left left = Left::request;
    switch (run_step(region, socket, request, bytes, wanted)) {
        case Said::nothing: tell(region, own, Outcome::nothing), left = kNotLeft; break;
        case Said::failed: tell(region, own, Outcome::failed), left = kNotLeft; break;
        case Said::more: break;
        case Said::a_file:
            if (path_of(region.plan, own, wanted, steps.path))
                left = look_at(steps.path, known) ? begin_reading(region, own, steps.path, known, wanted) : Left::name;
    }
    return left;
}

void load_code(const Plan& plan, const char* path) {
    if (!dlopen || !dlerror) return;
    void* code = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!code) {
        dlerror();  // which the program is not to find
        return;
    }
    auto* find = reinterpret_cast<void* (*)(void*, const char*)>(real_dlsym());
    for (unsigned i = 0; i < std::min(plan.socket_count, kMaxSockets); ++i) {
        char name[32];
        std::snprintf(name, sizeof name, "cio_program_%u", plan.own[i].program);
        if (fits(plan, plan.own[i])) steps.of_socket[i] = reinterpret_cast<Step>(find(code, name));
    }
    dlerror();
    if (!make_memory(plan.step)) std::memset(steps.of_socket, 0, sizeof steps.of_socket);
}

}  // namespace

void load_steps(Region& region, const char* region_path) {
    const Plan& plan = region.plan;
    Beside folder, path;
    // To load it opens the file, and is for a process without a filter.
    if (!region_path || plan.has_steps == 0 || !fits(plan.step) || !is_alone() || filter_of_process() != Filter::none)
        return;
    if (!beside(region_path, "", folder) || !beside(region_path, kStepsFile, path) || !is_private(folder, S_IFDIR) ||
        !is_private(path, S_IFREG))
        return;
    const int error = errno;
    load_code(plan, path);
    errno = error;
}

bool runs_itself(const Region& region, const Slot& slot) {
    const unsigned socket = slot.rule() % kMaxSockets;
    return (region.socket_posts[socket].load(std::memory_order_relaxed) & kRunsItself) != 0;
}

bool run_own(Region& region, const Slot& slot, const void* request, std::size_t bytes) {
    const unsigned socket = slot.rule() % kMaxSockets;
    const Left left = !steps.of_socket[socket]
                          ? Left::code
                          : try_own(region, socket, request, std::min<std::size_t>(bytes, kMaxPeek));
    if (left == kNotLeft) return true;
    region.stats.left[static_cast<std::size_t>(left)].fetch_add(1, std::memory_order_relaxed);
    return false;
}

bool helps_itself() {
    const Region* found = steps.io ? live_region() : nullptr;
    return found && is_alone() && found->own_at_once.load(std::memory_order_relaxed) != 0 &&
           found->disks[0].device.load(std::memory_order_relaxed) != 0;
}

// Threads that never begin anything share the line as readers.
void begin_anew() {
    if (steps.begun.load(std::memory_order_relaxed) != 0) steps.begun.store(0, std::memory_order_relaxed);
}

}  // namespace chainio::shim
