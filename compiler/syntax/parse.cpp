#include <algorithm>

#include "compiler/syntax/parse.h"

#include "compiler/syntax/characters.h"

namespace chainio::syntax {
namespace {

// The first line that says something: YAML begins with `- `, `---`, `%YAML`, `[`, `{` or `key:`; no declaration does.
bool looks_like_yaml(std::string_view text) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        while (!line.empty() && (line.front() == ' ' || line.front() == '\t' || line.front() == '\r'))
            line.remove_prefix(1);
        while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
        if (line.empty() || line.front() == '#') continue;
        if (line == "-" || line.starts_with("- ") || line.starts_with("---") || line.starts_with("%YAML") ||
            line.front() == '[' || line.front() == '{') {
            return true;
        }
        std::size_t word = 0;
        while (word < line.size() && is_word(line[word])) ++word;
        return word > 0 && word < line.size() && line[word] == ':' &&
               (word + 1 == line.size() || line[word + 1] == ' ');
    }
    return false;
}

}  // namespace

bool is_yaml(FileId id, const diag::Sources& sources) {
    const std::string_view name = sources.name(id);
    if (name.ends_with(".yaml") || name.ends_with(".yml")) return true;
    return !name.ends_with(".chain") && looks_like_yaml(sources.text(id));
}

std::unique_ptr<ast::File> parse(FileId id, const diag::Sources& sources, diag::Diagnostics& diags) {
    return is_yaml(id, sources) ? parse_yaml(id, sources, diags) : parse_chain(id, sources, diags);
}

}  // namespace chainio::syntax
