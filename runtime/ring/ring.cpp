#include "runtime/ring/ring.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace chainio::ring {
namespace {

struct Setup {
    RingOptions::Level level;
    unsigned flags;
    const char* names;
    const char* lost;  // what a kernel that refuses this set does not offer
};

constexpr unsigned kNewest =
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL;
constexpr unsigned kTold = IORING_SETUP_TASKRUN_FLAG;  // whether the kernel has completions that it has not shown yet

constexpr unsigned kRewind = 1u << 20;  // IORING_SETUP_SQ_REWIND of Linux 7.0: SQEs are always taken from the first on

constexpr std::array<Setup, 5> kSetups{{
    {RingOptions::Level::newest, kNewest | kTold | IORING_SETUP_NO_SQARRAY, "SINGLE_ISSUER|DEFER_TASKRUN|NO_SQARRAY",
     "NO_SQARRAY needs Linux 6.6"},
    {RingOptions::Level::single_issuer, kNewest | kTold, "SINGLE_ISSUER|DEFER_TASKRUN",
     "SINGLE_ISSUER and DEFER_TASKRUN need Linux 6.1"},
    {RingOptions::Level::cooperative, IORING_SETUP_COOP_TASKRUN | kTold | IORING_SETUP_SUBMIT_ALL, "COOP_TASKRUN",
     "COOP_TASKRUN needs Linux 5.19"},
    {RingOptions::Level::plain, 0, "plain", ""},
    {RingOptions::Level::loop, kNewest | IORING_SETUP_NO_SQARRAY | kRewind,
     "SINGLE_ISSUER|DEFER_TASKRUN|NO_SQARRAY|SQ_REWIND", ""},
}};

constexpr int kRegionTries = 2;  // after the first
constexpr int kSetupTries = 50;  // after the first
constexpr useconds_t kUntilFreedUs = 2000;
constexpr std::size_t kLargestBuffer = std::size_t{1} << 30;  // of one registered buffer
constexpr std::size_t kSmallestBuffer = std::size_t{128} << 10;
constexpr std::size_t kPartForRings = 8;  // of the limit of locked memory, for the rings of others

std::size_t memlock_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 0;
    return limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : limit.rlim_cur;
}

// Of a limit of locked memory.
bool is_no_room(int result) { return result == -ENOMEM || result == -EPERM; }

// What a process of this user had locked counts for some milliseconds after its end, as the kernel takes down rings
// behind it: who starts a program right behind another one would have no ring.
int set_up(unsigned entries, io_uring& ring, io_uring_params& params) {
    const io_uring_params wanted = params;
    int result = io_uring_queue_init_params(entries, &ring, &params);
    for (int tries = 0; result == -ENOMEM && tries < kSetupTries && memlock_limit() != SIZE_MAX; tries++) {
        usleep(kUntilFreedUs);
        params = wanted;
        result = io_uring_queue_init_params(entries, &ring, &params);
    }
    return result;
}

std::atomic<std::uint64_t> threads = 0;
thread_local std::uint64_t thread_number = 0;
std::atomic<std::uint32_t> forks = 0;  // how many this process is behind the one that loaded the library

void count_forks() {
    static const int told = pthread_atfork(nullptr, nullptr, [] {
        thread_number = 0;
        forks++;
    });
    static_cast<void>(told);  // out of memory: a child is known by its process number alone
}

// A number that no other thread has or had, neither of this process nor of those that it comes from by fork.
std::uint64_t this_thread() {
    if (thread_number == 0) thread_number = ++threads;
    return thread_number;
}

}  // namespace

std::expected<Ring, std::string> Ring::create(const RingOptions& options, metrics::Fallbacks& fallbacks) {
    count_forks();
    int error = 0;
    for (const Setup& setup : kSetups) {
        if (setup.level < options.level) continue;
        auto state = std::make_unique<State>();
        io_uring_params params{};
        params.flags = setup.flags | IORING_SETUP_CQSIZE;
        params.cq_entries = std::max(options.cq_entries, options.entries);
        error = -set_up(options.entries, state->ring, params);
        // Only "not known" leads on to an older set; a refusal or a lack of memory is the same for every set.
        if (error == EINVAL && setup.level < RingOptions::Level::plain) {
            fallbacks.note("ring-flags", setup.lost);
            continue;
        }
        if (error != 0) break;
        state->live = true;
        state->forks = forks;
        // liburing would name the ring by its number in the thread's table for registrations too, and in another thread
        // or in a child that number is another ring's: the descriptor is the same for all.
        state->ring.features &= ~IORING_FEAT_REG_REG_RING;
        state->disabled = (setup.flags & IORING_SETUP_R_DISABLED) != 0;
        state->flags = setup.names;
        Ring ring(std::move(state));
        if (options.file_slots != 0) {
            const int result = io_uring_register_files_sparse(ring.get(), options.file_slots);
            ring.state_->file_table = result == 0;
            if (result != 0) {
                std::string reason =
                    std::string("the kernel refused a table of registered files: ") + std::strerror(-result);
                if (result == -EMFILE)
                    reason += " (it has " + std::to_string(options.file_slots) +
                              " places, and as many files have to be allowed to be open: `ulimit -n`)";
                fallbacks.note("unregistered-files", reason);
            }
        }
        if (options.buffer_slots != 0) {
            const int result = io_uring_register_buffers_sparse(ring.get(), options.buffer_slots);
            ring.state_->buffer_table = result == 0;
            ring.state_->buffers.resize(options.buffer_slots);
            if (result != 0) {
                fallbacks.note("unregistered-buffers", std::string("the kernel refused a table of registered buffers "
                                                                   "(Linux 5.19): ") +
                                                           std::strerror(-result));
            }
        }
        return ring;
    }
    std::string why = std::string("io_uring cannot be set up: ") + std::strerror(error);
    if (error == EPERM) why += " (sysctl kernel.io_uring_disabled, or a seccomp filter such as a container's)";
    if (error == ENOSYS) why += " (the kernel has no io_uring; 5.19 or later is wanted)";
    if (error == ENOMEM) why += " (raise RLIMIT_MEMLOCK, `ulimit -l`)";
    return std::unexpected(why);
}

// Without a table there is one buffer, which comes and goes as a whole.
int Ring::set_buffer(unsigned slot, void* base, std::size_t bytes) {
    const iovec vector{base, bytes};
    if (!state_->buffer_table)
        return base != nullptr ? io_uring_register_buffers(get(), &vector, 1) : io_uring_unregister_buffers(get());
    constexpr __u64 kNoTag = 0;
    const int result = io_uring_register_buffers_update_tag(get(), slot, &vector, &kNoTag, 1);
    if (result == 1) state_->buffers[slot] = bytes;
    return result < 0 ? result : result == 1 ? 0 : -EINVAL;
}

void Ring::unregister_region(unsigned slot) {
    if (state_->buffer_table && is_own()) set_buffer(slot, nullptr, 0);
}

// The limit counts what else this user has locked, so that the room is only known by trying: the half that fits and the
// half that does not come nearer to one another until a sixteenth is left between them. What is there already is
// replaced by what it is a part of, and counts beside that until then. Rings count, too: who finds little, as others
// have taken the most, leaves room for those that come behind it.
std::size_t Ring::largest_buffer(unsigned slot, void* base, std::size_t already, std::size_t too_much,
                                 std::size_t for_rings) {
    std::size_t fits = already;
    const std::size_t near = std::max(too_much / 16, 2 * kSmallestBuffer), all = too_much;
    while (too_much >= fits + near) {
        const std::size_t middle = (fits + too_much) / 2 / kSmallestBuffer * kSmallestBuffer;
        if (set_buffer(slot, base, middle) != 0) {
            too_much = middle;
        } else {
            if (already == 0) set_buffer(slot, nullptr, 0);
            fits = middle;
        }
    }
    if (already != 0) return fits;
    if (fits + near < all) fits -= std::min(fits, for_rings);
    return fits != 0 && set_buffer(slot, base, fits) == 0 ? fits : 0;
}

std::size_t Ring::register_region(void* base, std::size_t bytes, metrics::Fallbacks& fallbacks, unsigned slot,
                                  std::size_t already) {
    if ((slot != 0 || already != 0) && !state_->buffer_table) return already;
    const std::size_t limit = memlock_limit();
    std::size_t size = std::min(bytes, kLargestBuffer);
    if (already >= size) return already;
    const int result = set_buffer(slot, base, size);
    if (is_no_room(result)) {
        const std::size_t for_rings = limit == SIZE_MAX ? 0 : limit / kPartForRings / kSmallestBuffer * kSmallestBuffer;
        const std::size_t most = limit - for_rings;
        // As much as that and one piece more is not asked for, whoever else has locked something.
        const bool limited = most < size - std::min(size, kSmallestBuffer);
        size = largest_buffer(slot, base, already,
                              limited ? most / kSmallestBuffer * kSmallestBuffer + kSmallestBuffer : size, for_rings);
    } else if (result != 0) {
        size = already;
    }
    if (size == bytes) return size;
    fallbacks.note("unregistered-buffers", std::to_string(size >> 10) + " KiB of " + std::to_string(bytes >> 10) +
                                               " KiB of block memory are registered, the rest is read into "
                                               "unregistered (" +
                                               why_unregistered(result, slot) + ")");
    return size;
}

bool Ring::register_whole(void* base, std::size_t bytes, metrics::Fallbacks& fallbacks) {
    const int result = set_buffer(0, base, bytes);
    if (result == 0) return true;
    fallbacks.note("unregistered-buffers", "0 KiB of " + std::to_string(bytes >> 10) +
                                               " KiB of block memory are registered, all is read into unregistered (" +
                                               why_unregistered(result, 0) + ")");
    return false;
}

// What the kernel has said of buffer `slot`; 0: it took as much as it ever does.
std::string Ring::why_unregistered(int result, unsigned slot) const {
    if (result == 0) return "a registered buffer has at most 1 GiB";
    const std::size_t limit = memlock_limit();
    if (!is_no_room(result) || limit == SIZE_MAX) return std::strerror(-result);
    std::size_t others = 0;
    for (std::size_t i = 0; i < state_->buffers.size(); i++) others += i != slot ? state_->buffers[i] : 0;
    return (others != 0 ? "beside " + std::to_string(others >> 10) + " KiB of other memory; " : "") +
           "RLIMIT_MEMLOCK is " + std::to_string(limit >> 10) + " KiB; `ulimit -l` or CAP_IPC_LOCK raise it";
}

int Ring::share_region(void* base, std::size_t bytes, metrics::Fallbacks& fallbacks) {
    io_uring_region_desc region{};
    region.user_addr = reinterpret_cast<std::uint64_t>(base);
    region.size = bytes;
    region.flags = IORING_MEM_REGION_TYPE_USER;
    io_uring_mem_region_reg request{};
    request.region_uptr = reinterpret_cast<std::uint64_t>(&region);
    int error = -io_uring_register_region(get(), &request);
    // EFAULT is what the kernel says whenever it has not got hold of every page at once, for a passing reason too.
    // Pages that are there leave it less to do.
    for (int again = 0; error == EFAULT && again < kRegionTries; again++) {
        fallbacks.note("memory-region",
                       "the kernel did not take all of the ring's memory region (Bad address), and was "
                       "asked again");
        madvise(base, bytes, MADV_POPULATE_WRITE);
        error = -io_uring_register_region(get(), &request);
    }
    return error;
}

bool Ring::register_file(unsigned slot, int fd, metrics::Fallbacks& fallbacks) {
    if (!state_->file_table) return false;
    const int result = io_uring_register_files_update(get(), slot, &fd, 1);
    if (result == 1) return true;
    std::string reason = std::string("a file could not be registered: ") + std::strerror(result < 0 ? -result : EINVAL);
    if (result == -EEXIST) reason += " (an engine belongs to the thread that reaped first)";
    fallbacks.note("unregistered-files", reason);
    return false;
}

void Ring::unregister_file(unsigned slot) {
    if (!state_->file_table || !is_own()) return;
    const int none = -1;
    io_uring_register_files_update(get(), slot, &none, 1);
}

// A child may have its parent's number, since each PID namespace begins with 1; one that was made by the system call
// itself is in no count.
bool Ring::is_own() const { return state_->forks == forks && state_->process == getpid(); }

int Ring::event_fd() {
    if (state_->event_fd >= 0) return state_->event_fd;
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return -1;
    if (io_uring_register_eventfd(get(), fd) != 0) {
        close(fd);
        return -1;
    }
    // Completions before the registration raised nothing.
    eventfd_write(fd, 1);
    state_->event_fd = fd;
    return fd;
}

void Ring::drain_events() {
    eventfd_t count = 0;
    if (state_->event_fd >= 0) eventfd_read(state_->event_fd, &count);
}

int Ring::bind_to_thread() {
    const std::uint64_t thread = this_thread();
    // Of another thread the kernel would take the registered descriptor for that of a ring of its own, if it has one.
    if (state_->thread != 0) return state_->thread == thread ? 0 : -EEXIST;
    // Its queues are the parent's as well: what a child took from them the parent would miss.
    if (!is_own()) return -EEXIST;
    if (state_->disabled) {
        const int result = io_uring_enable_rings(get());
        if (result < 0) return result;
        // A registered ring descriptor saves the lookup at each enter; without it everything works the same. Whoever
        // closes the ring asks for its number to be free again, in the table of his own thread: that the kernel refuses
        // others only for rings with SINGLE_ISSUER, which are those that begin disabled.
        io_uring_register_ring_fd(get());
    }
    state_->thread = thread;
    return 0;
}

}  // namespace chainio::ring
