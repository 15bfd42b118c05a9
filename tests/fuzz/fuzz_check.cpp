// Any text through the whole compiler except clang: it ends with diagnostics, or with a module that keeps the IR's
// rules.
#include <cstdlib>

#include "compiler/ir/artifact.h"
#include "compiler/passes/lower.h"
#include "compiler/sema/check.h"
#include "compiler/syntax/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace chainio;
    if (size > 16384) return 0;  // longer texts only take longer
    diag::Sources sources;
    diag::Diagnostics diagnostics;
    const FileId id = sources.add("input.chain", std::string(data, data + size));
    const auto file = syntax::parse(id, sources, diagnostics);
    if (!file) std::abort();
    syntax::print_chain(*file);
    const auto nothing = [](const std::string&, FileId) { return sema::Loaded{}; };
    const auto checked = sema::check(*file, "input.chain", nothing, {}, diagnostics);
    if (diagnostics.has_errors() == checked.has_value()) std::abort();
    diag::render_text(diagnostics, sources, false);
    if (!checked) return 0;
    ir::Module module = passes::lower(*checked);
    passes::run_passes(module);
    // The limits of chainc come before the rules: what is too large is refused in better words there.
    const ir::IoLayout layout = ir::layout_of(module);
    if (layout.total < (1U << 20))
        ir::serialize({module, layout, std::vector<ir::ProgramBounds>(module.programs.size())});
    return 0;
}
