// Pages that fit on a terminal.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace chainio::run {

struct Size {
    std::size_t columns = 0, rows = 0;  // 0: any
};
Size size_of_terminal(int fd);
// No line is longer than the terminal is wide, and no line more than it is high; without an end of line at the end.
// What is left out below is told.
std::string fitted(std::string_view text, Size size);

}  // namespace chainio::run
