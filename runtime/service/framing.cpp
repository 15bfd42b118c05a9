#include "runtime/service/framing.h"

#include <algorithm>
#include <cstring>

namespace chainio::service {

Request first_request(const ir::Framing& framing, std::span<const std::uint8_t> bytes, std::size_t most,
                      std::size_t& looked) {
    const std::size_t fixed = framing.bytes, end = framing.end.size();
    if (fixed + end > most) return {Cut::long_, 0};
    const std::size_t there = std::min(bytes.size(), most);
    if (there < fixed + end) return {Cut::more, 0};
    if (end == 0) return {Cut::whole, fixed};
    const std::size_t from = std::max(fixed, looked < end ? 0 : looked - end + 1);
    const void* found = memmem(bytes.data() + from, there - from, framing.end.data(), end);
    if (found != nullptr) {
        looked = 0;
        return {Cut::whole, static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - bytes.data()) + end};
    }
    looked = there;
    return {there == most ? Cut::long_ : Cut::more, 0};
}

}  // namespace chainio::service
