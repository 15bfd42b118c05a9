// Frames of one region, in size classes, handed out and taken back in constant time. Every frame in use has exactly one
// owner; a release by anybody else, or of a free frame, is refused and counted, so that a leak or a double free shows.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/umem/region.h"
#include "runtime/umem/zeroed.h"

namespace chainio::umem {

using Frame = std::uint32_t;  // index of the frame's first unit in the region
using Owner = std::uint32_t;  // 1 and up; 0 is "nobody"
inline constexpr Frame kNoFrame = UINT32_MAX;
inline constexpr std::uint32_t kUnit = 512;
inline constexpr std::uint32_t kClasses = 9;  // 512 B … 128 KiB
inline constexpr std::uint32_t kSlabBytes = 128 * 1024;
inline constexpr std::uint32_t kUnitsPerSlab = kSlabBytes / kUnit;
inline constexpr std::uint32_t kMaxFrame = kSlabBytes;

struct Accounting {
    std::uint64_t allocated = 0, released = 0, refused = 0, exhausted = 0;
    std::uint64_t in_use = 0, in_use_bytes = 0;
};

class Slab {
  public:
    explicit Slab(Region region);
    // Frames in the first `bytes` of the region are handed out before the others from now on (they are registered with
    // the ring).
    void prefer_first(std::size_t bytes);

    Frame allocate(std::uint32_t bytes, Owner owner);  // kNoFrame: none is free, or more than kMaxFrame was asked
    bool release(Frame frame, Owner owner);
    bool transfer(Frame frame, Owner from, Owner to);

    std::uint8_t* data(Frame frame) const { return region_.base() + static_cast<std::size_t>(frame) * kUnit; }
    Owner owner(Frame frame) const { return owners_[frame]; }
    std::uint32_t frame_bytes(Frame frame) const { return kUnit << slabs_[frame / kUnitsPerSlab].size_class; }
    const Accounting& accounting() const { return accounting_; }
    const Region& region() const { return region_; }
    void leave_mapped() { region_.leave_mapped(); }
    // Owners from `first` to before `end`.
    struct Owners {
        Owner first, end;
    };
    // One line for each frame that somebody else has ("frame 12 (4096 bytes): owner 7"), at most `limit` of them.
    std::vector<std::string> held(Owners but = {0, 0}, std::size_t limit = 16) const;
    // Whether nobody can make room for one who has the frames that are `own`: all others belong to owners whose frames
    // do not count, as they never come back, or yield anyway, and the own ones lie in as few slabs as they can.
    template <typename Own, typename Counts>
    bool is_alone(Own&& own, Counts&& counts) const {
        std::array<std::uint32_t, kClasses> frames{}, slabs{};
        for (std::size_t i = 0; i < slabs_.size(); i++) {
            const SlabInfo& slab = slabs_[i];
            const std::uint32_t before = frames[slab.size_class];
            for (std::uint32_t n = 0; slab.used != 0 && n < slab.carved; n++) {
                const Frame frame = static_cast<Frame>(i) * kUnitsPerSlab + (n << slab.size_class);
                if (owners_[frame] == 0 || !counts(owners_[frame])) continue;
                if (!own(frame)) return false;
                frames[slab.size_class]++;
            }
            slabs[slab.size_class] += frames[slab.size_class] != before ? 1 : 0;
        }
        for (std::uint32_t each = 0; each < kClasses; each++) {
            const std::uint32_t most = kUnitsPerSlab >> each;
            if (slabs[each] > (frames[each] + most - 1) / most) return false;
        }
        return true;
    }

  private:
    static constexpr std::uint32_t kNone = UINT32_MAX;
    struct SlabInfo {
        std::uint32_t size_class = 0;
        std::uint32_t used = 0;           // frames in use
        std::uint32_t carved = 0;         // frames that were handed out at least once since the slab got its class
        std::uint32_t free_head = kNone;  // released frames, linked through next_free_
        std::uint32_t prev = kNone, next = kNone;  // in its class's list of slabs with room
        bool listed = false;
    };
    struct Zone {  // the registered part, and the rest
        std::vector<std::uint32_t> empty;
        std::array<std::uint32_t, kClasses> with_room{};
    };
    static std::uint32_t class_of(std::uint32_t bytes);
    std::uint32_t capacity(const SlabInfo& slab) const { return kUnitsPerSlab >> slab.size_class; }
    std::uint32_t slab_with_room(Zone& zone, std::uint32_t size_class);
    void link(Zone& zone, std::uint32_t index);
    void unlink(Zone& zone, std::uint32_t index);
    Zone& zone_of(std::uint32_t slab) { return zones_[slab < preferred_slabs_ ? 0 : 1]; }

    Region region_;
    std::uint32_t preferred_slabs_;
    std::vector<SlabInfo> slabs_;
    ZeroedVector<Owner> owners_;
    ZeroedVector<std::uint32_t> next_free_;  // of released frames
    std::array<Zone, 2> zones_;
    Accounting accounting_;
};

}  // namespace chainio::umem
