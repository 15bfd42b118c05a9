// File classes, sockets, priority classes, batching and probes.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "compiler/ir/patterns.h"
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Type;
using checked::TypeKind;

// Whoever looks for the name ends it there, and would find another one.
void Checker::no_nul(const std::string& name, Span span, const std::string& what) {
    if (name.contains('\0')) error(nul_in_name, span, what + " has a byte 0 in it", "remove it: no name has one");
}

void Checker::check_files(std::uint32_t index) {
    const FilesInfo info = files_[index];
    const ast::FileClass& n = *info.files;
    checked::FileClass& out = module_.files[index];
    out.info.direct = n.direct;
    out.info.immutable = n.immutable;
    out.info.no_read_ahead = n.no_read_ahead;
    const bool said = n.pattern_span.file == 0 || diags_.reported_at(n.pattern_span);  // by the front end
    if (out.info.pattern.empty() && !said)
        error(empty_pattern, n.pattern_span, "the pattern of files `" + n.name.text + "` is empty",
              "write a glob such as \"*.idx\"");
    if (!said) no_nul(out.info.pattern, n.pattern_span, "the pattern of files `" + n.name.text + "`");
    if (n.root) {
        no_nul(*n.root, n.name.span, "the root of files `" + n.name.text + "`");
        if (out.info.root.empty()) out.info.root = *n.root;  // -D has chosen another
        if (!n.root->starts_with('/'))
            error(relative_root, n.name.span,
                  "the root of files `" + n.name.text + "` is \"" + *n.root + "\", which is not absolute",
                  "begin it with `/`: what it is must not depend on where a program runs");
    }
    if (n.index) check_index(n, info.scope, out.info);
    EnvScope there(
        *this, Env{.scope = info.scope, .site = Site::constant, .locals = &constant_locals_, .base = bindings_.size()});
    if (n.cache_bytes) {
        auto bytes = here_uint(*n.cache_bytes, "the size of a cache", 4096, 1ULL << 40, cache_size, ast::Unit::bytes);
        if (bytes) out.info.cache_bytes = *bytes;
        out.info.cache_levels = 1;
        if (n.cache_levels) {
            auto levels = here_uint(*n.cache_levels, "the number of cached levels", 1, 64, cache_size);
            if (levels) out.info.cache_levels = static_cast<std::uint32_t>(*levels);
        }
        if (!n.immutable)
            error(cache_not_immutable, n.cache_bytes->span,
                  "files `" + n.name.text + "` may change, so their blocks cannot be kept",
                  "add `immutable` when the bytes never change while a file is open, else remove `cache`");
    }
    if (!info.header) return;
    check_given_headers(index);
    env_.scope = info.header_scope;
    Symbol* symbol = symbol_of({{}, *info.header}, SymbolKind::record, unknown_record, "record");
    if (!symbol || !record(symbol->index, info.header->span)) return;
    const checked::Record& header = module_.records[symbol->index];
    out.header_record = static_cast<std::int32_t>(symbol->index);
    out.header_span = info.header->span;
    if (header.fixed_size < 0 && !records_[symbol->index].failed) {
        error(header_not_fixed, info.header->span, "the header `" + header.name + "` has no fixed size",
              "give every field of a header a fixed size, or end it with `_: at N`, so that it is known how much of a "
              "file to read",
              {{records_[symbol->index].span, "the record is declared here"}});
    }
    // The numbers behind them mean what no field is, such as the file's length.
    if (header.fields.size() > ir::kLastMarkField)
        error(program_too_large, info.header->span,
              "the header `" + header.name + "` has " + std::to_string(header.fields.size()) +
                  " fields; the limit is " + std::to_string(ir::kLastMarkField),
              "give several bytes that nothing reads one field: `_: bytes(N)`",
              {{records_[symbol->index].span, "the record is declared here"}});
    const auto named = [&](std::string_view name) {
        const auto it = records_[symbol->index].by_name.find(name);
        return it == records_[symbol->index].by_name.end() ? nullptr : &header.fields[it->second];
    };
    if (const auto* ahead = named("read_ahead"))
        error(reserved_name, ahead->span, "`read_ahead` of a header means how far the kernel reads ahead",
              "choose another name");
    const auto* size = named(ir::kFileSizeName);
    if (!size || size->type.kind == TypeKind::none) return;
    if (size->type.kind != TypeKind::integer || size->type.is_signed)
        error(reserved_name, size->span, "`file_size` of a header is how long the file has to be",
              "make it an unsigned integer, or choose another name");
}

// What a path of a folder means has to lie in that folder.
void Checker::check_index(const ast::FileClass& n, Instance* scope, ir::FileClass& out) {
    const Span span = n.index->span;
    const std::string what = "the index of files `" + n.name.text + "`";
    if (!n.root)
        error(index_without_root, span, "files `" + n.name.text + "` have an index, and no root below which paths lie",
              "add `root \"/dir\"`, or remove `index`", {{n.name.span, "they are declared here"}});
    const Value name = constant_expr(*n.index, scope);
    if (!name) return;
    if (name.expr->type.kind != TypeKind::bytes)
        return void(wrong(name, span, "bytes", what, "give a name such as \"index.html\""));
    out.index = name.expr->bytes;
    if (out.index.contains('\0')) return no_nul(out.index, span, what);
    if (const char* why = ir::why_no_file_name(out.index))
        error(bad_index, span, what + " " + why,
              "give the name that the file has in its folder, such as \"index.html\"");
}

namespace {

// `{a,b}`, which stands for two names in a shell, and for itself in a pattern.
bool means_alternation(std::string_view pattern) {
    const std::size_t open = pattern.find('{'), comma = pattern.find(',', open), close = pattern.find('}', comma);
    return close != std::string_view::npos && (open == 0 || pattern[open - 1] != '\\');
}

}  // namespace

// Chains on a class to which no file can belong never run, and nobody sees why. A file belongs to the first class whose
// pattern its path matches.
void Checker::warn_patterns() {
    if (failed_ || diags_.has_errors()) return;  // a chain may be on what is not there
    for (const ast::MatchExe* match : matches_)
        if (means_alternation(match->pattern))
            warn(pattern_matches_nothing, match->span,
                 "the pattern \"" + match->pattern +
                     "\" has braces, which stand for themselves and for no choice of names",
                 "write a `match exe` for each name");
    std::set<std::uint32_t> sources;
    for (const checked::Chain& chain : module_.chains)
        if (chain.mode == ir::ChainMode::on_read || chain.mode == ir::ChainMode::on_open) sources.insert(chain.source);
    std::map<std::string, std::uint32_t> taken;  // patterns, and the classes that have them
    for (const std::uint32_t i : sources) {
        const ir::FileClass& own = module_.files[i].info;
        const auto [before, is_first] = taken.try_emplace(own.pattern, i);
        if (const auto instead = ir::anywhere_instead_of(own.pattern))
            warn(pattern_matches_nothing, files_[i].files->name.span,
                 "the pattern of files `" + own.name + "`, \"" + own.pattern +
                     "\", is compared with whole paths, which begin with `/`, and does not begin so",
                 "write \"" + *instead + "\" for any folder, or the path from `/` on");
        else if (means_alternation(own.pattern))
            warn(pattern_matches_nothing, files_[i].files->name.span,
                 "the pattern of files `" + own.name + "`, \"" + own.pattern +
                     "\", has braces, which stand for themselves and for no choice of names",
                 "declare a class, and a chain, for each name; or write `*`, `?` or `[…]` for what differs");
        else if (!is_first)
            warn_same_pattern(i, before->second);
    }
}

// Where one of the two has come in by an import, that is the place; what is so within one import is said where that
// file is compiled.
void Checker::warn_same_pattern(std::uint32_t second, std::uint32_t first) {
    const ast::Import* import = files_[second].scope->root_import();
    const ast::Import* const other = files_[first].scope->root_import();
    if (import != nullptr && import == other) return;
    const Span span = files_[second].files->name.span;
    warn(pattern_matches_nothing, import != nullptr ? import->path_span : span,
         "no file is one of the files `" + module_.files[second].info.name + "`: `" + module_.files[first].info.name +
             "` have the same pattern, and a file belongs to the first class that it matches",
         "let the chains be on one of the two classes");
}

// What names a class or a socket in the artifact has 16 bits.
void Checker::check_numbers() {
    const std::string hint = "split it into several specs";
    if (files_.size() > kMaxClasses)
        error(program_too_large, files_[kMaxClasses].files->name.span,
              "the spec has " + std::to_string(files_.size()) + " file classes; the limit is " +
                  std::to_string(kMaxClasses),
              hint);
    if (module_.sockets.size() <= kMaxClasses) return;
    const auto first = std::ranges::find(socket_numbers_, kMaxClasses);
    error(program_too_large, sockets_[static_cast<std::size_t>(first - socket_numbers_.begin())].first->name.span,
          "the spec has " + std::to_string(module_.sockets.size()) + " sockets; the limit is " +
              std::to_string(kMaxClasses),
          hint);
}

void Checker::check_socket(std::uint32_t index) {
    const auto [n, scope] = sockets_[index];
    if (!n->port) return;
    auto port = constant_uint(*n->port, scope, "the port", 1, 65535, port_range);
    if (port) module_.sockets[index].port = static_cast<std::uint16_t>(*port);
}

// p50, p99, p999: the digits after the first two are decimals.
std::optional<std::uint32_t> Checker::percentile(const ast::Name& name) {
    const std::string& text = name.text;
    std::uint32_t value = 0, scale = 10000;
    bool ok = text.size() >= 3 && text.size() <= 6 && text[0] == 'p';
    for (std::size_t i = 1; ok && i < text.size(); i++) {
        ok = text[i] >= '0' && text[i] <= '9';
        value += static_cast<std::uint32_t>(text[i] - '0') * scale;
        scale /= 10;
    }
    if (ok && value >= 50000) return value;
    error(bad_percentile, name.span, "`" + text + "` is not a percentile",
          "write p50 to p99, or with decimals p999 (99.9 %) and p9999");
    return std::nullopt;
}

void Checker::check_class(const ast::PriorityClass& n, ir::PriorityClass& out, Instance& scope) {
    bool seen_priority = false, seen_weight = false;
    for (const auto& attr : n.attrs) {
        if (!attr.value) continue;
        if (attr.kind == ast::ClassAttr::Kind::priority) {
            if (seen_priority)
                error(duplicate_slo, attr.value->span, "the priority of class `" + n.name.text + "` is given twice",
                      "keep one of the two");
            seen_priority = true;
            if (auto v = constant_uint(*attr.value, &scope, "the priority", 0, 7, priority_range))
                out.priority = static_cast<std::uint32_t>(*v);
        } else if (attr.kind == ast::ClassAttr::Kind::weight) {
            if (seen_weight)
                error(duplicate_slo, attr.value->span, "the weight of class `" + n.name.text + "` is given twice",
                      "keep one of the two");
            seen_weight = true;
            if (auto v = constant_uint(*attr.value, &scope, "the weight", 1, 1000, weight_range))
                out.weight = static_cast<std::uint32_t>(*v);
        } else {
            auto p = percentile(attr.percentile);
            auto ns = constant_uint(*attr.value, &scope, "the objective", 1, 3600ULL * 1000000000, out_of_range,
                                    ast::Unit::time);
            if (!p || !ns) continue;
            if (std::ranges::any_of(out.slos, [&](const auto& slo) { return slo.percentile_x1000 == *p; }))
                error(duplicate_slo, attr.percentile.span,
                      "class `" + n.name.text + "` has two objectives for " + attr.percentile.text,
                      "keep one of the two");
            out.slos.push_back({*p, *ns});
            warn(objective_recorded, attr.percentile.span,
                 "the objective " + attr.percentile.text + " of class `" + n.name.text +
                     "` is recorded; nothing enforces it yet",
                 "it is written into the artifact for runtimes that will");
        }
    }
}

ir::Batch Checker::check_batch(const ast::Batch& n, Instance& scope) {
    ir::Batch out;
    if (n.min)
        if (auto v = constant_uint(*n.min, &scope, "the smallest batch", 1, 4096, batch_range))
            out.min = static_cast<std::uint32_t>(*v);
    if (n.max)
        if (auto v = constant_uint(*n.max, &scope, "the largest batch", 1, 4096, batch_range))
            out.max = static_cast<std::uint32_t>(*v);
    out.adapt = n.adapt;
    if (out.min > out.max)
        error(batch_range, n.span,
              "a batch of at least " + std::to_string(out.min) + " and at most " + std::to_string(out.max),
              "make `min` no larger than `max`");
    return out;
}

std::int32_t Checker::class_named(const ast::Name& name) {
    if (name.text.empty()) {
        failed_ = true;
        return -1;
    }
    for (Instance* at = env_.scope; at; at = at->importer) {
        // A library may leave its classes to the spec that imports it.
        auto it = at->classes.find(name.text);
        if (it == at->classes.end()) continue;
        it->second.owner->serves = true;
        return static_cast<std::int32_t>(class_numbers_[it->second.index]);
    }
    failed_ = true;
    if (env_.scope->is_broken(name.text)) return -1;
    std::vector<std::string> names;
    for (const auto& [word, index] : env_.scope->classes) names.emplace_back(word);
    error(unknown_class, name.span, "there is no class `" + name.text + "`",
          suggestion(name.text, names, "declare it: `class " + name.text + " { priority 0 }`"));
    return -1;
}

// The type of a probe's argument: an integer, or a C string.
std::optional<Type> Checker::probe_type(const ast::Type& n) {
    if (const auto* cstr = std::get_if<ast::CstrType>(&n.base); cstr && !n.count) {
        auto max = cstr->max ? here_uint(*cstr->max, "the bound of a cstr", 1, 4096, out_of_range, ast::Unit::bytes)
                             : std::nullopt;
        if (!max) return std::nullopt;
        if (cstr->stop) {
            error(probe_argument, cstr->stop->span, "what a program holds ends with a NUL", "write cstr(max N)");
            return std::nullopt;
        }
        Type out{TypeKind::bytes};
        out.max = static_cast<std::uint32_t>(*max);
        return out;
    }
    const auto* named = std::get_if<ast::NamedType>(&n.base);
    if (named && !n.count && named->name.module.text.empty())
        return scalar_type(named->name.name, "an argument of a probe", false);
    error(probe_argument, n.span, "an argument of a probe is an integer or a cstr(max N)",
          "write `path: cstr(max 256)` or `size: u64`");
    return std::nullopt;
}

void Checker::check_probe_limits(std::uint32_t index) {
    const ast::Probe& n = *probes_[index].first;
    if (index == kMaxProbes)
        error(probe_limit, n.name.span, "the spec has " + std::to_string(probes_.size()) + " probes",
              "a spec has at most 32; split it");
    const bool is_syscall = n.kind.text == "syscall";
    const std::size_t most = is_syscall ? kMaxSyscallArgs : kMaxProbeArgs;
    if (n.args.size() > most)
        error(probe_limit, n.args[most].first.span, "the probe has " + std::to_string(n.args.size()) + " arguments",
              is_syscall ? "a system call has at most 6" : "a probe has at most 12; leave out those at the end");
}

void Checker::check_probe(std::uint32_t index) {
    const auto [n, scope] = probes_[index];
    ir::Probe& out = module_.probes[index];
    EnvScope there(*this,
                   Env{.scope = scope, .site = Site::constant, .locals = &constant_locals_, .base = bindings_.size()});
    out.kind = n->kind.text;
    out.site = n->site;
    no_nul(n->site, n->site_span, "where the probe is");
    static const std::vector<std::string> kinds{"usdt", "uprobe", "syscall"};
    const auto said = [this](Span span) { return span.file == 0 || diags_.reported_at(span); };  // by the front end
    if (said(n->kind.span)) {
        // Without a kind nothing says what a site looks like.
    } else if (std::ranges::find(kinds, n->kind.text) == kinds.end()) {
        error(unknown_probe_kind, n->kind.span, "there is no probe kind `" + n->kind.text + "`",
              suggestion(n->kind.text, kinds, "probes are usdt, uprobe and syscall"));
    } else if (!said(n->site_span)) {
        const auto colon = n->site.find(':');
        const bool pair = colon != std::string::npos && colon > 0 && colon + 1 < n->site.size();
        const bool plain = colon == std::string::npos && !n->site.empty();
        if (n->kind.text == "syscall" ? !plain : !pair) {
            error(bad_site, n->site_span, "\"" + n->site + "\" does not say where the probe is",
                  n->kind.text == "syscall" ? "name a system call: \"openat\""
                  : n->kind.text == "usdt"  ? "write \"provider:name\""
                                            : "write \"library:symbol\"");
        }
    }
    check_probe_limits(index);
    std::set<std::string_view> names;
    for (const auto& arg : n->args) {
        if (!names.insert(arg.first.text).second)
            error(duplicate_name, arg.first.span, "the probe has two arguments `" + arg.first.text + "`",
                  "rename one of the two");
        auto type = probe_type(arg.second);
        if (!type) continue;
        const bool cstr = type->kind == TypeKind::bytes;
        out.args.push_back({arg.first.text, type->bits, type->is_signed, cstr, cstr ? type->max : 0});
    }
}

bool Checker::target_has(unsigned major, unsigned minor) const {
    return !target_ || target_->first > major || (target_->first == major && target_->second >= minor);
}

// `--target=linux-6.1`: what that kernel does not have is refused.
void Checker::check_target() {
    const std::string& text = options_.target;
    if (text.empty()) return;
    unsigned major = 0, minor = 0;
    if (std::sscanf(text.c_str(), "linux-%u.%u", &major, &minor) == 2 && major < 1000 && minor < 1000) {
        target_ = {major, minor};
        return;
    }
    error(bad_target, {}, "--target=" + text + " is not a kernel release", "write --target=linux-6.1");
}

// The oldest engine runs every chain, so one message tells of all.
void Checker::check_target_of_chains() {
    if (chains_.empty() || target_has(5, 19)) return;
    const ast::Name& name = chains_.front().chain->name;
    error(
        target_too_old, name.span,
        "the user engine, which runs chain `" + name.text + "`, needs Linux 5.19, and the target is " + options_.target,
        "raise --target");
}

}  // namespace chainio::sema
