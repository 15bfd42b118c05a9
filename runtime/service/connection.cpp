#include "runtime/service/connection.h"

#include <algorithm>
#include <cstring>

namespace chainio::service {

std::size_t Input::add(std::span<const std::uint8_t> bytes) {
    if (begin_ != 0 && !pinned_ && bytes.size() > size_ - end_) {
        std::memmove(memory_, memory_ + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    const std::size_t length = std::min(bytes.size(), size_ - end_);
    if (length != 0) std::memcpy(memory_ + end_, bytes.data(), length);
    end_ += length;
    return length;
}

Request Input::first(const ir::Framing& framing, std::size_t most) {
    return first_request(framing, bytes(), most, looked_);
}

void Input::take(std::size_t length) {
    begin_ += std::min(length, end_ - begin_);
    looked_ = 0;
    if (begin_ == end_) begin_ = end_ = 0;
}

void Connection::reset(int descriptor) {
    Input kept_input = input;
    Output kept_output = output;
    kept_input.clear();
    kept_output.clear();
    *this = Connection(kept_input, kept_output);
    fd = descriptor;
}

}  // namespace chainio::service
