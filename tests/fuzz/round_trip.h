// What must hold of every text that a front end accepts; shared by the fuzz targets of both.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>

#include "compiler/syntax/parse.h"

namespace chainio::fuzz {

using Parse = std::unique_ptr<ast::File> (*)(FileId, const diag::Sources&, diag::Diagnostics&);

inline void demand(bool holds, const char* what, const std::string& one, const std::string& other) {
    if (holds) return;
    std::fprintf(stderr, "%s\n--- one\n%s\n--- other\n%s\n", what, one.c_str(), other.c_str());
    std::abort();
}

// The tree of a text that a printer wrote: it has to be free of errors.
inline std::unique_ptr<ast::File> reparse(const std::string& text, Parse parse, const char* what) {
    diag::Sources sources;
    diag::Diagnostics diags;
    const FileId id = sources.add("printed", text);
    auto file = parse(id, sources, diags);
    demand(!diags.has_errors(), what, text, diag::render_text(diags, sources, false));
    return file;
}

inline void same(const std::string& one, const std::string& other, const char* what) {
    demand(one == other, what, one, other);
}

// Printed in every form, read again and printed again, nothing changes.
inline void round_trip(ast::File& file) {
    const std::string canonical = syntax::print_chain(file);
    same(canonical, syntax::print_chain(*reparse(canonical, syntax::parse_chain, "the canonical form does not parse")),
         "the canonical form is not stable");
    const std::string formatted = syntax::format_chain(file);
    const auto again = reparse(formatted, syntax::parse_chain, "the formatted text does not parse");
    same(formatted, syntax::format_chain(*again), "the formatted text is not stable");
    same(canonical, syntax::print_chain(*again), "the formatted text means something else");
    const std::string yaml = syntax::print_yaml(file);
    const auto from_yaml = reparse(yaml, syntax::parse_yaml, "the YAML does not parse");
    same(canonical, syntax::print_chain(*from_yaml), "the YAML means something else");
    same(yaml, syntax::print_yaml(*from_yaml), "the YAML is not stable");
}

inline void run(const std::uint8_t* data, std::size_t size, const char* name, Parse parse) {
    diag::Sources sources;
    diag::Diagnostics diags;
    const FileId id = sources.add(name, std::string(reinterpret_cast<const char*>(data), size));
    const auto file = parse(id, sources, diags);
    syntax::dump_ast(*file);
    diag::render_text(diags, sources, false);
    if (!diags.has_errors()) round_trip(*file);
}

}  // namespace chainio::fuzz
