#include "tools/chainio/run/screen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <vector>

#include "compiler/diag/utf8.h"

namespace chainio::run {
namespace {

// Bytes of the begin that are a character to be seen, or part of one; the others are controls, or no UTF-8.
std::size_t seen_bytes(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (text.size() < length || diag::first_bad_byte(text.substr(0, length)) != std::string_view::npos) return 0;
    // U+0080 to U+009F are controls to terminals of 8 bits.
    return first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0 ? 0 : length;
}

std::string cut(std::string_view line, std::size_t columns) {
    std::string out;
    for (const diag::Cell& cell : diag::cells_of(line)) {
        if (cell.column + cell.width > columns) break;
        out += cell.shown;
    }
    return out;
}

}  // namespace

std::string visible(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = seen_bytes(text);
        if (length == 0)
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
        else
            out += text.substr(0, length);
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out;
}

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
