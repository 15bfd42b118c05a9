// What a person who writes the lookup by hand needs to know of SQLite's table pages.
#pragma once
#include <cstdint>
#include <span>

#include "tests/bench/lookup/contender.h"

namespace chainio::bench {

// `page` holds page number `number` of the file; the value is the row's last column.
Descent descend(std::span<const std::uint8_t> page, std::uint32_t number, std::uint64_t rowid);

// The last column of a record; empty when the record is malformed.
std::span<const std::uint8_t> last_column(std::span<const std::uint8_t> record);

}  // namespace chainio::bench
