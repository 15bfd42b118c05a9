#include "tools/chainc/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/diag/diag.h"

namespace chainio::chainc {
namespace {

std::string list() {
    std::size_t widest = 0;
    for (const diag::CatalogEntry& entry : diag::catalog()) widest = std::max(widest, entry.name.size());
    std::string out;
    for (const diag::CatalogEntry& entry : diag::catalog()) {
        out += fmt::format("{}  {:<7}  {:<{}}  {}\n", diag::code_text(entry.code), diag::severity_text(entry.severity),
                           entry.name, widest, entry.title);
    }
    return out;
}

}  // namespace

std::expected<std::string, std::string> explain(const std::string& code_or_name) {
    if (code_or_name == "list") return list();
    if (const diag::CatalogEntry* entry = diag::find_entry(code_or_name)) {
        return fmt::format("{} ({}, {}): {}\n\n{}\n", diag::code_text(entry->code),
                           diag::severity_text(entry->severity), entry->name, entry->title, entry->explain);
    }
    // Each code is nearly some other one, which says nothing about what was meant.
    std::vector<std::string> names{"list"};
    for (const diag::CatalogEntry& entry : diag::catalog()) names.emplace_back(entry.name);
    const auto near = diag::nearest(code_or_name, names);
    return std::unexpected(
        fmt::format("chainc: there is no diagnostic `{}`\n  hint: {}\n", code_or_name,
                    near ? fmt::format("did you mean `{}`?", *near) : "`chainc --explain list` prints them all"));
}

}  // namespace chainio::chainc
