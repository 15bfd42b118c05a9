#include "tools/chainc/places.h"

#include "tools/chainc/pipeline.h"

namespace chainio::chainc {

Places::Places(const Compilation& compilation) : compilation_(compilation), map_(compilation.loader) {}

Span Places::of_chain(std::size_t chain) const {
    const auto& chains = compilation_.checked->chains;
    return chain < chains.size() ? chains[chain].span : Span{};
}

Span Places::of_program(std::size_t program) const {
    const ir::Module& module = compilation_.artifact.module;
    for (std::size_t c = 0; c < module.chains.size(); c++) {
        const ir::Chain& chain = module.chains[c];
        for (std::size_t s = 0; s < chain.steps.size(); s++) {
            if (chain.steps[s].program == program && s < compilation_.checked->chains[c].steps.size())
                return compilation_.checked->chains[c].steps[s].span;
        }
        const auto index = static_cast<std::int32_t>(program);
        if (chain.entry == index || chain.done == index || chain.shadow == index) return of_chain(c);
    }
    for (std::size_t f = 0; f < module.files.size(); f++) {
        if (module.files[f].header_program == static_cast<std::int32_t>(program))
            return compilation_.checked->files[f].header_span;
    }
    for (const ir::Stmt& stmt : module.programs[program].body) {
        if (stmt.line.line != 0 && stmt.line.file < module.sources.size())
            return of_line(module.sources[stmt.line.file], stmt.line.line);
    }
    return {};
}

}  // namespace chainio::chainc
