// Replies of several datagrams, from frames that other work has filled: a packet's headers go in front of its first
// stretch, so that no byte of the payload is moved.
#include <algorithm>
#include <cstring>

#include "runtime/net/port.h"

namespace chainio::net {

bool Port::begin_reply(std::span<const umem::Frame> frames, umem::Owner owner) {
    const auto fits = [&](umem::Frame frame) {
        return frame % (kChunk / umem::kUnit) == 0 && frame / (kChunk / umem::kUnit) < chunks_.size() &&
               slab_.owner(frame) == owner && slab_.frame_bytes(frame) >= kChunk;
    };
    if (!std::ranges::all_of(frames, fits)) return false;
    for (const umem::Frame frame : frames) {
        slab_.transfer(frame, owner, owners_.sending());
        // Counted once for the reply itself, so that what has left already does not take the frame away.
        chunk(frame).pending++;
        sending_++;
    }
    return true;
}

std::expected<void, AnswerError> Port::reply(const umem::Descriptor& request, std::span<const umem::Descriptor> data) {
    if (!is_request(request) || data.empty()) return std::unexpected(AnswerError::not_a_request);
    const Chunk& from = chunk(request.frame);
    if (data.front().offset < from.header_bytes) return std::unexpected(AnswerError::bad_range);
    std::uint32_t length = 0;
    std::uint16_t sum = 0;
    Packet packet;
    bool fits = true;
    for (const umem::Descriptor& each : data) {
        const std::uint32_t front = &each == &data.front() ? from.header_bytes : 0u;
        if (slab_.owner(each.frame) != owners_.sending()) return std::unexpected(AnswerError::bad_frame);
        if (std::uint64_t{each.offset} + each.length > slab_.frame_bytes(each.frame))
            return std::unexpected(AnswerError::bad_range);
        sum = sum_with(sum, length, sum_of({slab_.data(each.frame) + each.offset, each.length}));
        length += each.length;
        fits = fits && packet.add(each.frame, each.offset - front, each.length + front);
    }
    if (length > largest_payload(from.v6)) return std::unexpected(AnswerError::too_large);
    std::uint8_t* headers = slab_.data(data[0].frame) + data[0].offset - from.header_bytes;
    std::memcpy(headers, slab_.data(request.frame) + from.begin, from.header_bytes);
    turn_around({headers, from.header_bytes}, from.v6, static_cast<std::uint16_t>(length), sum);
    if (!fits || (packet.count > 1 && !mode_.multi_buffer)) return reply_by_copy(from, data);
    if (!room(from.queue, packet.count)) return std::unexpected(AnswerError::ring_full);
    push(from.queue, packet);
    return {};
}

// A packet of more pieces than the kernel takes is put together in frames of its own.
std::expected<void, AnswerError> Port::reply_by_copy(const Chunk& request, std::span<const umem::Descriptor> data) {
    Packet whole;
    std::uint32_t used = kChunk;  // of the last frame
    AnswerError failed = AnswerError::too_large;
    const auto append = [&](const std::uint8_t* bytes, std::uint32_t length) {
        while (length > 0) {
            if (used == kChunk) {
                if (whole.count == (mode_.multi_buffer ? kMostParts : 1)) return false;
                const umem::Frame frame = slab_.allocate(kChunk, owners_.sending());
                failed = AnswerError::bad_frame;
                if (frame == umem::kNoFrame) return false;
                whole.pieces[whole.count++] = {frame, 0, 0};
                failed = AnswerError::too_large;
                used = 0;
            }
            Piece& last = whole.pieces[whole.count - 1];
            const std::uint32_t here = std::min(length, kChunk - used);
            std::memcpy(slab_.data(last.frame) + used, bytes, here);
            last.length += here;
            used += here;
            bytes += here;
            length -= here;
        }
        return true;
    };
    bool fits = true;
    for (const umem::Descriptor& each : data) {
        const std::uint32_t front = &each == &data.front() ? request.header_bytes : 0u;
        fits = fits && append(slab_.data(each.frame) + each.offset - front, each.length + front);
    }
    if (fits && !room(request.queue, whole.count)) {
        fits = false;
        failed = AnswerError::ring_full;
    }
    if (!fits) {
        for (std::size_t i = 0; i < whole.count; i++) slab_.release(whole.pieces[i].frame, owners_.sending());
        return std::unexpected(failed);
    }
    counters_.payload_copies++;
    push(request.queue, whole);
    return {};
}

std::uint32_t Port::longest_on_way(const umem::Descriptor& request, std::uint32_t wanted) {
    const std::uint32_t headers = chunk(request.frame).header_bytes - kEthernet;
    if (headers + wanted <= CIO_PATH_ALWAYS) return wanted;
    const Ends between = ends(request);
    const std::uint32_t mtu = path_mtu_.to(between.peer, between.own);
    return std::min(wanted, mtu - std::min(mtu, headers));
}

void Port::end_reply(std::span<const umem::Frame> frames) {
    for (const umem::Frame frame : frames) let_go(frame);
    counters_.answered++;
}

}  // namespace chainio::net
