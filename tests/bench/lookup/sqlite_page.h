// What a person who writes the lookup by hand needs to know of SQLite's table pages.
#pragma once
#include <cstdint>
#include <span>

namespace chainio::bench {

struct Descent {
    enum class Kind { child, found, missing, malformed } kind;
    std::uint32_t page = 0;                 // child: the next page to read
    std::span<const std::uint8_t> value{};  // found: the bytes of the row's last column
};

// `page` holds page number `number` of the file.
Descent descend(std::span<const std::uint8_t> page, std::uint32_t number, std::uint64_t rowid);

// The last column of a record; empty when the record is malformed.
std::span<const std::uint8_t> last_column(std::span<const std::uint8_t> record);

}  // namespace chainio::bench
