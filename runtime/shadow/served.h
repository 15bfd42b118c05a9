// The server's side of the memory from which programs are served that read past the page cache (runtime/shim/served.h).
// Frames are given out in their order, and the oldest again when all are taken: what a program has just been read for
// lies in one stretch, and what lies longest goes first.
#pragma once
#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include "runtime/shim/served.h"

namespace chainio::shadow {

struct ServedIdentity {
    std::uint64_t device = 0, inode = 0, stamp = 0, size = 0;
    std::uint32_t memory_align = 0, offset_align = 0;
    bool fills = false;
};

class ServedMemory {
  public:
    // Makes the file at `path` as large as it is to be, at most `bytes` in all; nothing of it is touched before it is
    // needed.
    static std::expected<std::unique_ptr<ServedMemory>, std::string> create(const std::string& path,
                                                                            std::uint64_t bytes);
    ~ServedMemory();
    ServedMemory(const ServedMemory&) = delete;
    ServedMemory& operator=(const ServedMemory&) = delete;

    std::uint64_t bytes() const { return bytes_; }
    // From here on programs may be served from the file's frames. 0: all places for it are taken.
    std::uint64_t add(const ServedIdentity& file);
    // At once no longer. Its frames are given out again when it is their turn.
    void remove(std::uint64_t id);

    // Whether all of a range is there or on its way.
    bool holds(std::uint64_t id, std::uint64_t offset, std::uint64_t length) const;
    // Whether all of it is there.
    bool has(std::uint64_t id, std::uint64_t offset, std::uint64_t length) const;
    // Frames in a row for `pages` pages from `page` on, on their way from now; kNoFrame: those whose turn it is are.
    std::uint32_t begin(std::uint64_t id, std::uint64_t page, std::uint32_t pages);
    std::uint8_t* data(std::uint32_t frame) const { return parts_.data + std::uint64_t{frame} * shim::kServedPage; }
    // `bytes` of them have been read; the pages behind those stay empty.
    void arrived(std::uint32_t first, std::uint32_t pages, std::uint64_t bytes);
    void failed(std::uint32_t first, std::uint32_t pages) { arrived(first, pages, 0); }

    const shim::ServedParts& parts() const { return parts_; }

  private:
    ServedMemory(std::uint8_t* memory, std::uint64_t bytes) : memory_(memory), bytes_(bytes) {}
    void take(std::uint32_t frame, std::uint64_t id, std::uint64_t page);
    void forget(std::uint32_t frame);

    std::uint8_t* memory_;
    std::uint64_t bytes_;
    shim::ServedParts parts_;
    std::uint64_t last_id_ = 0;
    std::uint32_t next_ = 0;  // whose turn it is
};

}  // namespace chainio::shadow
