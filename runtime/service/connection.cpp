#include "runtime/service/connection.h"

#include <algorithm>
#include <cstring>

namespace chainio::service {

void Input::move_to_front() {
    if (begin_ == 0 || pinned_) return;
    std::memmove(memory_, memory_ + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
}

std::size_t Input::add(std::span<const std::uint8_t> bytes) {
    const std::size_t skipped = std::min<std::uint64_t>(bytes.size(), skips_);
    skips_ -= skipped;
    bytes = bytes.subspan(skipped);
    if (bytes.size() > size_ - end_ && pays_to_move()) move_to_front();
    const std::size_t length = std::min(bytes.size(), size_ - end_);
    if (length != 0) std::memcpy(memory_ + end_, bytes.data(), length);
    end_ += length;
    return skipped + length;
}

bool Input::make_room() {
    if (begin_ == 0 || end_ != size_ || pinned_) return false;
    move_to_front();
    return true;
}

std::span<std::uint8_t> Input::lend() {
    if (pays_to_move()) move_to_front();
    lent_ = end_ != size_;
    return {memory_ + end_, size_ - end_};
}

void Input::received(std::size_t length) {
    if (lent_) end_ += length;
    lent_ = false;
    skip(0);
}

Request Input::first(Request fields, const std::string& end, std::size_t most) {
    return first_request(fields, end, bytes(), most, looked_);
}

void Input::take(std::size_t length) {
    begin_ += std::min(length, end_ - begin_);
    looked_ = 0;
    if (begin_ == end_ && !lent_) begin_ = end_ = 0;
}

void Input::skip(std::uint64_t length) {
    skips_ += length;
    const std::size_t here = std::min<std::uint64_t>(skips_, held());
    if (here == 0) return;
    skips_ -= here;
    take(here);
}

bool Connection::time_begins() {
    const std::uint64_t left = input.skips(), before = skips_before;
    if (left == before || (left != 0 && before != 0 && before - left < kInput)) return false;
    skips_before = left;
    return true;
}

void Connection::reset(int descriptor) {
    Input kept_input = input;
    Output kept_output = output;
    kept_input.clear();
    kept_output.clear();
    const bool listed = gathering, marked = dirty;
    *this = Connection(kept_input, kept_output);
    fd = descriptor;
    // The lists have its place once, whoever has that.
    gathering = listed;
    dirty = marked;
}

}  // namespace chainio::service
