#include "runtime/shadow/served.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace chainio::shadow {
namespace {

using shim::kFileWays;
using shim::kHintsInBucket;
using shim::kNoFrame;
using shim::kServedPage;
using shim::ServedFile;
using shim::ServedFrame;

constexpr std::uint64_t kLeast = std::uint64_t{1} << 20;

std::uint32_t frames_in(std::uint64_t bytes) {
    auto frames = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / kServedPage, UINT32_MAX));
    while (frames > 0 && shim::served_bytes(frames) > bytes) frames -= frames / 64 + 1;
    return frames;
}

}  // namespace

std::expected<std::unique_ptr<ServedMemory>, std::string> ServedMemory::create(const std::string& path,
                                                                               std::uint64_t bytes) {
    const auto fail = [&](const std::string& what) { return std::unexpected(path + ": " + what); };
    const std::uint32_t frames = bytes < kLeast ? 0 : frames_in(bytes);
    if (frames == 0) return fail("less than 1 MiB serves nothing");
    const std::uint64_t whole = shim::served_bytes(frames);
    rlimit largest{};
    if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < whole)
        return fail("files may not be as large as that (ulimit -f)");
    struct statvfs room{};
    const std::string folder = path.substr(0, path.rfind('/'));
    if (statvfs(folder.c_str(), &room) != 0) return fail(std::strerror(errno));
    if (room.f_bavail * room.f_frsize < 2 * whole)
        return fail("less than " + std::to_string(2 * whole >> 20) + " MiB are free");
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return fail(std::strerror(errno));
    // What programs look at is there from the beginning: a hole that finds no room later would end them (SIGBUS). Of
    // the frames' bytes they see only what the kernel has written.
    void* at = MAP_FAILED;
    int error = ftruncate(fd, static_cast<off_t>(whole)) == 0 ? 0 : errno;
    if (error == 0) error = posix_fallocate(fd, 0, static_cast<off_t>(whole - std::uint64_t{frames} * kServedPage));
    if (error == 0) at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (error == 0 && at == MAP_FAILED) error = errno;
    close(fd);
    if (at == MAP_FAILED) return fail(std::strerror(error));
    auto* memory = static_cast<std::uint8_t*>(at);
    std::unique_ptr<ServedMemory> made(new ServedMemory(memory, whole));
    auto* head = reinterpret_cast<shim::ServedHead*>(memory);
    head->frames = frames;
    head->buckets = shim::buckets_for(frames);
    head->magic = shim::kServedMagic;
    if (!shim::served_parts(memory, whole, made->parts_)) return fail("its parts do not fit");
    return made;
}

ServedMemory::~ServedMemory() { munmap(memory_, bytes_); }

std::uint64_t ServedMemory::add(const ServedIdentity& file) {
    const std::uint32_t first = shim::place_of_file(file.device, file.inode);
    for (std::uint32_t i = 0; i < kFileWays; i++) {
        ServedFile& place = parts_.files[(first + i) % shim::kServedFiles];
        if (place.id.load(std::memory_order_relaxed) != 0) continue;
        std::atomic_thread_fence(std::memory_order_release);  // a reader of what follows finds the id gone
        place.device.store(file.device, std::memory_order_relaxed);
        place.inode.store(file.inode, std::memory_order_relaxed);
        place.stamp.store(file.stamp, std::memory_order_relaxed);
        place.size.store(file.size, std::memory_order_relaxed);
        place.memory_align.store(file.memory_align, std::memory_order_relaxed);
        place.offset_align.store(file.offset_align, std::memory_order_relaxed);
        place.fills.store(file.fills ? 1 : 0, std::memory_order_relaxed);
        place.id.store(++last_id_, std::memory_order_release);
        return last_id_;
    }
    return 0;
}

void ServedMemory::remove(std::uint64_t id) {
    for (std::uint32_t i = 0; i < shim::kServedFiles; i++) {
        ServedFile& place = parts_.files[i];
        if (place.id.load(std::memory_order_relaxed) == id) place.id.store(0, std::memory_order_release);
    }
}

bool ServedMemory::holds(std::uint64_t id, std::uint64_t offset, std::uint64_t length) const {
    return shim::look_for(parts_, id, offset, length) != shim::Look::absent;
}

bool ServedMemory::has(std::uint64_t id, std::uint64_t offset, std::uint64_t length) const {
    return shim::look_for(parts_, id, offset, length) == shim::Look::here;
}

// Takes the frame's hint away, if it still has one.
void ServedMemory::forget(std::uint32_t index) {
    ServedFrame& frame = parts_.frames[index];
    const std::uint64_t file = frame.file.load(std::memory_order_relaxed);
    if (file == 0) return;
    const shim::HintKey key = shim::hint_key(parts_, file, frame.page.load(std::memory_order_relaxed));
    auto* bucket = parts_.hints + std::uint64_t{key.bucket} * kHintsInBucket;
    const std::uint64_t mine = std::uint64_t{key.tag} << 32 | (index + 1);
    for (std::uint32_t i = 0; i < kHintsInBucket; i++) {
        if (bucket[i].load(std::memory_order_relaxed) == mine) bucket[i].store(0, std::memory_order_relaxed);
    }
}

void ServedMemory::take(std::uint32_t index, std::uint64_t id, std::uint64_t page) {
    const std::uint32_t before = shim::frame_of(parts_, id, page, kNoFrame);
    forget(index);
    ServedFrame& frame = parts_.frames[index];
    frame.version.store(frame.version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // Who finds the new bytes in the frame finds the odd version, too.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    frame.file.store(id, std::memory_order_relaxed);
    frame.page.store(page, std::memory_order_relaxed);
    if (before != kNoFrame && before != index) forget(before);  // the page has a newer frame
    const shim::HintKey key = shim::hint_key(parts_, id, page);
    auto* bucket = parts_.hints + std::uint64_t{key.bucket} * kHintsInBucket;
    const std::uint64_t mine = std::uint64_t{key.tag} << 32 | (index + 1);
    for (std::uint32_t i = 0; i < kHintsInBucket; i++) {
        if (bucket[i].load(std::memory_order_relaxed) != 0) continue;
        return bucket[i].store(mine, std::memory_order_release);
    }
    bucket[index % kHintsInBucket].store(mine, std::memory_order_release);
}

std::uint32_t ServedMemory::begin(std::uint64_t id, std::uint64_t page, std::uint32_t pages) {
    if (pages == 0 || pages > parts_.frame_count) return kNoFrame;
    const std::uint32_t first = next_ + pages <= parts_.frame_count ? next_ : 0;
    for (std::uint32_t i = first; i < first + pages; i++) {
        if (parts_.frames[i].version.load(std::memory_order_relaxed) % 2 != 0) return kNoFrame;
    }
    for (std::uint32_t i = 0; i < pages; i++) take(first + i, id, page + i);
    next_ = first + pages;
    return first;
}

void ServedMemory::arrived(std::uint32_t first, std::uint32_t pages, std::uint64_t bytes) {
    for (std::uint32_t i = 0; i < pages; i++) {
        ServedFrame& frame = parts_.frames[first + i];
        const auto here = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, kServedPage));
        bytes -= here;
        if (here == 0) {
            forget(first + i);
            frame.file.store(0, std::memory_order_relaxed);
        }
        frame.bytes.store(here, std::memory_order_relaxed);
        frame.version.store(frame.version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
}

}  // namespace chainio::shadow
