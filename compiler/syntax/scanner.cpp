#include "compiler/syntax/scanner.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "compiler/syntax/characters.h"
#include "compiler/syntax/codes.h"
#include "compiler/syntax/grammar.h"

namespace chainio::syntax {
namespace {

const std::unordered_map<std::string_view, std::size_t>& word_table() {
    static const std::unordered_map<std::string_view, std::size_t> table = {
        {"import", P::IMPORT},
        {"as", P::AS},
        {"with", P::WITH},
        {"param", P::PARAM},
        {"const", P::CONST},
        {"app", P::APP},
        {"match", P::MATCH},
        {"exe", P::EXE},
        {"files", P::FILES},
        {"direct", P::DIRECT},
        {"immutable", P::IMMUTABLE},
        {"no_read_ahead", P::NO_READ_AHEAD},
        {"header", P::HEADER},
        {"root", P::ROOT},
        {"index", P::INDEX},
        {"cache", P::CACHE},
        {"levels", P::LEVELS},
        {"socket", P::SOCKET},
        {"tcp", P::TCP},
        {"udp", P::UDP},
        {"port", P::PORT},
        {"class", P::CLASS},
        {"priority", P::PRIORITY},
        {"weight", P::WEIGHT},
        {"slo", P::SLO},
        {"batch", P::BATCH},
        {"min", P::MIN},
        {"max", P::MAX},
        {"adapt", P::ADAPT},
        {"record", P::RECORD},
        {"let", P::LET},
        {"var", P::VAR},
        {"bytes", P::BYTES},
        {"cstr", P::CSTR},
        {"bits", P::BITS},
        {"when", P::WHEN},
        {"text", P::TEXT},
        {"fn", P::FN},
        {"chain", P::CHAIN},
        {"file", P::FILE},
        {"on", P::ON},
        {"read", P::READ},
        {"open", P::OPEN},
        {"ready", P::READY},
        {"probe", P::PROBE},
        {"hops", P::HOPS},
        {"state", P::STATE},
        {"step", P::STEP},
        {"done", P::DONE},
        {"block", P::BLOCK},
        {"from", P::FROM},
        {"at", P::AT},
        {"for", P::FOR},
        {"in", P::IN},
        {"tag", P::TAG},
        {"if", P::IF},
        {"else", P::ELSE},
        {"goto", P::GOTO},
        {"next", P::NEXT},
        {"return", P::RETURN},
        {"emit", P::EMIT},
        {"fail", P::FAIL},
        {"prefetch", P::PREFETCH},
        {"mark", P::MARK},
        {"reply", P::REPLY},
        {"skip", P::SKIPS},
        {"break", P::BREAK},
        {"continue", P::CONTINUE},
        {"service", P::SERVICE},
        {"via", P::VIA},
        {"request", P::REQUEST},
        {"malformed", P::MALFORMED},
        {"failure", P::FAILURE},
        {"datagram", P::DATAGRAM},
        {"entries", P::ENTRIES},
        {"ttl", P::TTL},
        {"key", P::KEY},
        {"by", P::BY},
        {"true", P::TRUE},
        {"false", P::FALSE},
        {"_", P::UNDERSCORE},
    };
    return table;
}

struct Operator {
    std::string_view text;
    std::size_t type;
};
// Longer ones first, so that the first that fits is the longest.
constexpr std::array operators = {
    Operator{"..", P::DOTDOT},  Operator{"->", P::ARROW},  Operator{"=>", P::FATARROW}, Operator{"<<", P::SHL},
    Operator{">>", P::SHR},     Operator{"<=", P::LE},     Operator{">=", P::GE},       Operator{"==", P::EQ},
    Operator{"!=", P::NE},      Operator{"&&", P::ANDAND}, Operator{"||", P::OROR},     Operator{"{", P::LBRACE},
    Operator{"}", P::RBRACE},   Operator{"(", P::LPAREN},  Operator{")", P::RPAREN},    Operator{"[", P::LBRACK},
    Operator{"]", P::RBRACK},   Operator{",", P::COMMA},   Operator{":", P::COLON},     Operator{".", P::DOT},
    Operator{"?", P::QUESTION}, Operator{"=", P::ASSIGN},  Operator{"*", P::STAR},      Operator{"/", P::SLASH},
    Operator{"%", P::PERCENT},  Operator{"+", P::PLUS},    Operator{"-", P::MINUS},     Operator{"&", P::AMP},
    Operator{"^", P::CARET},    Operator{"|", P::PIPE},    Operator{"~", P::TILDE},     Operator{"!", P::NOT},
    Operator{"<", P::LT},       Operator{">", P::GT},
};

class Scanner {
  public:
    Scanner(FileId file, std::string_view text, const std::vector<Place>* places, diag::Diagnostics& diags)
        : file_(file), text_(text), places_(places), diags_(diags) {}

    Scanned run() {
        out_.tokens.reserve(text_.size() / 3 + 8);
        while (true) {
            skip_space();
            if (at_ >= text_.size()) break;
            token();
        }
        push(P::EOF, 0);
        return std::move(out_);
    }

  private:
    void skip_space() {
        for (; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == '\n') {
                ++line_;
                line_start_ = at_ + 1;
                ++newlines_;
                first_ = true;
            } else if (c != ' ' && c != '\t' && c != '\r') {
                return;
            }
        }
    }

    void token() {
        const char c = text_[at_];
        if (c == '#') return comment();
        if (is_word_start(c) || (is_foreign(c) && sign_at(at_).empty())) return word();
        if (is_digit(c)) return push(P::INT, run_of(is_word));
        if (c == '"') return string();
        for (const Operator& op : operators) {
            if (op.text.front() == c && text_.substr(at_).starts_with(op.text)) return push(op.type, op.text.size());
        }
        bad();
    }

    // A word with letters that names do not have is reported once, and is a name all the same: what is around it need
    // not be wrong.
    void word() {
        const std::size_t length = run_of(is_word);
        const std::size_t whole = letters();
        if (whole == length) return push(word_type(text_.substr(at_, length)), length);
        diags_.report(code::bad_character, span_of(whole),
                      "`" + std::string(text_.substr(at_, whole)) + "` has letters that no name has",
                      "names consist of a to z, A to Z, digits and `_`; others may stand in strings and comments only");
        push(P::IDENT, whole);
    }

    // The first byte of a letter in UTF-8, where no signs are near: 0xe2 and 0xe3 begin quotes, dashes and blanks.
    static bool is_foreign(char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte >= 0xc3 && byte <= 0xed && byte != 0xe2 && byte != 0xe3;
    }
    static bool is_letter(char c) {
        const auto byte = static_cast<unsigned char>(c);
        return is_word(c) || is_foreign(c) || (byte >= 0x80 && byte <= 0xbf);
    }

    // The sign of the language that is meant by one which stands among the letters of UTF-8.
    std::string_view sign_at(std::size_t at) const {
        const std::string_view sign = text_.substr(at, 2);
        return sign == "×" ? "*" : sign == "÷" ? "/" : "";
    }

    std::size_t letters() const {
        std::size_t end = at_;
        while (end < text_.size() && is_letter(text_[end]) && sign_at(end).empty()) ++end;
        return end - at_;
    }

    std::size_t run_of(bool (*accept)(char)) const {
        std::size_t end = at_;
        while (end < text_.size() && accept(text_[end])) ++end;
        return end - at_;
    }

    void comment() {
        std::size_t end = text_.find_first_of("\r\n", at_);
        if (end == std::string_view::npos) end = text_.size();
        std::string_view body = text_.substr(at_ + 1, end - at_ - 1);
        if (body.starts_with(' ')) body.remove_prefix(1);
        while (body.ends_with(' ') || body.ends_with('\t')) body.remove_suffix(1);
        out_.comments.push_back(
            {.text = std::string(body), .offset = at_, .line = line_, .own_line = first_, .blank_before = blank()});
        at_ = end;
        newlines_ = 0;
    }

    void string() {
        std::size_t end = at_ + 1;
        while (end < text_.size() && text_[end] != '"' && text_[end] != '\n' && text_[end] != '\r') {
            end += text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n' && text_[end + 1] != '\r' ? 2
                                                                                                                    : 1;
        }
        const bool closed = end < text_.size() && text_[end] == '"';
        const std::size_t length = end - at_ + (closed ? 1 : 0);
        if (!closed) {
            diags_.report(code::open_string, span_of(length), "this string is not closed on its line",
                          "end it with `\"`; a line break inside a string is written `\\n`");
        }
        push(P::STRING, length);
        out_.tokens.back().broken = !closed;
    }

    // A string in single quotes is reported, and read as the string that it was meant to be.
    bool single_quoted() {
        const std::size_t line_end = std::min(text_.find('\n', at_), text_.size());
        const std::size_t end = text_.find('\'', at_ + 1);
        if (end >= line_end) return false;
        const std::size_t length = end + 1 - at_;
        diags_.report(code::bad_character, span_of(length), "strings do not stand in single quotes",
                      "use double quotes: \"text\"");
        push(P::STRING, length);
        return true;
    }

    // What no token begins with is reported here and left out, so that the parser does not complain about it again.
    void bad() {
        if (text_[at_] == '\'' && single_quoted()) return;
        if (text_[at_] == ';' && in_foreign_loop()) {
            ++at_;
            return;
        }
        const auto c = static_cast<unsigned char>(text_[at_]);
        std::size_t length = 1;
        while (c >= 0x80 && at_ + length < text_.size() &&
               (static_cast<unsigned char>(text_[at_ + length]) & 0xc0) == 0x80)
            ++length;
        std::string hint = "remove it; such characters may stand in strings and comments only";
        if (c == ';') hint = "remove it: statements need no separator, white space is enough";
        if (c == '\'') hint = "strings stand in double quotes: \"text\"";
        if (c == '@' || c == '$') hint = "remove it; names consist of letters, digits and `_`";
        const std::string_view letter = text_.substr(at_, length);
        if (letter >= "\u2018" && letter <= "\u201f") hint = "strings stand in straight quotes: \"text\"";
        const std::string_view sign = sign_at(at_);
        if (!sign.empty()) hint = "write " + in_ticks(sign);
        const bool printable = c > 0x20 && c != 0x7f;
        const std::string what = printable ? "`" + std::string(letter) + "`" : "this character";
        diags_.report(code::bad_character, span_of(length), what + " is not part of the language", hint);
        if (!sign.empty()) return push(sign == "*" ? P::STAR : P::SLASH, length);
        first_ = false;
        newlines_ = 0;
        at_ += length;
    }

    // `for (i = 0; i < n; i++)`: the parser refuses the `(`, and its hint is about the whole.
    bool in_foreign_loop() const {
        for (std::size_t i = out_.tokens.size(); i-- > 1 && out_.tokens[i].span.line == line_;)
            if (out_.tokens[i].type == P::LPAREN && out_.tokens[i - 1].type == P::FOR) return true;
        return false;
    }

    bool blank() const { return newlines_ >= 2 && !(out_.tokens.empty() && out_.comments.empty()); }

    Span span_of(std::size_t length) const {
        if (places_ != nullptr) {
            const Place from = (*places_)[at_], to = (*places_)[at_ + length];
            return {file_, from.line, from.col, to.line, to.col};
        }
        const auto col = static_cast<std::uint32_t>(at_ - line_start_ + 1);
        return {file_, line_, col, line_, col + static_cast<std::uint32_t>(length)};
    }

    void push(std::size_t type, std::size_t length) {
        SyntaxToken& token = out_.tokens.emplace_back();
        token.type = type;
        token.offset = at_;
        token.text = text_.substr(at_, length);
        token.span = span_of(length);
        token.first_on_line = first_;
        token.blank_before = blank();
        first_ = false;
        newlines_ = 0;
        at_ += length;
    }

    FileId file_;
    std::string_view text_;
    const std::vector<Place>* places_;
    diag::Diagnostics& diags_;
    Scanned out_;
    std::size_t at_ = 0, line_start_ = 0;
    std::uint32_t line_ = 1;
    unsigned newlines_ = 0;  // since the token or comment before
    bool first_ = true;
};

}  // namespace

std::size_t word_type(std::string_view word) {
    const auto found = word_table().find(word);
    return found == word_table().end() ? P::IDENT : found->second;
}

const std::vector<std::string>& words() {
    static const std::vector<std::string> all = [] {
        std::vector<std::string> list;
        for (const auto& [word, type] : word_table()) {
            if (type != P::UNDERSCORE) list.emplace_back(word);
        }
        return list;
    }();
    return all;
}

Scanned scan(FileId file, std::string_view text, const std::vector<Place>* places, diag::Diagnostics& diags) {
    return Scanner(file, text, places, diags).run();
}

}  // namespace chainio::syntax
