#include "runtime/service/framing.h"

#include <algorithm>
#include <cstring>

namespace chainio::service {

Request first_request(Request fields, const std::string& end, std::span<const std::uint8_t> bytes, std::size_t most,
                      std::size_t& looked) {
    if (bytes.empty()) return {Cut::more, 0};  // who has sent nothing has done nothing wrong
    const std::size_t there = std::min(bytes.size(), most);
    if (fields.cut == Cut::more && there == most) return {Cut::long_, 0};
    if (fields.cut != Cut::whole) return fields;
    if (fields.length > most || end.size() > most - fields.length) return {Cut::long_, 0};
    if (there < fields.length + end.size()) return {Cut::more, 0};
    if (end.empty()) return fields;
    const std::size_t from = std::max(fields.length, looked < end.size() ? 0 : looked - end.size() + 1);
    const void* found = memmem(bytes.data() + from, there - from, end.data(), end.size());
    if (found != nullptr) {
        looked = 0;
        const auto at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - bytes.data());
        return {Cut::whole, at + end.size()};
    }
    looked = there;
    return {there == most ? Cut::long_ : Cut::more, 0};
}

}  // namespace chainio::service
