#include "tools/chainc/places.h"

#include "tools/chainc/pipeline.h"

namespace chainio::chainc {

Places::Places(const Compilation& compilation) : compilation_(compilation), map_(compilation.loader) {}

Span Places::of_chain(std::size_t chain) const {
    const auto& chains = compilation_.checked->chains;
    return chain < chains.size() ? chains[chain].span : Span{};
}

const checked::Handler* Places::handler_of(std::size_t program) const {
    const auto index = static_cast<std::int32_t>(program);
    const auto& services = compilation_.artifact.module.services;
    for (std::size_t s = 0; s < services.size(); s++) {
        const ir::Service& service = services[s];
        const checked::Service& from = compilation_.checked->services[s];
        for (const auto& [number, handler] : {std::pair{service.on_request_udp, &from.udp},
                                              {service.on_request_tcp, &from.tcp},
                                              {service.on_malformed, &from.malformed},
                                              {service.on_failure, &from.failure},
                                              {service.on_datagram, &from.datagram}})
            if (number == index && handler->has_value()) return &**handler;
    }
    return nullptr;
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
    if (const checked::Handler* handler = handler_of(program))
        return of_line(module.sources[handler->line.file], handler->line.line);
    for (const ir::Stmt& stmt : module.programs[program].body) {
        if (stmt.line.line != 0 && stmt.line.file < module.sources.size())
            return of_line(module.sources[stmt.line.file], stmt.line.line);
    }
    return {};
}

}  // namespace chainio::chainc
