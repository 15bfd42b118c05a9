// A place in a source text. Lines and columns count from 1; columns are bytes; `end` is one past the last byte.
#pragma once
#include <cstdint>

namespace chainio {

using FileId = std::uint32_t;  // index into diag::Sources; 0 is "no file" (a value from the command line, say)

struct Span {
    FileId file = 0;
    std::uint32_t line = 0;
    std::uint32_t col = 0;
    std::uint32_t end_line = 0;
    std::uint32_t end_col = 0;
};

}  // namespace chainio
