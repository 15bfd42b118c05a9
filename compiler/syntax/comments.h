// The comments of a text, each given once to the part of the tree that it belongs to.
#pragma once
#include <algorithm>

#include "compiler/ast/ast.h"
#include "compiler/syntax/scanner.h"

namespace chainio::syntax {

class CommentList {
  public:
    CommentList() = default;
    explicit CommentList(std::vector<Comment> comments) : comments_(std::move(comments)) {}

    // Comments before `token` that nobody has taken yet become leading ones; sets blank_before.
    void take_leading(const SyntaxToken& token, ast::Comments& to) {
        take_leading(token.offset, token.blank_before, to);
    }
    void take_leading(std::size_t offset, bool blank_before, ast::Comments& to) {
        to.blank_before = blank_before;
        const std::size_t before = to.leading.size();
        each(0, offset, [&](Comment& comment) {
            const bool first = to.leading.size() == before;
            if (first) to.blank_before = comment.blank_before;
            add(comment, !first, to.leading);
        });
        if (blank_before && to.leading.size() != before) to.leading.emplace_back(ast::empty_line);
    }
    // The comment at the end of `line`, behind `offset`.
    void take_line_end(std::size_t offset, std::uint32_t line, ast::Comments& to) {
        auto found = from(offset);
        if (found == comments_.end() || found->taken || found->own_line || found->line != line) return;
        to.trailing = found->text;
        found->taken = true;
    }
    // The comment that stands behind `token` on the same line, with nothing but it on the rest of the line.
    void take_trailing(const SyntaxToken& token, ast::Comments& to) {
        auto found = from(token.offset + token.text.size());
        if (found == comments_.end() || found->taken || found->own_line || found->line != token.span.end_line) return;
        if (next_offset(token) < found->offset) return;
        if (to.trailing.empty()) {
            to.trailing = found->text;
        } else {
            to.leading.push_back(found->text);
        }
        found->taken = true;
    }
    // What is left between two offsets; `apart`: an empty line in front of it all stays, too.
    void take_rest(std::size_t begin, std::size_t end, std::vector<std::string>& to, bool apart = false) {
        const std::size_t before = to.size();
        each(begin, end, [&](Comment& comment) { add(comment, apart || to.size() != before, to); });
    }
    void set_tokens(const std::vector<SyntaxToken>* tokens) { tokens_ = tokens; }

  private:
    std::vector<Comment>::iterator from(std::size_t offset) {
        return std::lower_bound(comments_.begin(), comments_.end(), offset,
                                [](const Comment& c, std::size_t at) { return c.offset < at; });
    }
    std::size_t next_offset(const SyntaxToken& token) const {
        for (std::size_t i = token.index + 1; tokens_ != nullptr && i < tokens_->size(); ++i) {
            if (!(*tokens_)[i].text.empty()) return (*tokens_)[i].offset;
        }
        return std::string_view::npos;
    }
    static void add(const Comment& comment, bool apart, std::vector<std::string>& to) {
        if (apart && comment.blank_before) to.emplace_back(ast::empty_line);
        to.push_back(comment.text);
    }
    template <typename Use>
    void each(std::size_t begin, std::size_t end, Use use) {
        // Everything before first_free_ is taken, so that repeated calls from the start of the text stay cheap.
        while (first_free_ < comments_.size() && comments_[first_free_].taken) ++first_free_;
        auto at = std::max(from(begin), comments_.begin() + static_cast<std::ptrdiff_t>(first_free_));
        for (; at != comments_.end() && at->offset < end; ++at) {
            if (at->taken) continue;
            at->taken = true;
            use(*at);
        }
    }

    std::vector<Comment> comments_;
    std::size_t first_free_ = 0;
    const std::vector<SyntaxToken>* tokens_ = nullptr;
};

}  // namespace chainio::syntax
