// Reads a text in either form, for the tests of this folder.
#pragma once
#include <memory>
#include <string>

#include "compiler/syntax/parse.h"

namespace chainio::syntax::test {

struct Read {
    diag::Sources sources;
    diag::Diagnostics diags;
    std::unique_ptr<ast::File> file;

    // "CODE line:column", one a line.
    std::string errors() const {
        std::string out;
        for (const diag::Diagnostic& each : diags.sorted()) {
            out += diag::code_text(each.code) + " " + std::to_string(each.span.line) + ":" +
                   std::to_string(each.span.col) + "\n";
        }
        return out;
    }
    std::string rendered() const { return diag::render_text(diags, sources, false); }
};

inline std::unique_ptr<Read> read(const std::string& name, const std::string& text) {
    auto out = std::make_unique<Read>();
    const FileId id = out->sources.add(name, text);
    out->file = parse(id, out->sources, out->diags);
    return out;
}
inline std::unique_ptr<Read> read_chain(const std::string& text) { return read("t.chain", text); }
inline std::unique_ptr<Read> read_yaml(const std::string& text) { return read("t.yaml", text); }

}  // namespace chainio::syntax::test
