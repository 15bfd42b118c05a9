// Chains: signatures, then bodies, then what must hold of the whole.
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::TypeKind;

Checker::Env Checker::chain_env(ChainScope& chain, Site site, bool block, std::vector<checked::Local>* locals) {
    Env env;
    env.scope = chain.scope;
    env.site = site;
    env.block = block;
    env.locals = locals;
    env.chain = &chain;
    return env;
}

void Checker::chain_params(ChainInfo& info, checked::Chain& out) {
    std::set<std::string_view> names;
    for (const auto& n : info.chain->params) {
        checked::Param param{};
        param.name = n.name.text;
        if (!names.insert(n.name.text).second) {
            error(duplicate_name, n.name.span, "the chain has two parameters `" + n.name.text + "`",
                  "rename one of the two");
            info.failed = true;
        }
        if (n.file) {
            param.kind = ir::Param::Kind::file;
            Symbol* files = symbol_of(*n.file, SymbolKind::files, unknown_files, "file class");
            if (!files) info.failed = true;
            param.file_class = files ? files->index : 0;
            if (!files) param.type.kind = TypeKind::text;  // marks a file that is not known; nothing reads it
        } else if (auto type = value_type(n.type, "a parameter", false)) {
            param.kind = type->kind == TypeKind::bytes ? ir::Param::Kind::bytes : ir::Param::Kind::scalar;
            param.type = *type;
        } else {
            param.kind = ir::Param::Kind::scalar;
            info.failed = true;
        }
        out.params.push_back(std::move(param));
    }
}

// A shadow chain's event brings a file, or the arguments of a probe; they are its parameters.
void Checker::shadow_params(ChainInfo& info, checked::Chain& out) {
    const ast::Event& event = *info.chain->event;
    Symbol* symbol = nullptr;
    switch (event.kind) {
        case ast::EventKind::read:
        case ast::EventKind::open:
            out.mode = event.kind == ast::EventKind::read ? ir::ChainMode::on_read : ir::ChainMode::on_open;
            symbol = symbol_of(event.source, SymbolKind::files, unknown_files, "file class");
            if (symbol) {
                checked::Param file{};
                file.kind = ir::Param::Kind::file;
                file.name = event.bind.text;
                file.file_class = symbol->index;
                out.params.push_back(std::move(file));
            }
            break;
        case ast::EventKind::ready:
            out.mode = ir::ChainMode::on_ready;
            symbol = symbol_of(event.source, SymbolKind::socket, unknown_socket, "socket");
            break;
        case ast::EventKind::probe:
            out.mode = ir::ChainMode::on_probe;
            symbol = symbol_of(event.source, SymbolKind::probe, unknown_probe, "probe");
            if (!symbol) break;
            for (const auto& arg : probes_[symbol->index].first->args) {
                checked::Param param{};
                param.name = arg.first.text;
                if (auto type = probe_type(arg.second)) {
                    param.type = *type;
                    param.kind = type->kind == TypeKind::bytes ? ir::Param::Kind::bytes : ir::Param::Kind::scalar;
                } else {
                    info.failed = true;
                }
                out.params.push_back(std::move(param));
            }
            break;
    }
    if (symbol)
        out.source = out.mode == ir::ChainMode::on_ready ? socket_numbers_[symbol->index] : symbol->index;
    else
        info.failed = true;
}

void Checker::chain_signature(std::uint32_t index) {
    ChainInfo& info = chains_[index];
    checked::Chain& out = module_.chains[index];
    EnvScope there(
        *this,
        Env{.scope = info.scope, .site = Site::signature, .locals = &constant_locals_, .base = bindings_.size()});
    out.span = info.chain->name.span;
    out.line = line_of(info.chain->canonical_line);
    if (info.chain->priority_class) out.priority_class = class_named(*info.chain->priority_class);
    if (info.chain->event) {
        shadow_params(info, out);
    } else {
        chain_params(info, out);
    }
    if (info.chain->returns) {
        auto type = value_type(*info.chain->returns, "a result", true, &info.exact);
        if (type)
            out.returns = *type;
        else
            info.failed = true;
    }
}

void Checker::bind_params(ChainScope& chain) {
    for (std::uint32_t i = 0; i < chain.ast->params.size(); i++) {
        const ast::ChainParam& n = chain.ast->params[i];
        const checked::Param& param = chain.out->params[i];
        Binding b;
        b.name = n.name.text;
        b.span = n.name.span;
        b.unused_code = unused_parameter;
        if (n.name.text.empty()) continue;
        if (param.kind == ir::Param::Kind::file) {
            b.kind = param.type.kind == TypeKind::none ? Binding::Kind::file : Binding::Kind::error;
            b.index = i;
            b.used = true;  // which file a read is of may go without saying
        } else if (param.type.kind != TypeKind::none) {
            b.kind = Binding::Kind::value;
            b.value = make(ExprKind::param, param.type, n.name.span);
            b.value.expr->index = i;
            if (param.type.kind == TypeKind::bytes) b.value.place = Place::args;
        }
        if (lookup(n.name.text)) continue;  // declared twice, and reported
        bind(std::move(b));
    }
}

void Checker::state_variables(ChainScope& chain) {
    for (const auto& n : chain.ast->state) {
        auto type = value_type(n.type, "a state variable", false);
        Value initial = n.value ? value(*n.value) : Value{};
        if (!type || (n.value && !initial)) {
            bind_error(n.name);
            continue;
        }
        if (n.value && !store_as(initial, *type, n.value->span, "`" + n.name.text + "`")) initial = {};
        Binding b;
        b.kind = Binding::Kind::value;
        b.name = n.name.text;
        b.span = n.name.span;
        b.used = true;
        const auto index = static_cast<std::uint32_t>(chain.out->state.size());
        b.state = index;
        b.value = make(ExprKind::state, *type, n.name.span);
        b.value.expr->index = index;
        if (type->kind == TypeKind::bytes) b.value.place = Place::state;
        chain.out->state.push_back({n.name.text, *type, std::move(initial.expr), false});
        bind(std::move(b));
    }
}

void Checker::check_chain(std::uint32_t index) {
    const ChainInfo& info = chains_[index];
    ChainScope chain;
    chain.ast = info.chain;
    chain.out = &module_.chains[index];
    chain.scope = info.scope;
    chain.exact_result = info.exact;
    if (info.chain->event)
        check_shadow_chain(chain, *chain.out);
    else
        check_call_chain(chain, *chain.out);
}

void Checker::check_call_chain(ChainScope& chain, checked::Chain& out) {
    const ast::Chain& n = *chain.ast;
    if (!n.body.stmts.empty()) {
        error(statements_outside_step, n.body.stmts.front()->span, "a statement outside of a step",
              "a chain with parameters does its work in steps: `step walk(b: block at 0 for 4KiB) { … }`");
    }
    if (n.steps.empty()) {
        if (n.body.stmts.empty() && !n.steps_unread && !chain.scope->is_broken(n.name.text))
            error(chain_without_steps, n.name.span, "chain `" + n.name.text + "` has no steps",
                  "give it one: `step walk(b: block at 0 for 4KiB) { … }`");
        return;
    }
    out.steps.resize(n.steps.size());
    EnvScope there(*this, chain_env(chain, Site::signature, false, &out.steps[0].body.locals));
    bind_params(chain);
    state_variables(chain);
    chain.mark = bindings_.size();
    if (n.hops) {
        auto hops = here_uint(*n.hops, "the number of hops", 1, kMaxHops, hops_range);
        if (hops) out.hops = static_cast<std::uint32_t>(*hops);
    }
    declare_steps(chain);
    for (std::uint32_t i = 0; i < n.steps.size(); i++) check_step(chain, i);
    if (n.done) check_done(chain);
    for (const checked::Step& step : out.steps) check_stale_names(out, step.body);
    if (out.done) check_stale_names(out, *out.done);
    check_files_left_out(chain);
    check_hops(chain);
    check_result(chain);
    check_limits(chain);
    if (failed_) return;
    warn_unreached(chain);
    warn_reads(chain);
}

void Checker::check_done(ChainScope& chain) {
    checked::Body& body = chain.out->done.emplace();
    EnvScope there(*this, chain_env(chain, Site::done, false, &body.locals));
    block(*chain.ast->done, body.block);
}

void Checker::check_hops(ChainScope& chain) {
    if (chain.ast->hops || !chain.reads_more) return;
    error(missing_hops, chain.ast->name.span,
          "chain `" + chain.ast->name.text + "` reads more than once, and nothing says how often at most",
          "write `hops N` before its body: the most reads that one run may do");
}

void Checker::check_result(ChainScope& chain) {
    checked::Chain& out = *chain.out;
    out.emits = chain.emits && out.returns.kind == TypeKind::bytes;
    out.exact = chain.exact_result;
    if (chain.emits && chain.returns_value && !chain.bad_emits && !chain.bad_returns) {
        error(emit_and_return, chain.first_return, "this chain emits its result, and returns one as well",
              "emit everything and end with `return` alone, or return one value",
              {{chain.first_emit, "it emits here"}});
    }
    if (after_syntax_errors_) return;  // what is missing may stand in the text that could not be read
    if (out.returns.kind != TypeKind::none && !chain.emits && !chain.returns_value) {
        error(no_return, chain.ast->name.span,
              "chain `" + chain.ast->name.text + "` has a result, and nothing returns or emits one",
              "write `return …` where the value is found");
    } else if (out.returns.kind != TypeKind::none && !chain.emits && chain.returns_nothing) {
        error(return_value, chain.first_bare_return,
              "`return` without a value in a chain whose result is " + describe(out.returns),
              "return the value, or `fail` with a reason");
    }
}

void Checker::check_limits(ChainScope& chain) {
    checked::Chain& out = *chain.out;
    const std::uint32_t state = state_bytes(out);
    if (state > kMaxState) {
        Span place = chain.ast->state.empty() ? chain.ast->name.span : chain.ast->state.front().span;
        error(state_too_large, place, "the state of the chain takes " + std::to_string(state) + " bytes",
              "keep it within 4 KiB: an integer takes 8 bytes, bytes(max N) take N and 8 more, variables of bytes "
              "included");
    }
    std::uint64_t slots = chain.header_fields.size(), bytes = 0;
    for (const auto& p : out.params) {
        slots += p.kind == ir::Param::Kind::scalar ? 1 : p.kind == ir::Param::Kind::bytes ? 2 : 0;
        if (p.kind != ir::Param::Kind::bytes) continue;
        // What callers give begins at multiples of 8; the strings of a probe lie one behind the other.
        bytes += out.mode == ir::ChainMode::call ? (p.type.max + 7) / 8 * 8 : p.type.max;
    }
    if (slots > kMaxArgSlots) {
        error(too_many_arguments, chain.ast->name.span,
              "the arguments of the chain take " + std::to_string(slots) + " slots",
              "use at most 32: an integer takes one, bytes two, and each header field that is used one");
    }
    if (bytes > kMaxArgBytes && out.mode == ir::ChainMode::on_probe) {
        error(too_many_arguments, chain.ast->name.span,
              "the strings of the probe may take " + std::to_string(bytes) + " bytes",
              "keep them within 4 KiB together: give shorter bounds in cstr(max N)",
              {{probes_[out.source].first->name.span, "the probe is declared here"}});
    } else if (bytes > kMaxArgBytes) {
        error(too_many_arguments, chain.ast->name.span,
              "the bytes among the arguments of the chain may take " + std::to_string(bytes) + " bytes",
              "keep them within 4 KiB together: give shorter bounds in bytes(max N)");
    }
}

}  // namespace chainio::sema
