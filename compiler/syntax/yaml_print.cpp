#include "compiler/syntax/yaml_print.h"

#include <array>

#include "compiler/syntax/literals.h"
#include "compiler/syntax/parse.h"
#include "compiler/syntax/text.h"
#include "compiler/syntax/yaml_text.h"

namespace chainio::syntax {
namespace {

bool may_be_plain(std::string_view text) {
    static constexpr std::array special = {"~", "null", "Null", "NULL", "<<", "="};
    if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
    if (std::string_view("-?:,[]{}#&*!|>'\"%@`.").find(text.front()) != std::string_view::npos) return false;
    for (const std::string_view each : special) {
        if (text == each) return false;
    }
    return text.find(": ") == std::string_view::npos && text.find(" #") == std::string_view::npos;
}

}  // namespace

std::string yaml_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
    return out + "'";
}

std::string yaml_text(const std::string& text) {
    const std::string line = flat(text);
    return may_be_plain(line) ? line : yaml_quoted(line);
}

std::string yaml_string(std::string_view value) {
    if (value.starts_with('"') || value.empty() || !is_plain_text(value)) return yaml_quoted(quote_string(value));
    return yaml_text(std::string(value));
}

void YamlPrinter::indent() {
    out_.append(std::size_t{2} * level_, ' ');
    if (dash_) out_.replace(out_.size() - 2, 2, "- ");
    dash_ = false;
}

void YamlPrinter::key(const std::string& name, const std::string& value, const std::string& trailing) {
    const std::string comment = trailing.empty() ? std::exchange(trailing_, "") : trailing;
    indent();
    out_ +=
        yaml_text(name) + ":" + (value.empty() ? "" : " " + value) + (comment.empty() ? "" : "  # " + comment) + "\n";
}

void YamlPrinter::text(const std::string& value, const std::string& trailing) {
    indent();
    out_ += value + (trailing.empty() ? "" : "  # " + trailing) + "\n";
}

void YamlPrinter::open(const std::string& name, const std::string& trailing) {
    key(name, "", trailing);
    ++level_;
}

// Comments from the end of a list come behind others here, each with the empty lines that it had.
void YamlPrinter::comments(const Strings& lines) {
    for (const std::string& each : lines) {
        const bool stands_apart = !out_.ends_with("\n\n") && !out_.ends_with(":\n");
        if (each != ast::empty_line || stands_apart) out_ += comment_line(each, level_);
    }
}

void YamlPrinter::begin(const ast::Comments& around, bool first) {
    if (around.blank_before && !first) out_ += '\n';
    comments(around.leading);
}

void YamlPrinter::entry(const ast::Comments& around, bool first) {
    --level_;
    begin(around, first);
    ++level_;
    dash_ = true;
    trailing_ = around.trailing;
}

void YamlPrinter::optional(const std::string& name, const ast::ExprPtr& expr) {
    if (expr) key(name, yaml_text(text_of(*expr)));
}

std::string YamlPrinter::file(const ast::File& file) {
    if (file.items.empty()) out_ += "[]\n";
    bool first = true;
    for (const ast::Item& each : file.items) {
        level_ = 1;
        ast::Comments around = each.comments;
        around.blank_before = each.blank_before;
        entry(around, first);
        first = false;
        std::visit([this](const auto& it) { node(it); }, each.node);
    }
    level_ = 0;
    comments(file.closing_comments);
    return std::move(out_);
}

std::string print_yaml(const ast::File& file) { return YamlPrinter().file(file); }

}  // namespace chainio::syntax
