// How an answer leaves in the request's own frame, and how packets get onto the rings.
#include <algorithm>
#include <cstring>

#include "runtime/net/port.h"

namespace chainio::net {

std::string_view name_of(AnswerError error) {
    switch (error) {
        case AnswerError::not_a_request: return "not_a_request";
        case AnswerError::bad_range: return "bad_range";
        case AnswerError::bad_frame: return "bad_frame";
        case AnswerError::too_large: return "too_large";
        case AnswerError::ring_full: return "ring_full";
    }
    return "unknown";
}

// The kernel wants no piece to go over the end of a chunk.
bool Port::Packet::add(umem::Frame frame, std::uint32_t offset, std::uint32_t length) {
    while (length > 0) {
        if (count == kMostParts) return false;
        const std::uint32_t here = std::min(length, kChunk - offset % kChunk);
        pieces[count++] = {frame, offset, here};
        offset += here;
        length -= here;
    }
    return true;
}

bool Port::room(unsigned number, std::size_t pieces) {
    Queue& queue = *queues_[number];
    const auto wanted = static_cast<std::uint32_t>(pieces);
    if (xsk_prod_nb_free(&queue.tx, wanted) >= wanted) return true;
    kick(queue);
    reap(queue);
    if (xsk_prod_nb_free(&queue.tx, wanted) >= wanted) return true;
    counters_.ring_full++;
    return false;
}

void Port::push(unsigned number, const Packet& packet) {
    Queue& queue = *queues_[number];
    const auto pieces = static_cast<std::uint32_t>(packet.count);
    std::uint32_t index = 0;
    xsk_ring_prod__reserve(&queue.tx, pieces, &index);
    for (std::uint32_t i = 0; i < pieces; i++) {
        const Piece& piece = packet.pieces[i];
        const std::uint64_t at = std::uint64_t{piece.frame} * umem::kUnit + piece.offset;
        xdp_desc* desc = xsk_ring_prod__tx_desc(&queue.tx, index + i);
        *desc = {.addr = at, .len = piece.length, .options = i + 1 < pieces ? XDP_PKT_CONTD : 0u};
        chunks_[at / kChunk].head = piece.frame;
        if (chunk(piece.frame).pending++ == 0) sending_++;
    }
    xsk_ring_prod__submit(&queue.tx, pieces);
    counters_.pieces += pieces;
}

void Port::head(const umem::Descriptor& request, std::uint32_t length, std::uint16_t sum) {
    const Chunk& first = chunk(request.frame);
    turn_around({slab_.data(request.frame) + first.begin, first.header_bytes}, first.v6,
                static_cast<std::uint16_t>(length), sum);
}

std::size_t Port::parts(const umem::Descriptor& request, Parts& out) const {
    if (!is_request(request)) return 0;
    std::size_t count = 0;
    std::uint32_t skip = chunk(request.frame).header_bytes, left = request.length;
    for (umem::Frame frame = request.frame; frame != umem::kNoFrame && left > 0; frame = chunk(frame).next) {
        const Chunk& part = chunk(frame);
        const std::uint32_t here = std::min<std::uint32_t>(left, part.length - skip);
        out[count++] = {slab_.data(frame) + part.begin + skip, here};
        left -= here;
        skip = 0;
    }
    return count;
}

std::expected<void, AnswerError> Port::answer(const umem::Descriptor& request, std::uint32_t length) {
    if (!is_request(request)) return std::unexpected(AnswerError::not_a_request);
    const Chunk first = chunk(request.frame);
    if (length > largest_payload(first.v6)) return std::unexpected(AnswerError::too_large);
    Packet packet;
    std::uint16_t sum = 0;
    std::uint32_t done = 0, skip = first.header_bytes;
    umem::Frame frame = request.frame;
    for (; frame != umem::kNoFrame && (frame == request.frame || done < length); frame = chunk(frame).next) {
        const Chunk& part = chunk(frame);
        // In the only frame of a request there is room behind what came.
        const std::uint32_t has = (first.next == umem::kNoFrame ? kChunk - part.begin : part.length) - skip;
        const std::uint32_t here = std::min(length - done, has);
        sum = sum_with(sum, done, sum_of({slab_.data(frame) + part.begin + skip, here}));
        if (!packet.add(frame, part.begin, skip + here)) return std::unexpected(AnswerError::too_large);
        done += here;
        skip = 0;
    }
    if (done < length) return std::unexpected(AnswerError::bad_range);
    if (!room(first.queue, packet.count)) return std::unexpected(AnswerError::ring_full);
    head(request, length, sum);
    if (frame != umem::kNoFrame) give_back(frame);
    for (std::size_t i = 0; i < packet.count; i++)
        slab_.transfer(packet.pieces[i].frame, owners_.received(), owners_.sending());
    push(first.queue, packet);
    unanswered_--;
    counters_.answered++;
    return {};
}

std::expected<void, AnswerError> Port::transmit(umem::Frame frame, std::uint32_t length, unsigned queue,
                                                umem::Owner owner) {
    if (queue >= queues_.size() || length == 0 || length > kChunk) return std::unexpected(AnswerError::bad_range);
    const bool there = frame % (kChunk / umem::kUnit) == 0 && frame / (kChunk / umem::kUnit) < chunks_.size();
    if (!there || slab_.owner(frame) != owner) return std::unexpected(AnswerError::bad_frame);
    if (!room(sender(queue), 1)) return std::unexpected(AnswerError::ring_full);
    Packet packet;
    packet.add(frame, 0, length);
    slab_.transfer(frame, owner, owners_.sending());
    push(sender(queue), packet);
    return {};
}

}  // namespace chainio::net
