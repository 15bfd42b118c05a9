// Where the next field of a record stands, while its fields are being placed.
#pragma once
#include <cstdint>

#include "compiler/sema/checker.h"

namespace chainio::sema {

struct Checker::Layout {
    std::uint32_t record = 0;
    std::int64_t offset = 0;    // of the next field; -1: known at run time only
    std::uint64_t most = 0;     // what `offset` may be at most, whatever the record's bytes
    std::int64_t furthest = 0;  // the largest known end of a field
    Span furthest_span;
};

}  // namespace chainio::sema
