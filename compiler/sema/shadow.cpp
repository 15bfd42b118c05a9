// Shadow chains: what an unmodified program will want next.
#include <utility>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::StmtKind;

void Checker::check_shadow_chain(ChainScope& chain, checked::Chain& out) {
    const ast::Chain& n = *chain.ast;
    const auto refuse = [&](Span span, const char* what) {
        error(steps_in_shadow, span, std::string(what) + " in a shadow chain",
              "a shadow chain only looks at what the program has read, and says what to prefetch; a call chain can be "
              "started with `prefetch via`");
    };
    if (!n.steps.empty()) refuse(n.steps.front().name.span, "a step");
    if (!n.state.empty()) refuse(n.state.front().span, "state");
    if (n.done) refuse(n.done->span, "`done`");
    if (n.returns) refuse(n.returns->span, "a result");
    if (n.hops) refuse(n.hops->span, "`hops`");
    const bool has_block = out.mode == ir::ChainMode::on_read || out.mode == ir::ChainMode::on_ready;
    EnvScope there(*this, chain_env(chain, Site::shadow, has_block, &out.shadow.locals));
    out.shadow.locals.push_back({n.event->bind.text, {}, false});
    Binding b;
    b.name = n.event->bind.text;
    b.span = n.event->bind.span;
    b.kind = chains_[static_cast<std::size_t>(&out - module_.chains.data())].failed ? Binding::Kind::error
                                                                                    : Binding::Kind::event;
    b.used = true;
    if (!n.event->bind.text.empty()) bind(std::move(b));
    // A prefetch that is refused is not in the block, and the chain does prefetch.
    const std::size_t errors = diags_.error_count();
    const bool failed_before = std::exchange(failed_, false);
    block(n.body, out.shadow.block);
    const bool whole = !failed_ && diags_.error_count() == errors;
    failed_ |= failed_before;
    check_limits(chain);
    const std::uint64_t count = least(out.shadow.block, StmtKind::prefetch, StmtKind::prefetch_via);
    if (count > kMaxPrefetch) {
        error(too_many_prefetches, n.name.span,
              "chain `" + n.name.text + "` asks for at least " + std::to_string(count) + " prefetches at one event",
              "ask for at most 512, of which each `mark` is one");
    }
    if (whole && marks_only(out.shadow.block))
        error(only_marks, n.name.span, "chain `" + n.name.text + "` marks places and prefetches nothing",
              "let the chain that goes by the marks set them: what it fetches decides whether both are worth it");
    warn_prefetches(out.shadow.block);
}

bool Checker::event_has_file() const {
    return env_.chain &&
           (env_.chain->out->mode == ir::ChainMode::on_read || env_.chain->out->mode == ir::ChainMode::on_open);
}

// `r.file`
bool Checker::is_file_of_event(const ast::Expr& e) {
    const auto* access = std::get_if<ast::FieldAccess>(&e.node);
    return access && access->field.text == "file" && event_of(*access->base);
}

// `r.file` where what `r` is has been refused already.
bool Checker::is_of_wrong_event(const ast::Expr& e) {
    const auto* access = std::get_if<ast::FieldAccess>(&e.node);
    const auto* name = access ? std::get_if<ast::NameRef>(&access->base->node) : nullptr;
    const Binding* event = name ? lookup(name->name.text) : nullptr;
    return event && event->kind == Binding::Kind::error;
}

// The file class that an expression names, when it names one: `pages`, or `import.pages`.
std::optional<std::uint32_t> Checker::files_named(const ast::Expr& e) {
    Symbol* symbol = nullptr;
    if (const auto* name = std::get_if<ast::NameRef>(&e.node)) {
        if (lookup(name->name.text) || !env_.scope) return std::nullopt;
        symbol = find(*env_.scope, name->name.text);
    } else {
        symbol = find_member(e, true);
    }
    if (!symbol || symbol->kind != SymbolKind::files) return std::nullopt;
    symbol->used = true;
    return symbol->index;
}

bool Checker::prefetch_stmt(const ast::Stmt& s, const ast::Prefetch& n, checked::Block& out) {
    checked::Block scratch;
    if (env_.site != Site::shadow)
        error(prefetch_outside_shadow, s.span, "`prefetch` outside of a shadow chain",
              "a call chain reads with `goto` and `next`; a shadow chain is declared `on read(…)`, `on open(…)`, `on "
              "ready(…)` or `on probe(…)`");
    auto made = std::make_unique<checked::Stmt>();
    made->kind = StmtKind::prefetch;
    bool ok = n.target && prefetch_place(n, *made);
    if (n.at) {
        Value at = offset_value(*n.at, "the offset of a prefetch");
        settle(at);
        made->value = std::move(at.expr);
        ok &= made->value != nullptr;
    }
    if (n.length) {
        Value length = offset_value(*n.length, "the length of a prefetch");
        settle(length);
        if (length && length.expr->kind == ExprKind::int_const && length.expr->value == 0) {
            error(zero_length_read, n.length->span, "a prefetch of no bytes",
                  "ask for at least one; leave `at … for …` out for the whole file");
            ok = false;
        }
        made->value2 = std::move(length.expr);
        ok &= made->value2 != nullptr;
    }
    if (ok && !n.at && made->prefetch_kind == ir::PrefetchKind::same) {
        error(prefetch_range, s.span, "which part of the file is not said", "write `prefetch … at OFFSET for LENGTH`");
        ok = false;
    }
    return ask(s, ok ? std::move(made) : nullptr, out);
}

bool Checker::prefetch_place(const ast::Prefetch& n, checked::Stmt& made) {
    const ast::Expr& e = *n.target;
    if (is_file_of_event(e)) {
        if (!event_has_file()) {
            error(prefetch_target, e.span, "this event has no file", "name a class: `prefetch pages[\"name\"]`");
            return false;
        }
        made.prefetch_kind = ir::PrefetchKind::same;
        made.index = env_.chain->out->source;
        return true;
    }
    if (const auto* call = std::get_if<ast::Call>(&e.node); call && call->receiver && call->callee.text == "sibling")
        return sibling_target(*call, made);
    if (const auto* index = std::get_if<ast::Index>(&e.node)) {
        if (auto files = files_named(*index->base)) return path_target(*index, *files, made);
    }
    if (auto files = files_named(e)) {
        error(prefetch_target, e.span, "which of the files `" + module_.files[*files].info.name + "` is not said",
              "write `" + module_.files[*files].info.name + "[path]`, or `" + module_.files[*files].info.name +
                  ".sibling(r, \".ext\")`");
        return false;
    }
    const std::size_t errors = diags_.error_count();
    Value v = any(e);
    if (diags_.error_count() == errors && (v || !failed_))
        error(prefetch_target, e.span, "this is not a file",
              "prefetch `r.file`, `CLASS.sibling(r, \".ext\")` or `CLASS[path]`");
    return false;
}

bool Checker::sibling_target(const ast::Call& n, checked::Stmt& made) {
    auto files = files_named(*n.receiver);
    if (!files) {
        const auto* name = std::get_if<ast::NameRef>(&n.receiver->node);
        error(unknown_files, n.receiver->span,
              name ? "there is no file class `" + name->name.text + "`" : "`sibling` is asked of a file class",
              suggestion(name ? name->name.text : "", names_of(*env_.scope, SymbolKind::files),
                         "write `CLASS.sibling(r, \".ext\")`"));
        return false;
    }
    if (!arguments(n, 2, 2, "files.sibling(r, \".ext\")")) return false;
    const ast::Expr& file = *n.args[0].value;
    const bool is_event = event_of(file) || is_file_of_event(file);
    if (!is_event || !event_has_file()) {
        error(prefetch_target, file.span, "a sibling of what is not said",
              "give the event, whose file it stands beside: `on read(…) as r`, `sibling(r, \".ext\")`");
        return false;
    }
    Value suffix = bytes(*n.args[1].value, "the new ending");
    if (!suffix) return false;
    if (suffix.expr->kind != ExprKind::bytes_const || suffix.expr->bytes.empty() ||
        suffix.expr->bytes.find('/') != std::string::npos || suffix.expr->bytes.find('\0') != std::string::npos) {
        error(sibling_suffix, n.args[1].value->span, "the ending of a sibling is a constant such as \".bin\"",
              "give an ending without `/`");
        return false;
    }
    made.prefetch_kind = ir::PrefetchKind::sibling;
    made.index = *files;
    made.bytes = suffix.expr->bytes;
    return true;
}

bool Checker::path_target(const ast::Index& n, std::uint32_t files, checked::Stmt& made) {
    Value path = bytes(*n.index, "the path of a file");
    if (!path) return false;
    const ast::FileClass& declared = *files_[files].files;
    if (!declared.root) {
        error(no_root, n.base->span,
              "files `" + declared.name.text + "` have no root, so a path below it means nothing",
              "declare it: files " + declared.name.text + " = \"…\" { root \"/dir\" }",
              {{declared.name.span, "they are declared here"}});
        return false;
    }
    made.prefetch_kind = ir::PrefetchKind::path;
    made.index = files;
    made.value3 = std::move(path.expr);
    return true;
}

// `prefetch via lookup(r.file, root, key)`: the file is the event's, the rest are integers.
bool Checker::via_stmt(const ast::Stmt& s, const ast::PrefetchVia& n, checked::Block& out) {
    if (env_.site != Site::shadow)
        error(prefetch_outside_shadow, s.span, "`prefetch` outside of a shadow chain",
              "a call chain reads with `goto` and `next`");
    return ask(s, n.call ? via_call(*n.call, "prefetch via") : nullptr, out);
}

// What was checked goes into the program where a shadow chain may ask for it; null: it was refused.
bool Checker::ask(const ast::Stmt& s, checked::StmtPtr made, checked::Block& out) {
    if (!made) failed_ = true;
    if (!made || env_.site != Site::shadow) return false;
    made->span = s.span;
    made->line = line_of(s.canonical_line);
    out.push_back(std::move(made));
    return false;
}

checked::StmtPtr Checker::via_call(const ast::Expr& e, const std::string& verb) {
    const auto* call = std::get_if<ast::Call>(&e.node);
    if (!call) {
        error(via_target, e.span, "`" + verb + "` starts a chain", "write `" + verb + " lookup(r.file, key)`");
        return nullptr;
    }
    Symbol* symbol = nullptr;
    if (!call->receiver) {
        symbol = find(*env_.scope, call->callee.text);
    } else if (const auto* module = std::get_if<ast::NameRef>(&call->receiver->node)) {
        Symbol* import = find(*env_.scope, module->name.text);
        if (import && import->kind == SymbolKind::module) {
            import->used = true;
            if (instances_[import->index].incomplete) return nullptr;
            symbol = find(instances_[import->index], call->callee.text);
        }
    }
    if (!symbol) {
        if (env_.scope->is_broken(call->callee.text)) return nullptr;
        error(
            unknown_chain, call->callee.span, "there is no chain `" + call->callee.text + "`",
            suggestion(call->callee.text, names_of(*env_.scope, SymbolKind::chain), "declare the chain, or import it"));
        return nullptr;
    }
    symbol->used = true;
    if (symbol->kind != SymbolKind::chain || module_.chains[symbol->index].mode != ir::ChainMode::call) {
        error(via_target, call->callee.span, "`" + call->callee.text + "` is not a chain with parameters",
              "name a chain that reads a file: `chain lookup(db: file pages, key: u64)`");
        return nullptr;
    }
    return via_arguments_of(*call, symbol->index, verb);
}

checked::StmtPtr Checker::via_arguments_of(const ast::Call& call, std::uint32_t chain_index, const std::string& verb) {
    const checked::Chain& chain = module_.chains[chain_index];
    if (chains_[chain_index].failed) return nullptr;
    std::string form = call.callee.text + "(";
    for (const auto& p : chain.params)
        form += (form.back() == '(' ? "" : ", ") + (p.kind == ir::Param::Kind::file ? "r.file" : p.name);
    form += ")";
    if (!counted(call, chain.params.size(), chain.params.size(), form)) return nullptr;
    auto made = std::make_unique<checked::Stmt>();
    made->kind = StmtKind::prefetch_via;
    made->index = chain_index;
    bool ok = true;
    std::uint32_t files = 0;
    for (std::size_t i = 0; i < call.args.size(); i++) {
        const checked::Param& param = chain.params[i];
        const ast::Arg& arg = call.args[i];
        if (!is_plain(arg)) {
            error(bad_argument, call.callee.span, "an argument of a chain is a value", "write `" + form + "`");
            ok = false;
        } else if (param.kind == ir::Param::Kind::file) {
            ok &= via_file(*arg.value, param, verb);
            if (++files == 2)
                error(via_arguments, arg.value->span, "`" + verb + "` starts chains over one file, that of the event",
                      "give the chain one file parameter");
        } else if (param.kind == ir::Param::Kind::bytes) {
            error(via_arguments, arg.value->span,
                  "`" + verb + "` hands over integers, and `" + param.name + "` is bytes",
                  "give the chain an integer parameter");
            ok = false;
        } else {
            Value v = value(*arg.value);
            if (v && store_as(v, param.type, arg.value->span, "parameter `" + param.name + "`"))
                made->values.push_back(std::move(v.expr));
            else
                ok = false;
        }
    }
    if (made->values.size() > 4) {
        error(via_arguments, call.callee.span,
              "`" + verb + "` hands over at most 4 integers, and these are " + std::to_string(made->values.size()),
              "give the chain fewer parameters");
        ok = false;
    }
    if (files == 0)
        error(via_arguments, call.callee.span, "the chain reads no file of the event",
              "give it a file parameter, and `r.file`");
    return ok ? std::move(made) : nullptr;
}

bool Checker::via_file(const ast::Expr& e, const checked::Param& param, const std::string& verb) {
    if (!is_file_of_event(e) || !event_has_file()) {
        if (is_of_wrong_event(e)) return false;
        error(via_arguments, e.span, "the file of `" + verb + "` is that of the event",
              "write `r.file`, in a chain `on read(…) as r`");
        return false;
    }
    if (env_.chain->out->source == param.file_class) return true;
    error(wrong_source, e.span,
          "`" + param.name + "` is one of the files `" + module_.files[param.file_class].info.name +
              "`, and the event's file is one of `" + module_.files[env_.chain->out->source].info.name + "`",
          "react to reads of the class that the chain reads");
    return false;
}

}  // namespace chainio::sema
