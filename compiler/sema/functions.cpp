// Functions are expanded where they are called: the body is checked afresh with the parameters bound to the arguments.
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::TypeKind;

namespace {

// The record, file or chain names that an argument may be, besides a value.
bool is_plain_name(const ast::Expr& e) { return std::holds_alternative<ast::NameRef>(e.node); }

// The one file that a pattern stands for, `\x` for `x`; nothing where it may stand for several.
std::optional<std::string> only_file(std::string_view pattern) {
    std::string out;
    for (std::size_t i = 0; i < pattern.size(); i++) {
        if (pattern[i] == '*' || pattern[i] == '?' || pattern[i] == '[') return std::nullopt;
        if (pattern[i] == '\\' && i + 1 < pattern.size()) i++;
        out += pattern[i];
    }
    return out;
}

// A function sees nothing of its caller but its arguments.
void mark_given(checked::Expr& sequence) {
    for (checked::Expr* e = &sequence; e->kind == ExprKind::pipeline; e = e->kids[0].get())
        for (checked::Lambda& filter : e->filters) filter.given = true;
}

}  // namespace

// One parameter: a file or an event stands for itself; any other argument is evaluated once, before the body.
bool Checker::bind_argument(const ast::Name& param, const ast::Arg& arg, Binding& out, Lets& lets) {
    out.name = param.text;
    out.span = param.span;
    out.used = true;
    if (!is_plain(arg)) {
        error(bad_argument, arg.value ? arg.value->span : param.span, "an argument of a function is a value",
              "give a value; a lambda cannot be passed");
        return false;
    }
    const ast::Expr& e = *arg.value;
    if (is_plain_name(e)) {
        Binding* b = lookup(std::get<ast::NameRef>(e.node).name.text);
        if (b && (b->kind == Binding::Kind::file || b->kind == Binding::Kind::event_file)) {
            b->used = true;
            out.kind = Binding::Kind::file;
            out.index = b->kind == Binding::Kind::file ? b->index : 0;
            return true;
        }
        if (b && b->kind == Binding::Kind::event) {
            b->used = true;
            out.kind = Binding::Kind::event;
            return true;
        }
    }
    if (const auto* access = std::get_if<ast::FieldAccess>(&e.node);
        access && access->field.text == "file" && event_of(*access->base)) {
        out.kind = Binding::Kind::file;
        return true;
    }
    Value v = value(e);
    if (!v) return false;
    out.kind = Binding::Kind::value;
    checked::ExprPtr first;
    out.value = name_local(std::move(v), param.text, &first);
    if (first) lets.emplace_back(out.value.expr->index, std::move(first));
    return true;
}

Value Checker::call_fn(std::uint32_t index, const ast::Call& n, Span span) {
    FnInfo& fn = fns_[index];
    fn.called = true;
    std::string form = n.callee.text + "(";
    for (const auto& p : fn.fn->params) form += (form.back() == '(' ? "" : ", ") + p.text;
    form += ")";
    if (!counted(n, fn.fn->params.size(), fn.fn->params.size(), form)) return {};
    if (fn.active) {
        error(fn_recursion, n.callee.span, "function `" + n.callee.text + "` calls itself",
              "a function is expanded where it is called, so it cannot; loop with `for`, or use a `step`",
              {{fn.fn->name.span, "it is declared here"}});
        return {};
    }
    if (expansion_depth_ >= kMaxExpansionDepth || ++expansions_ > kMaxExpansions) {
        if (!expansions_reported_) {
            expansions_reported_ = true;
            error(expansion_too_large, span, "the functions called here expand to too much",
                  "call fewer functions from functions: at most " + std::to_string(kMaxExpansionDepth) + " deep, " +
                      std::to_string(kMaxExpansions) + " calls in all");
        }
        failed_ = true;
        return {};
    }
    if (too_deep(levels_, "function `" + n.callee.text + "`", n.callee.span, fn.fn->name.span,
                 "name parts of the expressions with `let`, or call fewer functions from functions"))
        return {};
    return expand(fn, n, span);
}

Value Checker::expand(FnInfo& fn, const ast::Call& n, Span span) {
    std::vector<Binding> params;
    Lets lets;
    bool ok = true;
    for (std::size_t i = 0; i < n.args.size(); i++) {
        Binding b;
        ok &= bind_argument(fn.fn->params[i], n.args[i], b, lets);
        params.push_back(std::move(b));
    }
    if (!ok) return {};
    fn.active = true;
    expansion_depth_++;
    call_notes_.push_back({span, "`" + fn.fn->name.text + "` is called here"});
    Value out;
    {
        Env inside = env_;
        inside.scope = fn.scope;
        inside.base = bindings_.size();
        EnvScope there(*this, inside);
        for (auto& p : params) bind(std::move(p));
        for (const auto& let : fn.fn->lets) {
            Binding b;
            b.name = let.name.text;
            b.span = let.name.span;
            b.unused_code = unused_let;
            Value v = let.value ? value(*let.value) : Value{};
            if (v) {
                checked::ExprPtr first;
                b.kind = Binding::Kind::value;
                b.value = name_local(std::move(v), let.name.text, &first);
                if (first) lets.emplace_back(b.value.expr->index, std::move(first));
            }
            bind(std::move(b));
        }
        if (fn.fn->body)
            out = any(*fn.fn->body);
        else
            failed_ = true;
    }
    call_notes_.pop_back();
    expansion_depth_--;
    fn.active = false;
    if (!out) return out;
    if (is_sequence(out) && !lets.empty()) {
        error(pipeline_misused, span, "a function's value cannot be a sequence over computed arguments",
              "write the sequence where the function is called");
        return {};
    }
    if (is_sequence(out)) mark_given(*out.expr);
    out = wrap(std::move(out), std::move(lets));
    if (out.expr->kind != ExprKind::let_in) out.expr->span = span;
    return out;
}

// A function that nothing calls still has its names looked up: its parameters stand for anything. It is checked as in a
// handler, where everything can stand that can elsewhere, and calls of chains besides.
void Checker::check_unused_fns() {
    for (std::size_t i = 0; i < fns_.size(); i++) {
        FnInfo& fn = fns_[i];
        if (fn.called || !fn.scope) continue;
        constant_locals_.clear();
        EnvScope there(*this, Env{.scope = fn.scope,
                                  .site = Site::handler,
                                  .block = true,
                                  .locals = &constant_locals_,
                                  .base = bindings_.size()});
        const bool failed_before = failed_;
        fn.active = true;
        for (const auto& p : fn.fn->params) bind_error(p);
        failed_ = failed_before;
        const std::size_t errors = diags_.error_count();
        for (const auto& let : fn.fn->lets) {
            if (let.value) value(*let.value);
            bind_error(let.name);
        }
        if (fn.fn->body) any(*fn.fn->body);
        fn.active = false;
        // A parameter that stands for anything makes expressions fail without a report; only reports count.
        failed_ = failed_before || diags_.error_count() != errors;
    }
}

// Reports a name that means nothing where a file class is wanted.
bool Checker::is_unknown_files(const ast::Expr& e) {
    const auto* name = std::get_if<ast::NameRef>(&e.node);
    if (!name || lookup(name->name.text) || is_request_field(name->name) || find(*env_.scope, name->name.text))
        return false;
    failed_ = true;
    if (!name->name.text.empty()) find_qualified({{}, name->name}, unknown_files, "file class");
    return true;
}

// A file argument of a chain: `db` of the caller's own, a class with one file, or `pages["main.idx"]`.
Value Checker::chain_file_argument(const ast::Expr& e, std::uint32_t file_class, const std::string& param) {
    const auto* index = std::get_if<ast::Index>(&e.node);
    const ast::Expr* path = index ? index->index.get() : nullptr;
    const ast::Expr& files = index ? *index->base : e;
    const std::optional<std::uint32_t> named = files_named(files);
    if (!named && is_unknown_files(files)) return {};
    if (!named) {
        error(call_argument, e.span, "`" + param + "` is a file",
              "name a file class, or one of its files: `" + module_.files[file_class].info.name + "[\"name\"]`");
        return {};
    }
    if (*named != file_class) {
        error(wrong_source, e.span,
              "`" + param + "` is one of the files `" + module_.files[file_class].info.name +
                  "`, and this is one of `" + module_.files[*named].info.name + "`",
              "name a file of the class that the chain reads");
        return {};
    }
    const std::optional<std::string> only = path ? std::nullopt : only_file(module_.files[*named].info.pattern);
    if (!path && !only) {
        error(call_argument, e.span, "files `" + module_.files[*named].info.name + "` are many, and one is wanted",
              "say which: `" + module_.files[*named].info.name + "[\"name\"]`");
        return {};
    }
    Value name = path ? bytes(*path, "the name of a file") : bytes_constant(*only, e.span);
    if (!name) return {};
    Value out = make(ExprKind::file_ref, {TypeKind::none}, e.span);
    out.expr->index = *named;
    out.expr->kids.push_back(std::move(name.expr));
    return out;
}

Value Checker::call_chain(std::uint32_t index, const ast::Call& n, Span span) {
    const checked::Chain& chain = module_.chains[index];
    if (env_.site != Site::handler) {
        error(call_outside_handler, n.callee.span, "chain `" + chain.name + "` is called here",
              "a chain is called by a service's handler or through `prefetch via`; inside a chain, `goto` a step of "
              "its own");
        return {};
    }
    if (env_.request && env_.request->datagram) {
        error(call_outside_handler, n.callee.span, "chain `" + chain.name + "` is called in `on datagram`",
              "that only writes what each datagram of the reply begins with; call the chain in `on request`");
        return {};
    }
    if (chain.mode != ir::ChainMode::call) {
        error(wrong_kind, n.callee.span, "`" + chain.name + "` is a shadow chain, which runs by itself",
              "call a chain that has parameters");
        return {};
    }
    std::string form = n.callee.text + "(";
    for (const auto& p : chain.params) form += (form.back() == '(' ? "" : ", ") + p.name;
    form += ")";
    if (chains_[index].failed) {
        failed_ = true;
        return {};
    }
    if (!counted(n, chain.params.size(), chain.params.size(), form)) return {};
    Value out = make(ExprKind::call_chain, chain.returns, span);
    bool ok = true;
    for (std::size_t i = 0; i < n.args.size(); i++) {
        const checked::Param param = chain.params[i];
        const ast::Arg& arg = n.args[i];
        if (!is_plain(arg)) {
            error(bad_argument, n.callee.span, "an argument of a chain is a value", "write `" + form + "`");
            return {};
        }
        Value v;
        if (param.kind == ir::Param::Kind::file) {
            v = chain_file_argument(*arg.value, param.file_class, param.name);
        } else {
            v = value(*arg.value);
            if (v && !store_as(v, param.type, arg.value->span, "parameter `" + param.name + "`")) v = {};
        }
        ok &= static_cast<bool>(v);
        if (v) out.expr->kids.push_back(std::move(v.expr));
    }
    if (!ok) return {};
    out.expr->index = index;
    out.expr->type.optional = true;
    out.place = Place::result;
    return out;
}

}  // namespace chainio::sema
