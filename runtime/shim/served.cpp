#include "runtime/shim/served.h"

#include <cstring>

namespace chainio::shim {
namespace {

constexpr std::uint64_t kMostFrames = std::uint64_t{1} << 24;  // 64 GiB
constexpr std::uint64_t kFilesAt = kServedPage;

std::uint64_t up_to_page(std::uint64_t bytes) { return (bytes + kServedPage - 1) / kServedPage * kServedPage; }

struct Places {
    std::uint64_t hints, frames, data, end;
};
Places places_for(std::uint32_t frames) {
    Places at{};
    at.hints = kFilesAt + up_to_page(sizeof(ServedFile) * kServedFiles);
    at.frames = at.hints + up_to_page(sizeof(std::uint64_t) * kHintsInBucket * buckets_for(frames));
    at.data = at.frames + up_to_page(sizeof(ServedFrame) * frames);
    at.end = at.data + std::uint64_t{frames} * kServedPage;
    return at;
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
    std::uint64_t hash = (a ^ b * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
    hash *= 0x94d049bb133111ebu;
    return hash ^ hash >> 32;
}

bool holds(const ServedFrame& frame, std::uint64_t file, std::uint64_t page) {
    return frame.page.load(std::memory_order_relaxed) == page && frame.file.load(std::memory_order_relaxed) == file;
}

// The bytes may change while they are copied, which the caller finds out afterwards. Nothing is made of them before; a
// checker of races is shown that word by word, and programs get the quickest copy there is.
void copy_changing(const std::uint8_t* from, std::uint8_t* to, std::uint64_t count) {
#if __has_feature(thread_sanitizer)
    while (count != 0 && reinterpret_cast<std::uintptr_t>(from) % sizeof(std::uint64_t) != 0) {
        *to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
        count--;
    }
    for (; count >= sizeof(std::uint64_t); count -= sizeof(std::uint64_t)) {
        const std::uint64_t word = __atomic_load_n(reinterpret_cast<const std::uint64_t*>(from), __ATOMIC_RELAXED);
        std::memcpy(to, &word, sizeof word);
        from += sizeof word;
        to += sizeof word;
    }
    while (count-- != 0) *to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
#else
    std::memcpy(to, from, count);
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Calls `each(page, from, count)` for each page of a range; whether it said true of all.
template <class Each>
bool for_pages(std::uint64_t offset, std::uint64_t length, Each each) {
    for (const std::uint64_t end = offset + length; offset < end;) {
        const std::uint64_t page = offset / kServedPage, from = offset % kServedPage;
        const std::uint64_t count = end - offset < kServedPage - from ? end - offset : kServedPage - from;
        if (!each(page, static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(count))) return false;
        offset += count;
    }
    return true;
}

}  // namespace

std::uint32_t buckets_for(std::uint32_t frames) {
    constexpr std::uint32_t kFramesInBucket = kHintsInBucket / 2;  // when all are taken
    return frames / kFramesInBucket + 1;
}

std::uint64_t served_bytes(std::uint32_t frames) { return places_for(frames).end; }

bool served_parts(std::uint8_t* memory, std::uint64_t bytes, ServedParts& parts) {
    const auto* head = reinterpret_cast<const ServedHead*>(memory);
    if (bytes < kServedPage || head->magic != kServedMagic) return false;
    const std::uint32_t frames = head->frames;
    if (frames == 0 || frames > kMostFrames || head->buckets != buckets_for(frames)) return false;
    const Places at = places_for(frames);
    if (at.end > bytes) return false;
    parts.files = reinterpret_cast<ServedFile*>(memory + kFilesAt);
    parts.hints = reinterpret_cast<std::atomic<std::uint64_t>*>(memory + at.hints);
    parts.frames = reinterpret_cast<ServedFrame*>(memory + at.frames);
    parts.data = memory + at.data;
    parts.frame_count = frames;
    parts.bucket_count = buckets_for(frames);
    return true;
}

std::uint64_t stamp_of(const struct stat& status) {
    const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
    std::uint64_t hash = mixed(word(status.st_size), 1);
    hash = mixed(hash, word(status.st_mtim.tv_sec));
    hash = mixed(hash, word(status.st_mtim.tv_nsec));
    hash = mixed(hash, word(status.st_ctim.tv_sec));
    hash = mixed(hash, word(status.st_ctim.tv_nsec));
    return hash != 0 ? hash : 1;
}

std::uint32_t place_of_file(std::uint64_t device, std::uint64_t inode) {
    return static_cast<std::uint32_t>(mixed(inode, device) % kServedFiles);
}

HintKey hint_key(const ServedParts& parts, std::uint64_t file, std::uint64_t page) {
    const std::uint64_t hash = mixed(page, file);
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    return {static_cast<std::uint32_t>(hash) % parts.bucket_count, tag != 0 ? tag : 1};
}

std::uint32_t frame_of(const ServedParts& parts, std::uint64_t file, std::uint64_t page, std::uint32_t guess) {
    if (guess < parts.frame_count && holds(parts.frames[guess], file, page)) return guess;
    const HintKey key = hint_key(parts, file, page);
    const auto* bucket = parts.hints + std::uint64_t{key.bucket} * kHintsInBucket;
    for (std::uint32_t i = 0; i < kHintsInBucket; ++i) {
        const std::uint64_t hint = bucket[i].load(std::memory_order_acquire);
        const std::uint32_t frame = static_cast<std::uint32_t>(hint) - 1;
        if (hint >> 32 == key.tag && frame < parts.frame_count && holds(parts.frames[frame], file, page)) return frame;
    }
    return kNoFrame;
}

Look look_for(const ServedParts& parts, std::uint64_t file, std::uint64_t offset, std::uint64_t length) {
    std::uint32_t guess = kNoFrame;
    bool all_here = true;
    const bool all = for_pages(offset, length, [&](std::uint64_t page, std::uint32_t, std::uint32_t) {
        const std::uint32_t frame = frame_of(parts, file, page, guess);
        if (frame == kNoFrame) return false;
        all_here = all_here && parts.frames[frame].version.load(std::memory_order_acquire) % 2 == 0;
        guess = frame + 1;
        return true;
    });
    return !all ? Look::absent : all_here ? Look::here : Look::on_its_way;
}

bool copy_from(const ServedParts& parts, std::uint64_t file, std::uint64_t offset, std::uint64_t length, void* to) {
    std::uint32_t guess = kNoFrame;
    auto* out = static_cast<std::uint8_t*>(to);
    return for_pages(offset, length, [&](std::uint64_t page, std::uint32_t from, std::uint32_t count) {
        const std::uint32_t index = frame_of(parts, file, page, guess);
        if (index == kNoFrame) return false;
        const ServedFrame& frame = parts.frames[index];
        const std::uint32_t version = frame.version.load(std::memory_order_acquire);
        if (version % 2 != 0 || !holds(frame, file, page)) return false;
        if (frame.bytes.load(std::memory_order_relaxed) < from + count) return false;
        copy_changing(parts.data + std::uint64_t{index} * kServedPage + from, out, count);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (frame.version.load(std::memory_order_relaxed) != version) return false;
        out += count;
        guess = index + 1;
        return true;
    });
}

}  // namespace chainio::shim
