// The bytes of a text.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace chainio::service {

inline std::span<const std::uint8_t> bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace chainio::service
