#include "compiler/ir/patterns.h"

#include <algorithm>

namespace chainio::ir {

std::optional<std::string> anywhere_instead_of(std::string_view pattern) {
    if (pattern.find('/') == std::string_view::npos) return std::nullopt;
    // `\` may stand before a '/', and a set may hold one.
    if (std::string_view("/\\[").find(pattern.front()) != std::string_view::npos || pattern.starts_with("**"))
        return std::nullopt;
    // "*/x" is "/x" and nothing else, since one star crosses no '/': nobody writes that for it.
    if (pattern.front() == '*' && !pattern.starts_with("*/")) return "**/" + std::string(pattern);
    for (const std::string_view begin : {"*/", "~/", "./", "../"})
        while (pattern.starts_with(begin)) pattern.remove_prefix(begin.size());
    return "**/" + std::string(pattern);
}

const char* why_no_file_name(std::string_view name) {
    if (name.empty()) return "is empty";
    if (name == "." || name == "..") return "is a folder";
    if (name.contains('/')) return "has a `/` in it";
    if (name.contains('\0')) return "has a byte 0 in it";
    return name.size() > 255 ? "is longer than 255 bytes" : nullptr;
}

}  // namespace chainio::ir
