// What the server has read for programs that read past the page cache: frames of a page each in a file beside the
// region, which programs map for reading only and the server alone writes. It is there before a program begins, with
// one page, since a program that has threads can open nothing unseen any more once something is served.
//
// A frame says itself whose bytes it holds, and its version is odd while they change: a reader copies them and then
// looks whether the frame is still what it was, so that what it takes is right whatever the server does meanwhile.
// Everything else only helps to find frames: a hint that is wrong costs a hit.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <cstdint>

namespace chainio::shim {

inline constexpr std::uint64_t kServedMagic = 0x3176726573'6f6963;  // "cioserv1"
inline constexpr char kServedFile[] = "/served";                    // in the region's directory
inline constexpr std::uint32_t kServedPage = 4096;
inline constexpr std::uint32_t kServedFiles = 256, kFileWays = 4, kHintsInBucket = 8;
inline constexpr std::uint32_t kNoFrame = UINT32_MAX;

struct ServedFile {
    std::atomic<std::uint64_t> id;  // 0: none. An id is never given to another file, or to the same after it changed
    std::atomic<std::uint64_t> device, inode;
    std::atomic<std::uint64_t> stamp, size;                 // stamp_of() what fstat said, and the size in it
    std::atomic<std::uint32_t> memory_align, offset_align;  // what the kernel asks of reads with O_DIRECT
    // 1: such a read goes to a disk, which leaves zeros in what it has room for behind the file's end. Others copy what
    // there is, and leave the rest as it was.
    std::atomic<std::uint32_t> fills;
    std::uint32_t unused[3];  // a cache line in all
};
static_assert(sizeof(ServedFile) == 64);

struct ServedFrame {
    std::atomic<std::uint32_t> version;  // odd: its bytes are on their way
    std::atomic<std::uint32_t> bytes;    // a page but at the end of the file
    std::atomic<std::uint64_t> file, page;
};
static_assert(sizeof(ServedFrame) == 24);

struct ServedHead {
    std::uint64_t magic;
    std::uint32_t frames, buckets;
};

// Where the parts lie in a mapping.
struct ServedParts {
    ServedFile* files = nullptr;
    std::atomic<std::uint64_t>* hints =
        nullptr;  // kHintsInBucket a bucket: tag above, number of the frame plus one below
    ServedFrame* frames = nullptr;
    std::uint8_t* data = nullptr;
    std::uint32_t frame_count = 0, bucket_count = 0;
};
std::uint32_t buckets_for(std::uint32_t frames);
// The whole file with so many frames.
std::uint64_t served_bytes(std::uint32_t frames);
// The parts of memory whose head says `frames`; false when it does not fit into `bytes`, or is nothing of ours.
bool served_parts(std::uint8_t* memory, std::uint64_t bytes, ServedParts& parts);

// One number for all that changes when a file does: its size and its times. Never 0.
std::uint64_t stamp_of(const struct stat& status);

// The first of the kFileWays neighbouring places where a file may stand.
std::uint32_t place_of_file(std::uint64_t device, std::uint64_t inode);
// Which bucket and tag a page of a file has; the tag is never 0.
struct HintKey {
    std::uint32_t bucket, tag;
};
HintKey hint_key(const ServedParts& parts, std::uint64_t file, std::uint64_t page);
// The frame that holds a page or is to hold it, or kNoFrame. `guess`: looked at first.
std::uint32_t frame_of(const ServedParts& parts, std::uint64_t file, std::uint64_t page, std::uint32_t guess);

enum class Look : std::uint8_t { absent, on_its_way, here };
// Of the pages from `offset` to `offset + length`: whether all are here, or will be.
Look look_for(const ServedParts& parts, std::uint64_t file, std::uint64_t offset, std::uint64_t length);
// Copies them. False: some of them are not there any more, and what was written to `to` is to be written over.
bool copy_from(const ServedParts& parts, std::uint64_t file, std::uint64_t offset, std::uint64_t length, void* to);

}  // namespace chainio::shim
