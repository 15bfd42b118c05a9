// Positioned reads that are answered from what the server has read already (served.h): of files that the program has
// opened with O_DIRECT and for reading only, and whose class is `immutable`.
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "runtime/shim/kernels_clock.h"
#include "runtime/shim/may_lack.h"
#include "runtime/shim/served.h"
#include "runtime/shim/shim.h"

CHAINIO_MAY_LACK(pthread_testcancel);

namespace chainio::shim {
namespace {

constexpr long kPopulateWrite = 23;                   // MADV_POPULATE_WRITE, which older headers lack
constexpr std::uint64_t kLongestWaitNs = 20'000'000;  // for what is on its way; then the program reads itself
constexpr std::uint32_t kWaitsInVain = 8;             // after so many a process waits no more
constexpr std::size_t kMostRead = 0x7ffff000;         // by one call, as the kernel has it

enum Mapping : int { unmapped, made, none };

constinit std::atomic<int> mapping{unmapped};
constinit ServedParts frames_of_server;
constinit long first_page = 0;  // of the server's file; 0: it is not mapped

// All of the file whose first page is there, without a descriptor: another thread could come upon one, and a child that
// opened it would hold for a while what other threads close. The first page stays: a process that is forked meanwhile
// begins with it. What a program has locked there (mlockall) would be locked of the whole.
bool map_frames(std::uint64_t bytes) {
    raw_call(SYS_munlock, first_page, kServedPage);
    const long memory = raw_call(SYS_mremap, first_page, 0, static_cast<long>(bytes), MREMAP_MAYMOVE, 0);
    if (failed(memory)) return false;
    if (served_parts(reinterpret_cast<std::uint8_t*>(memory), bytes, frames_of_server)) return true;
    raw_call(SYS_munmap, memory, static_cast<long>(bytes));
    return false;
}

// Null until the server has made the memory, and for good where it cannot be mapped.
const ServedParts* memory(const Region& region) {
    const int now = mapping.load(std::memory_order_acquire);
    if (now == made) [[likely]]
        return &frames_of_server;
    const std::uint64_t bytes = region.served.load(std::memory_order_acquire);
    if (now != unmapped || bytes == 0 || first_page == 0 || process().maps_frames.exchange(1) != 0) return nullptr;
    const bool done = map_frames(bytes);
    mapping.store(done ? made : none, std::memory_order_release);
    return done ? &frames_of_server : nullptr;
}

// The server has found no io_uring and no AIO context in this process, and none was set up where it could be seen.
bool granted(const Region& region) {
    const Ring* ring = producer.ring;
    if (!owns_ring(process())) return false;
    return region.serves[ring - region.rings].load(std::memory_order_relaxed) == producer.process &&
           process().rings.load(std::memory_order_relaxed) == 0;
}

struct File {
    std::uint64_t id = 0, stamp = 0, size = 0;
    std::uint32_t memory_align = 0, offset_align = 0;
    bool fills = false;
};

// What the server says of a file; id 0: nothing.
File file_in(const ServedParts& from, std::uint64_t device, std::uint64_t inode) {
    const std::uint32_t first = place_of_file(device, inode);
    for (std::uint32_t i = 0; i < kFileWays; ++i) {
        const ServedFile& place = from.files[(first + i) % kServedFiles];
        File file;
        file.id = place.id.load(std::memory_order_acquire);
        if (file.id == 0 || place.device.load(std::memory_order_relaxed) != device ||
            place.inode.load(std::memory_order_relaxed) != inode)
            continue;
        file.stamp = place.stamp.load(std::memory_order_relaxed);
        file.size = place.size.load(std::memory_order_relaxed);
        file.memory_align = place.memory_align.load(std::memory_order_relaxed);
        file.offset_align = place.offset_align.load(std::memory_order_relaxed);
        file.fills = place.fills.load(std::memory_order_relaxed) != 0;
        std::atomic_thread_fence(std::memory_order_acquire);
        if (place.id.load(std::memory_order_relaxed) == file.id) return file;
    }
    return {};
}

// Misaligned reads are the kernel's to refuse.
bool aligned(const File& file, std::uint64_t offset, const void* buffer, std::size_t size) {
    return file.offset_align != 0 && file.memory_align != 0 && (offset | size) % file.offset_align == 0 &&
           reinterpret_cast<std::uintptr_t>(buffer) % file.memory_align == 0;
}

// The number stands for a direct opening for reading, whoever may have closed and opened it where nobody looked: a
// process that shares this one's descriptors, or a call past libc.
bool reads_directly(int descriptor) {
    const long flags = raw_call(SYS_fcntl, descriptor, F_GETFL);
    return !failed(flags) && (flags & (O_ACCMODE | O_PATH | O_DIRECT)) == (O_RDONLY | O_DIRECT);
}

// The descriptor is the file's, and the file is as it was when its bytes were read: by its size and its times, which
// the kernel sets before a byte changes.
bool unchanged(int descriptor, const File& file, std::uint64_t device, std::uint64_t inode) {
    struct stat status;
    if (failed(raw_call(SYS_fstat, descriptor, word(&status)))) return false;
    return status.st_dev == device && status.st_ino == inode && stamp_of(status) == file.stamp;
}

// Waits for what is on its way. It was asked for before the program could, and so comes sooner than a second read of
// it.
bool comes(Region& region, const ServedParts& from, std::uint64_t file, std::uint64_t offset, std::uint64_t length) {
    if (process().waits_in_vain.load(std::memory_order_relaxed) >= kWaitsInVain) return false;
    const std::uint64_t until = kernels_now_ns() + kLongestWaitNs;
    Look look = Look::on_its_way;
    region.waiting.fetch_add(1);
    while (true) {
        const std::uint32_t arrivals = region.arrivals.load(std::memory_order_acquire);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        look = look_for(from, file, offset, length);
        const std::uint64_t now = kernels_now_ns();
        if (look != Look::on_its_way || now >= until) break;
        const timespec rest{0, static_cast<long>(until - now)};
        raw_call(SYS_futex, word(&region.arrivals), FUTEX_WAIT, arrivals, word(&rest));
    }
    region.waiting.fetch_sub(1);
    if (look == Look::on_its_way) process().waits_in_vain.fetch_add(1, std::memory_order_relaxed);
    return look == Look::here;
}

// Whether the program's buffer can be written: the kernel says EFAULT where a copy of ours would end the program.
bool writable(void* buffer, std::uint64_t length) {
    const std::uint64_t page = getauxval(AT_PAGESZ);
    const auto first = reinterpret_cast<std::uintptr_t>(buffer) / page * page;
    const auto end = reinterpret_cast<std::uintptr_t>(buffer) + length;
    return raw_call(SYS_madvise, static_cast<long>(first), static_cast<long>(end - first), kPopulateWrite) == 0;
}

}  // namespace

void serve_from(long page) { first_page = page; }

ssize_t serve(const Slot& slot, int descriptor, std::int64_t at, void* buffer, std::size_t size) {
    Region* region = live_region();
    if (!region || at < 0 || size == 0 || size > kMostRead || !granted(*region)) return 0;
    const ServedParts* from = memory(*region);
    if (!from) return 0;
    const Opening& opening = table.opening(slot);
    const std::uint64_t device = opening.device.load(std::memory_order_relaxed);
    const std::uint64_t inode = opening.inode.load(std::memory_order_relaxed);
    const File file = file_in(*from, device, inode);
    const auto offset = static_cast<std::uint64_t>(at);
    if (file.id == 0 || offset >= file.size || !aligned(file, offset, buffer, size)) return 0;
    const std::uint64_t length = size < file.size - offset ? size : file.size - offset;
    const Look look = look_for(*from, file.id, offset, length);
    if (look == Look::absent) return 0;
    if (pthread_testcancel) pthread_testcancel();  // as the call would
    const std::size_t written = file.fills ? size : length;
    if (!writable(buffer, written)) return 0;
    if (look == Look::on_its_way && !comes(*region, *from, file.id, offset, length)) return 0;
    // What changes the file from here on does so beside this read, which may then find either.
    if (!reads_directly(descriptor) || !unchanged(descriptor, file, device, inode)) return 0;
    if (!copy_from(*from, file.id, offset, length, buffer)) return 0;
    std::memset(static_cast<std::uint8_t*>(buffer) + length, 0, written - length);
    ClassStats& stats = region->stats.classes[slot.rule() % kMaxClasses];
    stats.served.fetch_add(1, std::memory_order_relaxed);
    stats.served_bytes.fetch_add(length, std::memory_order_relaxed);
    producer.served = true;
    return static_cast<ssize_t>(length);
}

}  // namespace chainio::shim
