#include "tools/chainc/defines.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/syntax/literals.h"

namespace chainio::chainc {
namespace {

bool is_identifier(std::string_view word) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    const auto inside = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
    return !word.empty() && letter(word[0]) && std::ranges::all_of(word, inside);
}

bool is_quoted(std::string_view text) {
    if (text.size() < 2 || !text.starts_with('"') || !text.ends_with('"')) return false;
    bool escape = false;
    for (char c : text.substr(1, text.size() - 2)) {
        if (c == '"' && !escape) return false;
        escape = c == '\\' && !escape;
    }
    return !escape;
}

// The first thing that a reader of literals found wrong.
void take_problem(const diag::Diagnostics& problems, sema::Define& to) {
    if (!problems.has_errors()) return;
    const diag::Diagnostic first = problems.sorted().front();
    to.problem = first.message;
    to.hint = first.hint;
    to.value = std::monostate{};
}

// An integer with an optional unit, `true`, `false`, or text in quotes, as the language has them.
sema::Define read_define(const std::string& name, std::string text) {
    sema::Define out{.text = std::move(text), .value = {}, .problem = {}, .hint = {}};
    std::string_view word = out.text;
    diag::Diagnostics problems;
    out.negative = word.starts_with('-');
    if (out.negative) word.remove_prefix(1);
    if (word == "true" || word == "false") {
        if (!out.negative) out.value = word == "true";
    } else if (is_quoted(out.text)) {
        out.value = syntax::read_string(out.text, {}, problems);
    } else if (word.find_first_of("0123456789") == 0) {
        out.value = syntax::read_int(word, {}, problems);
    }
    take_problem(problems, out);
    const auto* number = std::get_if<ast::IntLit>(&out.value);
    if (number && out.negative && number->value > std::uint64_t{1} << 63) {
        out.problem = fmt::format("`{}` does not fit 64 bits", out.text);
        out.hint = "the smallest number is -9223372036854775808";
        out.value = std::monostate{};
    }
    if (std::holds_alternative<std::monostate>(out.value) && out.problem.empty()) {
        out.problem = fmt::format("`{}` is not a value", out.text);
        out.hint = fmt::format(
            "give an integer with an optional unit, `true`, `false`, or text in quotes: -D {0}=4KiB, -D {0}='\"text\"'",
            name);
    }
    return out;
}

}  // namespace

std::map<std::string, sema::Define> define_options(const Options& options, diag::Diagnostics& problems) {
    std::map<std::string, sema::Define> result;
    for (const std::string& define : options.defines) {
        const std::size_t equals = define.find('=');
        const std::string name = define.substr(0, equals);
        if (equals == std::string::npos || !is_identifier(name) || equals + 1 == define.size()) {
            problems.report(504, {}, fmt::format("`-D {}` is not NAME=VALUE", define),
                            "write for example `-D FANOUT=31`");
            continue;
        }
        auto [at, fresh] = result.try_emplace(name, read_define(name, define.substr(equals + 1)));
        if (!fresh)
            problems.report(504, {},
                            fmt::format("`{}` is given twice: -D {}={} and -D {}", name, name, at->second.text, define),
                            "keep one of the two");
    }
    return result;
}

}  // namespace chainio::chainc
