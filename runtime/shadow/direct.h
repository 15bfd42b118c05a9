// Files of `immutable` classes that a program reads with O_DIRECT: what is fetched of them goes into memory from which
// the program is served, for its reads go past the page cache.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/shadow/files.h"
#include "runtime/shadow/served.h"
#include "runtime/shim/protocol.h"

namespace chainio::shadow {

class Direct {
  public:
    // The memory is made beside the region when the first such file is fetched from; `bytes` 0: never.
    Direct(shim::Region& region, const std::string& region_path, std::uint64_t bytes);

    // Whether what is fetched of the file can be served. Looks at the file each time: when it has changed since,
    // nothing that was read of it is served any more.
    bool ready(ShadowFile& file);
    // Whether the file still is what ready() saw.
    bool unchanged(const ShadowFile& file) const;
    void closes(ShadowFile& file);
    void count_walk() { refuse(Why::walk); }
    void count_no_ring() { refuse(Why::no_ring); }

    // Of files that are ready(); as ServedMemory has them.
    bool holds(const ShadowFile& file, std::uint64_t offset, std::uint64_t length) const {
        return memory_->holds(file.served_id, offset, length);
    }
    // Of any file: whether it could have been read from there.
    bool has(const ShadowFile& file, std::uint64_t offset, std::uint64_t length) const {
        return memory_ != nullptr && file.served_id != 0 && memory_->has(file.served_id, offset, length);
    }
    std::uint32_t begin(const ShadowFile& file, std::uint64_t offset, std::uint32_t pages) {
        return memory_->begin(file.served_id, offset / shim::kServedPage, pages);
    }
    std::uint8_t* data(std::uint32_t frame) const { return memory_->data(frame); }
    // Also wakes the programs that wait.
    void arrived(std::uint32_t first, std::uint32_t pages, std::uint64_t bytes);

    bool any() const { return memory_ != nullptr; }
    std::vector<std::string> notes() const;

  private:
    enum class Why : std::uint8_t {
        off,
        no_memory,
        cannot_open,
        just_changed,
        too_many,
        walk,
        changed,
        alignment,
        no_ring
    };
    static constexpr std::size_t kWhys = 9;
    bool refuse(Why why);
    bool make_memory();
    bool open(ShadowFile& file);

    shim::Region& region_;
    std::string path_;
    std::uint64_t bytes_;
    std::unique_ptr<ServedMemory> memory_;
    std::string no_memory_;  // why it could not be made
    std::array<std::uint64_t, kWhys> whys_{};
};

}  // namespace chainio::shadow
