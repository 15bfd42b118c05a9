#include "runtime/service/output.h"

#include <algorithm>
#include <cstring>

#include "runtime/engine/owners.h"

namespace chainio::service {

// Whether text that is written next belongs to the last piece.
bool Output::extends() const {
    if (count_ == 0) return false;
    const Piece& last = piece(count_ - 1);
    return last.lent == kText && last.data + last.length == memory_ + end_;
}

std::size_t Output::add(std::span<const std::uint8_t> bytes) {
    const std::size_t length = std::min(bytes.size(), room());
    if (length != 0) std::memcpy(memory_ + end_, bytes.data(), length);
    took(length);
    return length;
}

void Output::took(std::size_t length) {
    if (length == 0) return;
    if (!extends()) piece(count_++) = {memory_ + end_, 0, kText};
    piece(count_ - 1).length += static_cast<std::uint32_t>(length);
    end_ += length;
}

Output::Lent* Output::lend(const engine::Stretch& bytes) {
    const auto known = std::ranges::find_if(
        lents_, [&](const Lent& each) { return each.frame == bytes.frame && each.wanted && each.lender == lender_; });
    if (known != lents_.end()) return &*known;
    const auto free = std::ranges::find(lents_, umem::kNoFrame, &Lent::frame);
    const std::size_t size = lender_->engine.memory().frame_bytes(bytes.frame);
    if (free == lents_.end() || lender_->bytes + size > lender_->most) return nullptr;
    lender_->bytes += size;
    lender_->frames++;
    *free = {lender_, bytes.frame, 0, 0, 0, true};
    return &*free;
}

bool Output::refer(const engine::Stretch& bytes) {
    // The text behind it wants a piece, too.
    if (lender_ == nullptr || bytes.length < shortest_ || count_ + 1 >= kMostPieces) return false;
    Lent* lent = lend(bytes);
    if (lent == nullptr) return false;
    lent->pieces++;
    piece(count_++) = {lender_->engine.memory().data(bytes.frame) + bytes.offset, bytes.length,
                       static_cast<std::uint32_t>(lent - lents_.data())};
    return true;
}

void Output::let_go(umem::Frame frame) {
    for (Lent& lent : lents_) {
        if (lent.frame != frame || !lent.wanted) continue;
        lent.wanted = false;
        give_back(lent);
    }
}

void Output::give_back(Lent& lent) {
    if (lent.frame == umem::kNoFrame || lent.pieces != 0 || lent.kept != 0 || lent.wanted) return;
    umem::Slab& memory = lent.lender->engine.memory();
    lent.lender->bytes -= memory.frame_bytes(lent.frame);
    lent.lender->frames--;
    memory.release(lent.frame, engine::kHandedOut);
    lent = {};
}

void Output::end_reply() {
    of_whole_ = 0;
    for (std::size_t i = 0; i < count_; i++) of_whole_ += piece(i).length;
}

std::span<const Output::Piece> Output::unsent(std::span<Piece> out, std::size_t most, std::size_t limit) const {
    std::size_t made = 0;
    for (std::size_t length = 0; made < std::min(count_, out.size()) && length < std::min(most, limit); made++) {
        out[made] = piece(made);
        out[made].length = static_cast<std::uint32_t>(std::min<std::size_t>(out[made].length, limit - length));
        length += out[made].length;
    }
    return out.first(made);
}

void Output::sent(std::size_t length) {
    of_whole_ -= std::min(of_whole_, length);
    while (length != 0 && count_ != 0) {
        Piece& front = piece(0);
        const auto here = static_cast<std::uint32_t>(std::min<std::size_t>(length, front.length));
        front.data += here;
        front.length -= here;
        length -= here;
        if (front.lent == kText) begin_ += here;
        if (front.length != 0) continue;
        const std::uint32_t lent = front.lent;
        first_ = (first_ + 1) % kMostPieces;
        count_--;
        if (lent == kText) continue;
        lents_[lent].pieces--;
        give_back(lents_[lent]);
    }
    if (begin_ == end_) begin_ = end_ = 0;
}

void Output::keeps(std::uint32_t lent, bool any) {
    lents_[lent].kept++;
    if (!any) lents_[lent].kept_nothing++;
    kept_++;
}

bool Output::let_go_of(std::uint32_t lent, bool copied) {
    const bool of_nothing = copied && lents_[lent].kept_nothing != 0;
    if (of_nothing) lents_[lent].kept_nothing--;
    lents_[lent].kept--;
    kept_--;
    give_back(lents_[lent]);
    return !of_nothing;
}

bool Output::has_of(const Lender& lender) const {
    return std::ranges::any_of(lents_, [&](const Lent& each) { return each.lender == &lender; });
}

bool Output::lends(umem::Frame frame, const Lender& of) const {
    return std::ranges::any_of(lents_, [&](const Lent& each) { return each.frame == frame && each.lender == &of; });
}

bool Output::lends_any() const {
    return std::ranges::any_of(lents_, [](const Lent& each) { return each.frame != umem::kNoFrame; });
}

void Output::abandon() {
    begin_ = end_ = count_ = of_whole_ = 0;
    for (Lent& lent : lents_) {
        lent.pieces = 0;
        lent.wanted = false;
        give_back(lent);
    }
}

void Output::clear() {
    abandon();
    lender_ = nullptr;
}

}  // namespace chainio::service
