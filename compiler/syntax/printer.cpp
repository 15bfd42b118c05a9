#include <algorithm>

#include "compiler/syntax/printer.h"

#include "compiler/syntax/parse.h"
#include "compiler/syntax/text.h"

namespace chainio::syntax {
namespace {

constexpr std::size_t widest = 120;
constexpr std::size_t continuation = 4;  // further to the right than the line that goes on

// Columns; a character of UTF-8 counts one.
std::size_t width(std::string_view text) {
    std::size_t columns = 0;
    for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    return columns;
}

}  // namespace

bool Printer::fits(const std::string& text) const { return std::size_t{2} * level_ + width(text) <= widest; }

// One line, broken at soft breaks where it would be too long.
void Printer::line(const std::string& text, const std::string& trailing) {
    std::size_t column = std::size_t{2} * level_;
    const std::size_t margin = column + continuation;
    out_.append(column, ' ');
    const bool whole = fits(text);
    std::size_t begin = 0;
    while (true) {
        const std::size_t end = std::min(text.find(soft_break, begin), text.size());
        const std::string_view piece = std::string_view(text).substr(begin, end - begin);
        // A line that would hold less than the margin is not worth a break.
        if (!whole && begin > 0 && column + 1 + width(piece) > widest && column > margin) {
            while (out_.back() == ' ') out_.pop_back();
            out_ += '\n';
            ++line_;
            out_.append(margin, ' ');
            column = margin;
        } else if (begin > 0) {
            out_ += ' ';
            ++column;
        }
        out_ += piece;
        column += width(piece);
        if (end == text.size()) break;
        begin = end + 1;
    }
    if (keep_ && !trailing.empty()) out_ += "  # " + trailing;
    out_ += '\n';
    ++line_;
}

// As they are: a comment may hold any character, soft breaks as well.
void Printer::comment_lines(const Strings& comments) {
    if (!keep_) return;
    for (const std::string& each : comments) {
        out_ += comment_line(each, level_);
        ++line_;
    }
}

void Printer::leading(const ast::Comments& comments, bool first) {
    if (keep_ && comments.blank_before && !first) {
        out_ += '\n';
        ++line_;
    }
    comment_lines(comments.leading);
}

// Whether an empty line stands between two declarations in the canonical form.
static bool apart(const ast::Item& one, const ast::Item& other, bool one_line) {
    return !one_line || one.node.index() != other.node.index();
}

std::string Printer::file(const ast::File& file) {
    bool before_short = true;
    for (std::size_t i = 0; i < file.items.size(); ++i) {
        const std::size_t start = out_.size(), first_place = places_.size();
        const std::uint32_t first_line = line_;
        item(file.items[i]);
        const bool is_short = line_ == first_line + 1;
        const bool blank = i > 0 && (keep_ ? file.items[i].blank_before
                                           : apart(file.items[i - 1], file.items[i], before_short && is_short));
        if (blank) {
            out_.insert(start, "\n");
            ++line_;
            for (std::size_t p = first_place; p < places_.size(); ++p) ++places_[p].second;
        }
        before_short = is_short;
    }
    // Those of a YAML text may bring the empty line along.
    const Strings& closing = file.closing_comments;
    if (keep_ && !closing.empty() && closing.front() != ast::empty_line && !file.items.empty()) {
        out_ += '\n';
        ++line_;
    }
    comment_lines(closing);
    return std::move(out_);
}

std::string print_chain(ast::File& file) {
    Printer printer(false);
    std::string text = printer.file(file);
    // The places point into `file`, which is ours to change.
    for (const auto& [place, line] : printer.places()) *const_cast<std::uint32_t*>(place) = line;
    return text;
}

std::string format_chain(const ast::File& file) { return Printer(true).file(file); }

}  // namespace chainio::syntax
