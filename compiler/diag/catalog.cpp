// The catalogue as a table in order of code, and look-ups in it.
#include <algorithm>
#include <charconv>

#include "compiler/diag/diag.h"

namespace chainio::diag {
namespace {

std::vector<CatalogEntry> build() {
    std::vector<CatalogEntry> all{
#define CHAINIO_DIAG(code, severity, name, title, explain) CatalogEntry{code, Severity::severity, name, title, explain},
#include "compiler/diag/catalog.def"
#undef CHAINIO_DIAG
    };
    std::ranges::sort(all, {}, &CatalogEntry::code);
    return all;
}

}  // namespace

const std::vector<CatalogEntry>& catalog() {
    static const std::vector<CatalogEntry> all = build();
    return all;
}

const CatalogEntry* find_entry(int code) {
    const auto& all = catalog();
    const auto it = std::ranges::lower_bound(all, code, {}, &CatalogEntry::code);
    return it != all.end() && it->code == code ? &*it : nullptr;
}

const CatalogEntry* find_entry(std::string_view code_or_name) {
    for (const CatalogEntry& entry : catalog()) {
        if (entry.name == code_or_name) return &entry;
    }
    std::string_view digits = code_or_name;
    if (digits.starts_with("CH") || digits.starts_with("ch")) digits.remove_prefix(2);
    int code = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code);
    if (error != std::errc{} || end != digits.data() + digits.size()) return nullptr;
    return find_entry(code);
}

}  // namespace chainio::diag
