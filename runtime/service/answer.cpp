#include "runtime/service/answer.h"

#include <algorithm>
#include <cstring>

#include "runtime/engine/owners.h"

namespace chainio::service {
namespace {

// A result is referred to while the reply has no more than that; behind it, text is one stretch a frame.
constexpr std::size_t kFramesBefore = 24, kStretchesBefore = 40;
constexpr std::uint32_t kMoved = 512;  // bytes of text, at most, that are worth a piece of a packet less

}  // namespace

// What is longer than `longest` is so by less than a frame. The first frame of text has its begin for something else,
// and what follows a result begins amid one.
Answer::Answer(std::size_t longest) {
    static_assert(kStretchesBefore + 2 + kLongestDatagram / kFrame + 2 <= kMostStretches);
    const std::size_t text = longest / kFrame + 2;
    frames_.reserve(kFramesBefore + 1 + text + heads_.size());
    of_text_.reserve(frames_.capacity());
    stretches_.reserve(kStretchesBefore + 2 + text);
}

umem::Frame Answer::new_frame() {
    if (frames_.size() == frames_.capacity()) return umem::kNoFrame;
    const umem::Frame frame = engine_->take_frame(kFrame);
    wants_memory_ = wants_memory_ || frame == umem::kNoFrame;
    if (frame == umem::kNoFrame) return frame;
    of_text_.push_back(true);
    frames_.push_back(frame);
    return frame;
}

bool Answer::is_text(umem::Frame frame) const {
    return of_text_[static_cast<std::size_t>(std::ranges::find(frames(), frame) - frames().begin())];
}

// Whether one stretch of a chain's result is all that is sent of the frame.
bool Answer::takes_text(umem::Frame frame) const {
    return !is_text(frame) && std::ranges::count(stretches_, frame, &engine::Stretch::frame) == 1;
}

// The first frame begins with room for the first datagram's begin, so that a short reply is one stretch.
bool Answer::text_room() {
    if (text_ != umem::kNoFrame && text_end_ < kFrame) return true;
    const bool first = frames_.empty();
    const umem::Frame frame = new_frame();
    if (frame == umem::kNoFrame) return false;
    text_ = frame;
    text_end_ = first ? kHeads : 0;
    return true;
}

// The stretch that what is written next belongs to, where there is room for it; null: there are too many.
engine::Stretch* Answer::last_text() {
    engine::Stretch* last = stretches_.empty() ? nullptr : &stretches_.back();
    if (last != nullptr && last->frame == text_ && last->offset + last->length == text_end_) return last;
    if (stretches_.size() == stretches_.capacity()) return nullptr;
    return &stretches_.emplace_back(text_, text_end_, 0);
}

std::size_t Answer::add(std::span<const std::uint8_t> bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        if (length_ > most_ || !text_room()) return done;
        engine::Stretch* last = last_text();
        if (last == nullptr) return done;
        const auto here = static_cast<std::uint32_t>(std::min<std::size_t>(bytes.size() - done, kFrame - text_end_));
        std::memcpy(engine_->memory().data(text_) + text_end_, bytes.data() + done, here);
        last->length += here;
        text_end_ += here;
        length_ += here;
        done += here;
    }
    return done;
}

std::span<std::uint8_t> Answer::space() {
    if (length_ > most_ || !text_room() || stretches_.size() == stretches_.capacity()) return {};
    return {engine_->memory().data(text_) + text_end_, kFrame - text_end_};
}

void Answer::took(std::size_t length) {
    if (length == 0) return;
    last_text()->length += static_cast<std::uint32_t>(length);
    text_end_ += static_cast<std::uint32_t>(length);
    length_ += length;
}

bool Answer::refer(const engine::Stretch& bytes) {
    if (length_ > most_) return false;
    const bool known = std::ranges::find(frames(), bytes.frame) != frames().end();
    // The first frame is one of text.
    if (!text_room() || stretches_.size() > kStretchesBefore || (!known && frames_.size() > kFramesBefore))
        return false;
    if (!known) {
        of_text_.push_back(false);
        frames_.push_back(bytes.frame);
    }
    stretches_.push_back(bytes);
    length_ += bytes.length;
    return true;
}

bool Answer::make_heads(std::size_t count) {
    while (count > 1 + heads_count_ * kHeadsInFrame) {
        if (heads_count_ == heads_.size()) return false;
        const umem::Frame frame = new_frame();
        if (frame == umem::kNoFrame) return false;
        heads_[heads_count_++] = frame;
    }
    return true;
}

engine::Stretch Answer::head(std::size_t number) const {
    if (number == 0) return {frames_[0], kHeadroom, kDatagramHead};
    const auto at = static_cast<std::uint32_t>((number - 1) % kHeadsInFrame) * kHeads;
    return {heads_[(number - 1) / kHeadsInFrame], at + kHeadroom, kDatagramHead};
}

std::size_t Answer::cut(const engine::Stretch& head, std::size_t from, std::size_t length,
                        std::span<engine::Stretch> out) const {
    out[0] = head;
    std::size_t made = 1;
    for (engine::Stretch piece : stretches_) {
        if (length == 0) break;
        if (from >= piece.length) {
            from -= piece.length;
            continue;
        }
        piece.offset += static_cast<std::uint32_t>(from);
        piece.length = static_cast<std::uint32_t>(std::min<std::size_t>(piece.length - from, length));
        from = 0;
        length -= piece.length;
        engine::Stretch& last = out[made - 1];
        if (last.frame == piece.frame && last.offset + last.length == piece.offset)
            last.length += piece.length;
        else
            out[made++] = piece;
    }
    return made;
}

void Answer::copy_to(std::uint8_t* to) const {
    for (const engine::Stretch& piece : stretches_) to = std::copy_n(data(piece), piece.length, to);
}

std::size_t Answer::join(std::span<engine::Stretch> stretches) const {
    std::size_t made = 0;
    for (const engine::Stretch& next : stretches) {
        engine::Stretch& last = stretches[made == 0 ? 0 : made - 1];
        const std::uint32_t end = last.offset + last.length;
        // Neither goes over the end of a piece of a packet, or of the frame: those of services without packets may be
        // smaller. In front of the first there are the packet's headers.
        if (made != 0 && next.length <= kMoved && is_text(next.frame) && takes_text(last.frame) && end % kFrame != 0 &&
            end % kFrame + next.length <= kFrame && end + next.length <= engine_->memory().frame_bytes(last.frame)) {
            std::memcpy(data(last) + last.length, data(next), next.length);
            last.length += next.length;
            continue;
        }
        const std::uint32_t front = last.length + (made == 1 ? kHeadroom : 0);
        if (made != 0 && last.length <= kMoved && is_text(last.frame) && takes_text(next.frame) &&
            next.offset % kFrame >= front) {
            engine::Stretch joined = next;
            joined.offset -= last.length;
            joined.length += last.length;
            std::memcpy(data(joined), data(last), last.length);
            last = joined;
            continue;
        }
        stretches[made++] = next;
    }
    return made;
}

void Answer::clear() {
    for (const umem::Frame frame : frames()) engine_->memory().release(frame, engine::kHandedOut);
    forget();
}

void Answer::forget() {
    frames_.clear();
    of_text_.clear();
    stretches_.clear();
    length_ = heads_count_ = 0;
    wants_memory_ = false;
    text_ = umem::kNoFrame;
}

}  // namespace chainio::service
