// UTF-8 for people: what bytes of a source line, or of a name that somebody else chose, look like on a terminal.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace chainio::diag {

struct Cell {
    std::size_t begin = 0;  // bytes [begin, end) of the line
    std::size_t end = 0;
    std::size_t column = 0;  // on the screen, from 0
    std::size_t width = 1;   // 0 for combining marks, 2 for wide characters, more for a tab
    std::string shown;       // a tab as spaces, what cannot be printed as a replacement
};

// The characters of a line as they are shown, tabs expanded to every fourth column.
std::vector<Cell> cells_of(std::string_view line);

// What anybody has named, which may hold any byte: those that control or rearrange a terminal, or are no UTF-8, as
// `\x1b`.
std::string escaped(std::string_view text);

// The same of several lines, such as what a program has said: they stay lines.
std::string escaped_lines(std::string_view text);

// The offset of the first byte that is not part of well-formed UTF-8, or npos.
std::size_t first_bad_byte(std::string_view text);

// How many code points the first `bytes` bytes hold; a malformed byte counts as one.
std::size_t code_points(std::string_view text, std::size_t bytes);

}  // namespace chainio::diag
