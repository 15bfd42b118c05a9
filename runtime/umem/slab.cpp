#include "runtime/umem/slab.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace chainio::umem {

Slab::Slab(Region region)
    : region_(std::move(region)), owners_(region_.size() / kUnit), next_free_(region_.size() / kUnit) {
    const auto count = static_cast<std::uint32_t>(region_.size() / kSlabBytes);
    slabs_.resize(count);
    prefer_first(region_.size());
}

void Slab::prefer_first(std::size_t bytes) {
    preferred_slabs_ = static_cast<std::uint32_t>(std::min(bytes, region_.size()) / kSlabBytes);
    for (auto& zone : zones_) {
        zone.empty.clear();
        zone.empty.reserve(slabs_.size());
        zone.with_room.fill(kNone);
    }
    // The lowest slab is taken first: the pages that were used last are used again.
    for (auto index = static_cast<std::uint32_t>(slabs_.size()); index-- > 0;) {
        if (slabs_[index].used == 0) {
            zone_of(index).empty.push_back(index);
        } else if (slabs_[index].listed) {
            link(zone_of(index), index);
        }
    }
}

std::uint32_t Slab::class_of(std::uint32_t bytes) {
    const std::uint32_t units = (std::max(bytes, 1u) + kUnit - 1) / kUnit;
    return static_cast<std::uint32_t>(std::bit_width(units - 1));
}

void Slab::link(Zone& zone, std::uint32_t index) {
    SlabInfo& slab = slabs_[index];
    std::uint32_t& head = zone.with_room[slab.size_class];
    slab.prev = kNone;
    slab.next = head;
    if (head != kNone) slabs_[head].prev = index;
    head = index;
    slab.listed = true;
}

void Slab::unlink(Zone& zone, std::uint32_t index) {
    SlabInfo& slab = slabs_[index];
    if (slab.prev != kNone) slabs_[slab.prev].next = slab.next;
    if (slab.next != kNone) slabs_[slab.next].prev = slab.prev;
    if (zone.with_room[slab.size_class] == index) zone.with_room[slab.size_class] = slab.next;
    slab.listed = false;
}

std::uint32_t Slab::slab_with_room(Zone& zone, std::uint32_t size_class) {
    if (zone.with_room[size_class] != kNone) return zone.with_room[size_class];
    if (zone.empty.empty()) return kNone;
    const std::uint32_t index = zone.empty.back();
    zone.empty.pop_back();
    slabs_[index] = SlabInfo{};
    slabs_[index].size_class = size_class;
    link(zone, index);
    return index;
}

Frame Slab::allocate(std::uint32_t bytes, Owner owner) {
    if (bytes > kMaxFrame || owner == 0) return kNoFrame;
    const std::uint32_t size_class = class_of(bytes);
    for (auto& zone : zones_) {
        const std::uint32_t index = slab_with_room(zone, size_class);
        if (index == kNone) continue;
        SlabInfo& slab = slabs_[index];
        Frame frame = slab.free_head;
        if (frame != kNone) {
            slab.free_head = next_free_[frame];
        } else {
            frame = index * kUnitsPerSlab + (slab.carved++ << size_class);
        }
        if (++slab.used == capacity(slab)) unlink(zone, index);
        owners_[frame] = owner;
        accounting_.allocated++;
        accounting_.in_use++;
        accounting_.in_use_bytes += kUnit << size_class;
        return frame;
    }
    accounting_.exhausted++;
    return kNoFrame;
}

bool Slab::release(Frame frame, Owner owner) {
    if (frame >= owners_.size() || owner == 0 || owners_[frame] != owner) {
        accounting_.refused++;
        return false;
    }
    const std::uint32_t index = frame / kUnitsPerSlab;
    SlabInfo& slab = slabs_[index];
    Zone& zone = zone_of(index);
    owners_[frame] = 0;
    next_free_[frame] = slab.free_head;
    slab.free_head = frame;
    accounting_.released++;
    accounting_.in_use--;
    accounting_.in_use_bytes -= kUnit << slab.size_class;
    if (--slab.used == 0) {
        // An empty slab serves any size class again, so that large frames are found after many small ones.
        if (slab.listed) unlink(zone, index);
        zone.empty.push_back(index);
    } else if (!slab.listed) {
        link(zone, index);
    }
    return true;
}

bool Slab::transfer(Frame frame, Owner from, Owner to) {
    if (frame >= owners_.size() || from == 0 || to == 0 || owners_[frame] != from) {
        accounting_.refused++;
        return false;
    }
    owners_[frame] = to;
    return true;
}

std::vector<std::string> Slab::held(Owners but, std::size_t limit) const {
    std::vector<std::string> lines;
    for (Frame frame = 0; frame < owners_.size() && lines.size() < limit; frame++) {
        if (owners_[frame] == 0 || (owners_[frame] >= but.first && owners_[frame] < but.end)) continue;
        lines.push_back("frame " + std::to_string(frame) + " (" + std::to_string(frame_bytes(frame)) +
                        " bytes): owner " + std::to_string(owners_[frame]));
    }
    return lines;
}

}  // namespace chainio::umem
