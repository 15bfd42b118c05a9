// Steps: what each reads by default, and its body.
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::StmtKind;
using checked::Type;
using checked::TypeKind;

std::optional<std::uint32_t> Checker::file_parameter(ChainScope& chain, const ast::Name& name) {
    std::vector<std::string> files;
    for (std::uint32_t i = 0; i < chain.out->params.size(); i++) {
        const checked::Param& param = chain.out->params[i];
        if (param.kind == ir::Param::Kind::file) files.push_back(param.name);
        if (param.name != name.text) continue;
        if (param.kind == ir::Param::Kind::file) return i;
        error(wrong_source, name.span, "`" + name.text + "` is a value, and a file is wanted here",
              files.empty() ? "declare a file parameter: `db: file CLASS`"
                            : "name a file parameter such as `" + files.front() + "`");
        return std::nullopt;
    }
    failed_ = true;
    if (name.text.empty()) return std::nullopt;
    error(unknown_file_parameter, name.span, "the chain has no file parameter `" + name.text + "`",
          suggestion(name.text, files, "declare it: `" + name.text + ": file CLASS`"));
    return std::nullopt;
}

// The only file of the chain, where none is named.
std::optional<std::uint32_t> Checker::default_file(ChainScope& chain, Span span) {
    std::optional<std::uint32_t> found;
    std::string all;
    for (std::uint32_t i = 0; i < chain.out->params.size(); i++) {
        if (chain.out->params[i].kind != ir::Param::Kind::file) continue;
        all += (all.empty() ? "`" : ", `") + chain.out->params[i].name + "`";
        if (found) {
            found.reset();
            for (i++; i < chain.out->params.size(); i++)
                if (chain.out->params[i].kind == ir::Param::Kind::file) all += ", `" + chain.out->params[i].name + "`";
            error(ambiguous_file, span, "the chain has several files, and which one this reads is not said",
                  "add `in NAME`: one of " + all);
            return std::nullopt;
        }
        found = i;
    }
    if (!found && !chain.no_file) {
        chain.no_file = true;
        error(no_file_parameter, chain.ast->name.span, "chain `" + chain.ast->name.text + "` has no file to read",
              "give it one: `chain " + chain.ast->name.text + "(db: file CLASS, …)`");
    }
    return found;
}

void Checker::declare_steps(ChainScope& chain) {
    for (std::uint32_t i = 0; i < chain.ast->steps.size(); i++) {
        const ast::Step& n = chain.ast->steps[i];
        auto [it, fresh] = chain.steps.try_emplace(n.name.text, i);
        if (!fresh && !n.name.text.empty()) {
            error(duplicate_name, n.name.span, "the chain has two steps `" + n.name.text + "`", "rename one of the two",
                  {{chain.ast->steps[it->second].name.span, "the first is here"}});
        }
        // Only the first step must name one of several files: a goto to another may say which.
        chain.step_files.push_back(n.file   ? file_parameter(chain, *n.file)
                                   : i == 0 ? default_file(chain, n.name.span)
                                            : std::nullopt);
    }
}

// What a step declares ends with it: a name that is not known here may be that of a step which was checked before.
bool Checker::is_of_other_step(const ChainScope& chain, const ast::Name& name) {
    const auto found = chain.step_names.find(name.text);
    if (found == chain.step_names.end() || found->second.step == chain.step_ends.size()) return false;
    const std::string step = "step `" + chain.ast->steps[found->second.step].name.text + "`";
    error(unknown_name, name.span, "`" + name.text + "` is known in " + step + " only",
          "`state { … }` carries values from step to step: declare a variable there, and set it in " + step,
          {{found->second.span, "it is declared here"}});
    return true;
}

// The defaults of a step. Those of the first are the chain's first read and go into the entry; the others are checked
// here once, so that what is wrong with them is reported once and at the declaration.
void Checker::step_read(ChainScope& chain, const ast::Step& n, checked::Step& out, bool entry) {
    std::vector<checked::Local> scratch;
    EnvScope there(*this, chain_env(chain, Site::signature, false, entry ? &out.body.locals : &scratch));
    if (n.at) out.at = read_offset(*n.at);
    if (n.length) out.length = read_length(*n.length);
    if (!entry) {
        if (out.at)
            warn(place_ignored, n.at->span,
                 "the `at` of step `" + n.name.text + "` is never used: `goto` and `next` say where their reads begin",
                 "remove it; only the first step has an `at`, where the chain begins to read");
        out.at.reset();
        out.length.reset();
        return;
    }
    if (n.at && n.length) return;
    const char* missing = !n.at && !n.length ? "`at` and `for`" : !n.at ? "`at`" : "`for`";
    error(entry_without_read, n.name.span,
          "the first step says where the chain begins to read, and this one has no " + std::string(missing),
          "write `step " + n.name.text + "(" + n.param.text + ": … at 0 for 4KiB)`");
}

void Checker::check_step(ChainScope& chain, std::uint32_t index) {
    const ast::Step& n = chain.ast->steps[index];
    checked::Step& out = chain.out->steps[index];
    out.name = n.name.text;
    out.span = n.name.span;
    out.line = line_of(n.canonical_line);
    out.file = chain.step_files[index].value_or(0);
    step_read(chain, n, out, index == 0);
    Env inside = chain_env(chain, Site::step, true, &out.body.locals);
    inside.file = chain.step_files[index];
    EnvScope there(*this, inside);
    Binding b;
    b.name = n.param.text;
    b.span = n.param.span;
    b.used = true;  // a step need not look at what it has read by this name
    b.kind = Binding::Kind::value;
    std::optional<std::uint32_t> view;
    if (n.record) {
        view = record_named(*n.record);
        if (view && !record(*view, n.record->name.span)) view.reset();
        if (!view) failed_ = true;
    }
    Type type{TypeKind::bytes};
    type.max = static_cast<std::uint32_t>(kMaxBlock);
    if (view) {
        type = {TypeKind::view};
        type.record = *view;
    }
    out.record = view;
    out.view_local = new_local(n.param.text, type, false);
    b.value = make(ExprKind::local, type, n.param.span);
    b.value.expr->index = out.view_local;
    if (!view) b.value.place = Place::block;
    if (n.record && !view) b.kind = Binding::Kind::error;
    if (n.from) {
        Value from = offset_value(*n.from, "where in the block the record begins");
        settle(from);
        out.from = std::move(from.expr);
        if (!n.record && out.from) {
            error(bad_modifier, n.from->span, "`from` says where a record begins, and this step takes the whole block",
                  "take a slice in the body, or name a record");
        }
    }
    if (!n.param.text.empty()) bind(std::move(b));
    chain.step_ends.push_back(block(n.body, out.body.block));
    const std::uint64_t reads = least(out.body.block, StmtKind::next, StmtKind::next);
    if (reads > kMaxNext) {
        error(too_many_next, n.name.span,
              "step `" + n.name.text + "` queues at least " + std::to_string(reads) + " reads",
              "a step queues at most 16; let the steps of those reads queue more");
    }
}

}  // namespace chainio::sema
