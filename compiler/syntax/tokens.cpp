#include <algorithm>

#include "compiler/syntax/tokens.h"

#include "compiler/syntax/codes.h"
#include "compiler/syntax/grammar.h"

namespace chainio::syntax {
namespace {

using Tokens = std::vector<SyntaxToken>;

bool is_word_type(std::size_t type) { return type == P::IDENT || (type >= P::IMPORT && type <= P::FALSE); }

// Whether a value may end with this token; a word may, unless it is an operator or begins something.
bool ends_value(const SyntaxToken& token) {
    switch (token.type) {
        case P::INT:
        case P::STRING:
        case P::RPAREN:
        case P::RBRACK:
        case P::TRUE:
        case P::FALSE:
        case P::BLOCK: return true;
        case P::IMPORT:
        case P::CONST:
        case P::LET:
        case P::VAR:
        case P::WHEN:
        case P::FN:
        case P::CHAIN:
        case P::FOR:
        case P::IN:
        case P::IF:
        case P::ELSE:
        case P::GOTO:
        case P::RETURN:
        case P::FAIL:
        case P::BREAK:
        case P::CONTINUE:
        case P::AS:
        case P::AT:
        case P::VIA:
        case P::FILES: return false;
        default: return is_word_type(token.type);
    }
}

bool begins_value(const SyntaxToken& token) {
    switch (token.type) {
        case P::INT:
        case P::STRING:
        case P::TRUE:
        case P::FALSE:
        case P::BLOCK:
        case P::LPAREN:
        case P::MINUS:
        case P::NOT:
        case P::TILDE: return true;
        default: return is_word_type(token.type) && ends_value(token);
    }
}

// Signs behind which a value, a format or a type follows.
bool is_operator(std::size_t type) { return type >= P::COMMA && type <= P::OROR; }

// A word that begins a statement wherever one may stand.
bool begins_soft_stmt(std::size_t type) {
    return type == P::MATCH || type == P::EMIT || type == P::REPLY || type == P::PREFETCH || type == P::MARK ||
           type == P::NEXT || type == P::STATE || type == P::STEP || type == P::DONE || type == P::SKIPS;
}

SyntaxToken made(std::size_t type, const SyntaxToken& after) {
    SyntaxToken token;
    token.type = type;
    token.offset = after.offset + after.text.size();
    token.span = {after.span.file, after.span.end_line, after.span.end_col, after.span.end_line, after.span.end_col};
    return token;
}

// Balances braces. Brackets of the other kinds are only counted: the parser finds what is wrong with them.
class Balancer {
  public:
    Balancer(Tokens& tokens, diag::Diagnostics& diags, std::size_t nested)
        : tokens_(tokens), diags_(diags), nested_(nested) {}

    bool run() {
        const bool even = braces_are_even();
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            const SyntaxToken& token = tokens_[i];
            const bool fresh = token.span.col == 1 && token.first_on_line && begins_item(tokens_, i);
            const bool item = fresh && !open_.empty() && !(even && begins_member(token.type));
            if (token.type == P::EOF || item) close_all(i);
            if (fresh) swallowed_ = false;
            swallowed_ |= token.broken;
            if (opens(token.type)) {
                open_.push_back(i);
                if (open_.size() + nested_ > max_nesting) return too_deep(token);
            } else if (closes(token.type) && !close(i)) {
                change(i);
                continue;
            }
            if (changed_) out_.push_back(token);
        }
        if (changed_) tokens_ = std::move(out_);
        return true;
    }

  private:
    static bool opens(std::size_t type) { return type == P::LBRACE || type == P::LPAREN || type == P::LBRACK; }
    static bool closes(std::size_t type) { return type == P::RBRACE || type == P::RPAREN || type == P::RBRACK; }
    // What may stand in an `app` or a `service` as well as outside: in a text without indentation it shows no missing
    // `}`.
    static bool begins_member(std::size_t type) {
        return type == P::FILES || type == P::SOCKET || type == P::CLASS || type == P::MATCH || type == P::BATCH ||
               type == P::TEXT;
    }

    bool braces_are_even() const {
        std::size_t depth = 0;
        for (const SyntaxToken& token : tokens_) {
            if (token.type == P::RBRACE && depth-- == 0) return false;
            if (token.type == P::LBRACE) depth++;
        }
        return depth == 0;
    }

    std::uint32_t indent_of(std::size_t i) const {
        while (i > 0 && !tokens_[i].first_on_line) --i;
        return tokens_[i].span.col;
    }

    // False when the closer at i is to be left out.
    bool close(std::size_t i) {
        if (tokens_[i].type != P::RBRACE) {
            const std::size_t wanted = tokens_[i].type == P::RPAREN ? P::LPAREN : P::LBRACK;
            if (!open_.empty() && tokens_[open_.back()].type == wanted) open_.pop_back();
            return true;
        }
        drop_inner();
        if (open_.empty()) {
            if (!swallowed_)
                diags_.report(code::stray_close, tokens_[i].span, "this `}` closes nothing",
                              "remove it, or add the `{` that it belongs to");
            return false;
        }
        const std::size_t opener = open_.back();
        if (tokens_[i].first_on_line && tokens_[i].span.col < indent_of(opener) && !suspect_) suspect_ = opener;
        open_.pop_back();
        if (open_.empty()) suspect_.reset();
        return true;
    }

    // Parentheses and square brackets that a `}` shows to be never closed.
    void drop_inner() {
        while (!open_.empty() && tokens_[open_.back()].type != P::LBRACE) open_.pop_back();
    }

    // Most texts are balanced, and are not copied.
    void change(std::size_t i) {
        if (changed_) return;
        changed_ = true;
        out_.reserve(tokens_.size() + open_.size());
        out_.assign(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(i));
    }

    void close_all(std::size_t i) {
        drop_inner();
        if (open_.empty()) return;
        const SyntaxToken& culprit = tokens_[suspect_.value_or(open_.back())];
        if (!swallowed_)
            diags_.report(code::unclosed, culprit.span, "this `{` is never closed", "add the `}` that ends it");
        change(i);
        for (; !open_.empty(); drop_inner()) {
            out_.push_back(made(P::RBRACE, out_.back()));
            open_.pop_back();
        }
        suspect_.reset();
    }

    bool too_deep(const SyntaxToken& token) {
        diags_.report(code::too_deep, token.span,
                      "brackets are nested deeper than " + std::to_string(max_nesting) + " levels",
                      "move the inner part into a function, a `let` or a step of its own");
        tokens_.erase(tokens_.begin(), tokens_.end() - 1);
        return false;
    }

    Tokens& tokens_;
    diag::Diagnostics& diags_;
    std::size_t nested_;
    Tokens out_;  // what the text becomes, once it differs
    bool changed_ = false;
    std::vector<std::size_t> open_;
    bool swallowed_ = false;              // what a string holds that is not closed may have been braces
    std::optional<std::size_t> suspect_;  // a `{` that is closed by a `}` further to the left than its own line
};

class Marker {
  public:
    Marker(Tokens& tokens, TextKind kind) : in_(tokens), kind_(kind) {}

    void run() {
        out_.reserve(in_.size() + in_.size() / 8);
        for (at_ = 0; at_ < in_.size(); ++at_) {
            if (is_made(in_[at_].type)) continue;
            step();
        }
        in_ = std::move(out_);
        for (std::size_t i = 0; i < in_.size(); ++i) in_[i].index = i;
    }

  private:
    static bool is_made(std::size_t type) { return type == P::PART || type == P::END || type == P::RESULT; }

    std::size_t next_of(std::size_t i) const {
        do ++i;
        while (i < in_.size() && is_made(in_[i].type));
        return std::min(i, in_.size() - 1);
    }
    const SyntaxToken& following() const { return in_[next_of(at_)]; }

    void step() {
        SyntaxToken token = in_[at_];
        if (token.type == P::IN_SET) token.type = P::IN;
        if (token.type == P::RETURN_BARE) token.type = P::RETURN;
        if (token.type == P::BOUND) token.type = P::MAX;
        if (token.type == P::LENGTH) token.type = P::FOR;
        const bool member = !out_.empty() && out_.back().type == P::DOT;
        if (member && is_word_type(token.type)) token.type = P::IDENT;
        if (token.type == P::AT && at_is_name()) token.type = P::IDENT;
        if (token.type == P::SKIPS && !begins_skip(member)) token.type = P::IDENT;
        if (cuts_off(token)) out_.push_back(made(P::END, out_.back()));
        if (in_reply_) reply_part(token);
        if (fn_ == Fn::body) fn_part(token);
        nest(token.type);
        if (token.type == P::IN && following().type == P::LPAREN) token.type = P::IN_SET;
        if (token.type == P::RETURN && return_is_bare()) token.type = P::RETURN_BARE;
        if (token.type == P::MAX && max_is_bound()) token.type = P::BOUND;
        if (token.type == P::REPLY && begins_soft(member)) {
            in_reply_ = true;
            reply_at_ = out_.size();
            reply_depth_ = open_.size();
        }
        if (token.type == P::FN) fn_ = Fn::head;
        goto_part(token, member);
        out_.push_back(token);
    }

    // Behind `goto` and `next`, up to where another statement begins, a `for` that begins no loop gives a length.
    void goto_part(SyntaxToken& token, bool member) {
        const bool in_braces = open_.empty() || open_.back() == P::LBRACE;
        const bool names_step = is_word_type(following().type) && begins_value(following());
        if (token.type == P::GOTO || (token.type == P::NEXT && !member && in_braces && names_step)) {
            in_goto_ = true;
            goto_at_ = out_.size();
            goto_depth_ = open_.size();
            return;
        }
        if (!in_goto_ || open_.size() > goto_depth_) return;
        const bool names_nothing = out_.size() == goto_at_ + 1;
        if (token.type == P::FOR && !names_nothing && !begins_loop()) token.type = P::LENGTH;
        if (open_.size() < goto_depth_ || begins_reserved_stmt(token.type)) in_goto_ = false;
    }

    // `for n in rows {`, and not `for n in other` or `for n in (1, 2)` with the next statement behind it.
    bool begins_loop() const {
        std::size_t i = next_of(at_);
        if (!is_word_type(in_[i].type)) return false;
        i = next_of(i);
        if (in_[i].type != P::IN && in_[i].type != P::IN_SET) return false;
        const bool word = is_word_type(in_[next_of(i)].type);
        for (std::size_t depth = 0, before = i; i = next_of(i), true; before = i) {
            const SyntaxToken& token = in_[i];
            if (token.type == P::LBRACE) return depth == 0;
            if (token.type == P::RBRACE || token.type == P::EOF || begins_reserved_stmt(token.type)) return false;
            const bool infix = token.type == P::LPAREN || token.type == P::MINUS;
            if (depth == 0 && ends_value(in_[before]) && begins_value(token) && !infix) return bounds_loop(i);
            if (word && is_word_type(in_[before].type) && !is_word_type(token.type))
                return true;  // a file is a word and no more
            if (token.type == P::LPAREN || token.type == P::LBRACK) ++depth;
            if ((token.type == P::RPAREN || token.type == P::RBRACK) && depth-- == 0) return false;
        }
    }
    // `max 4`, and not a statement about a value of that name.
    bool bounds_loop(std::size_t i) const {
        const std::size_t after = in_[next_of(i)].type;
        if (in_[i].type != P::MAX && in_[i].type != P::BOUND) return false;
        return !could_act(after) || (after == P::LPAREN && !in_[i].first_on_line);
    }

    // An offset is often called `at`. The keyword stands behind a value, a type or a name, and a value follows it.
    bool at_is_name() const {
        if (out_.empty()) return kind_ != TextKind::padding;
        // In these the keyword has no place.
        if (in_reply_ || fn_ == Fn::body || (kind_ == TextKind::file && open_.empty())) return true;
        const std::size_t before = out_.back().type;
        if (before == P::STEP && following().type == P::LPAREN && is_first_word()) return true;  // its name
        const bool takes_value = before == P::EMIT || before == P::MATCH;
        if (before == P::SKIPS || (takes_value && is_first_word())) return true;
        if (before == P::COLON && out_.size() > 1 && out_[out_.size() - 2].type == P::UNDERSCORE) return false;
        if (!ends_value(out_.back()) && before != P::RBRACE) return true;
        const SyntaxToken& next = following();
        if (next.first_on_line && (before == P::EMIT || before == P::TAG)) return true;
        return !begins_value(next) && next.type != P::AT;
    }

    // Whether the last word begins a statement or a part of a declaration.
    bool is_first_word() const {
        if (out_.size() == 1 || out_.back().first_on_line) return true;
        const std::size_t outside = out_[out_.size() - 2].type;
        return outside == P::LBRACE || outside == P::RBRACE;
    }

    void nest(std::size_t type) {
        if (type == P::LBRACE || type == P::LPAREN || type == P::LBRACK) open_.push_back(type);
        if (type == P::RBRACE) close_brace();
        if ((type == P::RPAREN || type == P::RBRACK) && !open_.empty() && open_.back() != P::LBRACE) open_.pop_back();
        if (fn_ == Fn::head && type == P::LBRACE) {
            fn_ = Fn::body;
            fn_depth_ = open_.size();
            fn_lets_ = false;
        }
        if (fn_ == Fn::head && type == P::ASSIGN) fn_ = Fn::none;
        if (fn_ == Fn::body && open_.size() < fn_depth_) fn_ = Fn::none;
        if (open_.size() < reply_depth_) in_reply_ = false;
    }

    // A `}` ends the parentheses that were left open inside its braces as well.
    void close_brace() {
        while (!open_.empty() && open_.back() != P::LBRACE) open_.pop_back();
        if (!open_.empty()) open_.pop_back();
    }

    bool return_is_bare() const {
        const SyntaxToken& next = following();
        if (next.type == P::RBRACE || next.type == P::EOF || begins_reserved_stmt(next.type)) return true;
        return next.first_on_line && !value_is_below();
    }

    // Behind a `return` nothing of its block is reached: a value on the next line was meant to be its own, and the
    // builder refuses it by that. Behind `else return` there may be another statement.
    bool value_is_below() const {
        const SyntaxToken& next = following();
        if (!out_.empty() && out_.back().type == P::ELSE) return false;
        if (!begins_value(next) || begins_soft_stmt(next.type)) return false;
        if (!is_word_type(next.type)) return true;
        const SyntaxToken& second = in_[next_of(next_of(at_))];
        if (second.first_on_line) return true;
        const bool part = is_word_type(second.type) || second.type == P::INT || second.type == P::STRING;
        return second.type != P::ASSIGN && second.type != P::LBRACE && !(part && begins_value(second));
    }

    // `f(max 4)`, not `f(max(a, b))`, `f(max)` or `f(max + 1)`; nor behind a comma outside of parentheses, where a
    // value named so ends a statement and a word on the next line begins another one.
    bool max_is_bound() const {
        if (out_.empty() || (out_.back().type != P::LPAREN && out_.back().type != P::COMMA)) return false;
        if (open_.empty() || open_.back() != P::LPAREN) return false;
        const SyntaxToken& next = following();
        if (next.type == P::AT) return true;
        return begins_value(next) && next.type != P::LPAREN && next.type != P::MINUS;
    }

    // `reply` and `skip` are fine names of values as well, and functions have no statements.
    bool begins_soft(bool member) const {
        if (member || fn_ == Fn::body) return false;
        if (!begins_value(following()) && following().type != P::AT) return false;
        if (out_.empty()) return kind_ == TextKind::stmt;
        const SyntaxToken& before = out_.back();
        switch (before.type) {
            case P::LBRACE:
            case P::RBRACE:
            case P::ELSE:
            case P::BREAK:
            case P::CONTINUE:
            case P::RETURN_BARE:
            case P::END: return true;
            default: break;
        }
        return ends_value(before) && (in_[at_].first_on_line || last_is_value());
    }

    // Whether the last token, which may end a value, does: a word of the language is a value where it is one of the
    // literals, or where nothing else could stand.
    bool last_is_value() const {
        const std::size_t last = out_.back().type;
        if (!is_word_type(last) || last == P::IDENT) return true;
        if (last == P::TRUE || last == P::FALSE || last == P::BLOCK) return true;
        if (out_.size() < 2 || (kind_ == TextKind::file && open_.empty())) return false;
        switch (out_[out_.size() - 2].type) {
            case P::RETURN:
            case P::FAIL:
            case P::PART:
            case P::SKIPS: return true;
            case P::REPLY: return in_reply_ && out_.size() == reply_at_ + 2;  // elsewhere it is a name
            default: return is_operator(out_[out_.size() - 2].type);
        }
    }

    // `reply "a" skip "b"` has three parts.
    bool begins_skip(bool member) const {
        const bool part = in_reply_ && following().type == P::STRING && !in_[at_].first_on_line;
        return !part && begins_soft(member);
    }

    // A declaration in the first column ends what is not finished above it, though its first word may be a name as
    // well.
    bool cuts_off(const SyntaxToken& token) const {
        return open_.empty() && !out_.empty() && token.first_on_line && token.span.col == 1 &&
               !ends_value(out_.back()) && out_.back().type != P::RBRACE && out_.back().type != P::END &&
               begins_item(in_, at_);
    }

    // Whether a word that is followed by this may be an assignment, a call or a member's call.
    static bool could_act(std::size_t type) {
        return type == P::ASSIGN || type == P::LPAREN || type == P::DOT || type == P::LBRACK;
    }

    // Behind a part of a reply: `-` subtracts, and `(` calls what is before it when that is a name and not a format.
    bool goes_on(const SyntaxToken& token) const {
        const bool formatted = out_.size() > 1 && out_[out_.size() - 2].type == P::COLON;
        return token.type == P::MINUS || (token.type == P::LPAREN && is_word_type(out_.back().type) && !formatted);
    }

    // Before `token`, inside a reply: does the statement end here, or another part begin?
    void reply_part(const SyntaxToken& token) {
        if (open_.size() != reply_depth_) return;
        const bool after_value = ends_value(out_.back()) && out_.size() != reply_at_ + 1;
        const bool closes = token.type == P::RBRACE || token.type == P::EOF;
        const bool new_line = token.first_on_line && is_word_type(token.type) && could_act(following().type);
        const bool assigns = is_word_type(token.type) && following().type == P::ASSIGN;
        const bool stmt = begins_reserved_stmt(token.type) || (begins_soft_stmt(token.type) && after_value);
        if (closes || stmt || (after_value && (new_line || assigns))) {
            out_.push_back(made(P::END, out_.back()));
            in_reply_ = false;
        } else if (after_value && begins_value(token) && !goes_on(token)) {
            out_.push_back(made(P::PART, out_.back()));
        }
    }

    // Before `token`, between the lets of a function and its value.
    void fn_part(const SyntaxToken& token) {
        if (open_.size() != fn_depth_) return;
        if (token.type == P::LET) fn_lets_ = true;
        if (!fn_lets_ || !ends_value(out_.back()) || !begins_value(token)) return;
        const bool infix = token.type == P::LPAREN || token.type == P::MINUS;
        if (infix && !token.first_on_line) return;
        out_.push_back(made(P::RESULT, out_.back()));
        fn_ = Fn::none;
    }

    Tokens& in_;
    TextKind kind_;
    Tokens out_;
    std::size_t at_ = 0;
    std::vector<std::size_t> open_;
    bool in_reply_ = false;
    std::size_t reply_depth_ = 0, reply_at_ = 0;
    enum class Fn { none, head, body } fn_ = Fn::none;
    std::size_t fn_depth_ = 0;
    bool fn_lets_ = false;
    bool in_goto_ = false;
    std::size_t goto_at_ = 0, goto_depth_ = 0;
};

}  // namespace

bool begins_reserved_stmt(std::size_t type) {
    switch (type) {
        case P::LET:
        case P::VAR:
        case P::IF:
        case P::ELSE:
        case P::WHEN:
        case P::FOR:
        case P::LENGTH:
        case P::GOTO:
        case P::RETURN:
        case P::FAIL:
        case P::BREAK:
        case P::CONTINUE: return true;
        default: return false;
    }
}

bool begins_item(const std::vector<SyntaxToken>& tokens, std::size_t at) {
    const std::size_t next = at + 1 < tokens.size() ? tokens[at + 1].type : P::EOF;
    switch (tokens[at].type) {
        case P::IMPORT: return next == P::STRING;
        case P::CONST:
        case P::FN:
        case P::CHAIN: return true;
        case P::FILES: return is_word_type(next);
        case P::MATCH: return next == P::EXE;
        case P::BATCH: return next == P::LBRACE;
        case P::PARAM:
        case P::APP:
        case P::SOCKET:
        case P::CLASS:
        case P::RECORD:
        case P::TEXT:
        case P::SERVICE:
        case P::PROBE: return is_word_type(next);
        default: return false;
    }
}

bool balance(std::vector<SyntaxToken>& tokens, diag::Diagnostics& diags, std::size_t nested) {
    return Balancer(tokens, diags, nested).run();
}

void mark(std::vector<SyntaxToken>& tokens, TextKind kind) { Marker(tokens, kind).run(); }

}  // namespace chainio::syntax
