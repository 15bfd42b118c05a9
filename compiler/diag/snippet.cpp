#include "compiler/diag/snippet.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/diag/utf8.h"

namespace chainio::diag {
namespace {

constexpr std::size_t widest = 100;  // columns of a source line that are shown
constexpr std::size_t before_caret = 40;
constexpr std::size_t longest_line = 4096;  // bytes looked at around the caret; a line may be megabytes
constexpr std::string_view cut = "...";

struct Marked {  // one source line and the bytes [from, to) of it that are underlined, from 0
    std::string_view text;
    std::size_t from = 0;
    std::size_t to = 0;
};

// A window of a very long line, so that the work is bounded. It may begin inside a character, which then shows as
// U+FFFD.
Marked window(Marked m, bool& cut_left, bool& cut_right) {
    if (m.text.size() <= longest_line) return m;
    const std::size_t begin = m.from > longest_line / 2 ? m.from - longest_line / 2 : 0;
    const std::size_t length = std::min(longest_line, m.text.size() - begin);
    cut_left = begin > 0;
    cut_right = begin + length < m.text.size();
    return {m.text.substr(begin, length), m.from - begin, std::min(m.to - begin, length)};
}

struct Lines {
    std::string source, carets;
};

std::size_t column_of(const std::vector<Cell>& cells, std::size_t byte) {
    for (const Cell& cell : cells) {
        if (byte < cell.end) return cell.column;
    }
    return cells.empty() ? 0 : cells.back().column + cells.back().width;
}

Lines draw(Marked marked) {
    bool cut_left = false, cut_right = false;
    marked = window(marked, cut_left, cut_right);
    const std::vector<Cell> cells = cells_of(marked.text);
    const std::size_t width = cells.empty() ? 0 : cells.back().column + cells.back().width;
    const std::size_t caret = column_of(cells, marked.from);
    const std::size_t caret_end = std::max(caret + 1, column_of(cells, marked.to));

    std::size_t left = 0;
    if (width > widest && caret > widest - before_caret / 2) left = caret - before_caret;
    const std::size_t right = left + widest;
    cut_left |= left > 0;
    cut_right |= width > right;

    Lines lines;
    if (cut_left) lines.source = cut;
    std::size_t first_column = left;
    bool started = false;
    for (const Cell& cell : cells) {
        if (cell.column < left || cell.column + cell.width > right) continue;
        if (!started) first_column = cell.column;
        started = true;
        lines.source += cell.shown;
    }
    if (cut_right) lines.source += cut;
    while (!lines.source.empty() && lines.source.back() == ' ') lines.source.pop_back();

    const std::size_t indent = (cut_left ? cut.size() : 0) + (caret - std::min(caret, first_column));
    const std::size_t length = std::min(caret_end, std::max(right, caret + 1)) - caret;
    lines.carets = std::string(indent, ' ') + std::string(length, '^');
    return lines;
}

std::size_t first_non_blank(std::string_view line) {
    const std::size_t found = line.find_first_not_of(" \t");
    return found == std::string_view::npos ? 0 : found;
}

void append(std::string& out, std::uint32_t line, std::size_t digits, const Marked& marked, const Paint& p) {
    Lines lines = draw(marked);
    const std::string_view space = lines.source.empty() ? "" : " ";
    out += fmt::format("  {}{:>{}} |{}{}{}\n", p.gutter, line, digits, p.off, space, lines.source);
    // The colour of the carets begins at the first one, so that the uncoloured and the coloured form differ by escapes
    // only.
    const std::size_t indent = lines.carets.find('^');
    out += fmt::format("  {}{:>{}} |{} {}{}{}{}\n", p.gutter, "", digits, p.off, std::string(indent, ' '), p.caret,
                       lines.carets.substr(indent), p.off);
}

}  // namespace

const Paint& paint(bool colour) {
    static constexpr Paint plain{};
    static constexpr Paint coloured{"\x1b[1m",    "\x1b[1;31m", "\x1b[1;35m", "\x1b[1;36m",
                                    "\x1b[1;32m", "\x1b[34m",   "\x1b[0m"};
    return colour ? coloured : plain;
}

std::string snippet(const Span& span, const Sources& sources, const Paint& p) {
    if (span.file == 0 || span.line == 0) return {};
    const std::string_view first = sources.line(span.file, span.line);
    if (first.data() == nullptr) return {};
    const std::size_t from = std::min<std::size_t>(span.col == 0 ? 0 : span.col - 1, first.size());
    const bool several = span.end_line > span.line;
    const std::size_t digits = std::to_string(several ? span.end_line : span.line).size();
    std::string out;
    if (!several) {
        const std::size_t to = std::clamp<std::size_t>(span.end_col == 0 ? 0 : span.end_col - 1, from, first.size());
        append(out, span.line, digits, {first, from, to}, p);
        return out;
    }
    append(out, span.line, digits, {first, from, first.size()}, p);
    const std::string_view last = sources.line(span.file, span.end_line);
    const std::size_t last_to = std::min<std::size_t>(span.end_col == 0 ? 0 : span.end_col - 1, last.size());
    if (last.data() == nullptr || last_to == 0) return out;
    if (span.end_line > span.line + 1) out += fmt::format("  {}{:>{}} |{} ...\n", p.gutter, "", digits, p.off);
    append(out, span.end_line, digits, {last, std::min(first_non_blank(last), last_to - 1), last_to}, p);
    return out;
}

}  // namespace chainio::diag
