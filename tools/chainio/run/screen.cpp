#include "tools/chainio/run/screen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <vector>

#include "compiler/diag/utf8.h"

namespace chainio::run {
namespace {

std::string cut(std::string_view line, std::size_t columns) {
    std::string out;
    for (const diag::Cell& cell : diag::cells_of(line)) {
        if (cell.column + cell.width > columns) break;
        out += cell.shown;
    }
    return out;
}

}  // namespace

Size size_of_terminal(int fd) {
    winsize found{};
    if (::ioctl(fd, TIOCGWINSZ, &found) != 0) return {};
    return {found.ws_col, found.ws_row};
}

std::string fitted(std::string_view text, Size size) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        lines.push_back(size.columns == 0 ? std::string(line) : cut(line, size.columns));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (size.rows != 0 && lines.size() > size.rows) {
        const std::string left = fmt::format("({} lines more)", lines.size() - size.rows + 1);
        lines.resize(size.rows);
        if (size.rows > 1) lines.back() = size.columns == 0 ? left : cut(left, size.columns);
    }
    return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace chainio::run
