// Declarations of a file: which names it has, before any of them is looked into.
#include <algorithm>
#include <array>

#include "compiler/sema/checker.h"

namespace chainio::sema {
namespace {

// The folder that all files of an absolute pattern are in; empty for others.
std::string folder_of(const std::string& pattern) {
    if (!pattern.starts_with('/')) return {};
    const std::size_t end = pattern.rfind('/', pattern.find_first_of("*?[\\"));
    return end == 0 ? "/" : pattern.substr(0, end);
}

// Words that mean something in an expression or a type, so that a declaration of that name could never be used.
bool is_reserved(std::string_view name) {
    static constexpr std::array<std::string_view, 9> words{
        "crc32c", "xxh64", "fnv1a", "varint_leb128", "varint_zigzag", "varint_sqlite", "bool", "event", "self"};
    return std::ranges::find(words, name) != words.end() || parse_scalar(name).has_value();
}

const char* kind_word(SymbolKind kind) {
    switch (kind) {
        case SymbolKind::constant: return "a constant";
        case SymbolKind::files: return "a file class";
        case SymbolKind::socket: return "a socket";
        case SymbolKind::record: return "a record";
        case SymbolKind::text: return "a text rule";
        case SymbolKind::fn: return "a function";
        case SymbolKind::chain: return "a chain";
        case SymbolKind::service: return "a service";
        case SymbolKind::probe: return "a probe";
        case SymbolKind::module: return "an import";
    }
    return "a name";
}

}  // namespace

Instance* Checker::new_instance(const ast::File& file, std::string name, std::string prefix, Instance* importer) {
    Instance& made = instances_.emplace_back();
    made.file = &file;
    made.prefix = std::move(prefix);
    made.importer = importer;
    auto it = std::ranges::find(module_.sources, name);
    made.source = static_cast<std::uint16_t>(it - module_.sources.begin());
    if (it == module_.sources.end()) module_.sources.push_back(name);
    made.name = std::move(name);
    return &made;
}

Symbol* Checker::declare(Instance& scope, SymbolKind kind, const ast::Name& name, std::uint32_t index) {
    if (name.text.empty()) return nullptr;  // the parser has reported it
    if (is_reserved(name.text)) {
        error(reserved_name, name.span, "`" + name.text + "` is a word of the language", "choose another name");
    }
    Symbol& symbol = symbols_.emplace_back();
    symbol = {kind, name.text, name.span, &scope, index, false};
    auto [it, fresh] = scope.names.try_emplace(name.text, &symbol);
    if (!fresh) {
        error(duplicate_name, name.span, "`" + name.text + "` is declared twice", "rename one of the two",
              {{it->second->span, std::string("the first is ") + kind_word(it->second->kind) + ", here"}});
    }
    return &symbol;
}

namespace {

// The number that a literal says, with or without `-`.
std::optional<Wide> literal_number(const ast::Expr& e) {
    if (const auto* literal = std::get_if<ast::IntLit>(&e.node)) return static_cast<Wide>(literal->value);
    const auto* unary = std::get_if<ast::Unary>(&e.node);
    if (!unary || unary->op != ast::UnaryOp::negate) return std::nullopt;
    const auto* literal = std::get_if<ast::IntLit>(&unary->operand->node);
    return literal ? std::optional(-static_cast<Wide>(literal->value)) : std::nullopt;
}

}  // namespace

std::uint32_t Checker::add_constant(Instance& scope, const ast::Name& name, const ast::ExprPtr& written) {
    constants_.push_back({&name, written.get(), &scope, Progress::open, {}, {}});
    return static_cast<std::uint32_t>(constants_.size() - 1);
}

// Values are known here where they are literals; what is wrong with one is reported where the record is resolved.
void Checker::declare_choices(Instance& scope, const ast::Record& record) {
    for (const auto& field : record.fields) {
        for (const auto& item : field.choices) {
            if (!item.value) continue;
            Choice choice{record.name.text, &scope, 0, {}};
            if (const auto number = literal_number(*item.value))
                choice.number = *number;
            else
                choice.constant = add_constant(scope, item.name, item.value);
            add_choice(scope, item.name.text, choice);
        }
    }
}

void Checker::add_choice(Instance& scope, std::string_view name, const Choice& choice) {
    std::vector<Choice>& all = scope.choices[name];
    const bool is_known = std::ranges::any_of(
        all, [&](const Choice& other) { return other.constant == choice.constant && other.number == choice.number; });
    // Two numbers are enough to be ambiguous, however many imports bring others.
    const auto literals = std::ranges::count_if(all, [](const Choice& other) { return !other.constant; });
    if (!is_known && literals < 2) all.push_back(choice);
}

// The constant that stands for the value of a name, when it is no literal.
std::optional<std::uint32_t> Checker::constant_of(const ast::EnumItem& item) const {
    const auto it = env_.scope->choices.find(item.name.text);
    if (it == env_.scope->choices.end()) return std::nullopt;
    for (const Choice& choice : it->second)
        if (choice.constant && constants_[*choice.constant].name == &item.name &&
            constants_[*choice.constant].scope == env_.scope)
            return choice.constant;
    return std::nullopt;
}

void Checker::add_files(Instance& scope, const ast::FileClass& files) {
    auto index = static_cast<std::uint32_t>(files_.size());
    files_.push_back({&files, &scope, files.header ? &*files.header : nullptr, &scope, {}});
    ir::FileClass& info = module_.files.emplace_back().info;
    info.name = scope.prefix + files.name.text;
    info.pattern = files.pattern;
    declare(scope, SymbolKind::files, files.name, index);
}

void Checker::declare_param(Instance& scope, const ast::Param& param) {
    if (!param.files) {
        const std::uint32_t index = add_constant(scope, param.constant.name, param.constant.value);
        declare(scope, SymbolKind::constant, param.constant.name, index);
        auto it = scope.given.find(param.constant.name.text);
        if (it == scope.given.end()) return;
        it->second.used = true;
        if (it->second.value) {
            constants_.back().value = clone(*it->second.value);
            constants_.back().progress = Progress::done;
            constants_.back().defines = it->second.defines;
        } else {
            error(binding_kind, it->second.span,
                  "`" + param.constant.name.text + "` is a constant, and a file class was given",
                  "give a number, for example `" + param.constant.name.text + " = 64`");
        }
        return;
    }
    const ast::FileClass& files = *param.files;
    auto it = scope.given.find(files.name.text);
    if (it != scope.given.end()) {
        it->second.used = true;
        if (it->second.files) {
            declare(scope, SymbolKind::files, files.name, *it->second.files);
            FilesInfo& stands_in = files_[*it->second.files];
            if (!files.header || (stands_in.header && stands_in.given.empty())) return;
            stands_in.given.push_back({&*files.header, &scope, it->second.span});
            stands_in.header = stands_in.given.front().header;
            stands_in.header_scope = stands_in.given.front().scope;
            return;
        }
        if (!it->second.pattern && !it->second.wrong) {
            error(binding_kind, it->second.span, "`" + files.name.text + "` is a file class, and a constant was given",
                  "name a `files` class of this file: `" + files.name.text + " = pages`");
        }
    }
    add_files(scope, files);
    if (it == scope.given.end() || !it->second.pattern) return;
    module_.files.back().info.pattern = *it->second.pattern;
    if (files.root) module_.files.back().info.root = folder_of(*it->second.pattern);
}

void Checker::declare_app(Instance& scope, const ast::App& app) {
    if (app_ && app_ != &app) {
        error(duplicate_app, app.name.span, "a spec has one `app`, and this is a second one",
              "move its items into the first", {{app_->name.span, "the first is here"}});
    } else {
        app_ = &app;
        module_.app = app.name.text;
    }
    scope.serves = true;
    for (const auto& item : app.items) declare_app_item(scope, item);
}

void Checker::declare_app_item(Instance& scope, const ast::AppItem& item) {
    scope.serves |= std::holds_alternative<ast::MatchExe>(item.node) || std::holds_alternative<ast::Batch>(item.node);
    if (const auto* match = std::get_if<ast::MatchExe>(&item.node)) {
        if (match->pattern.empty())
            error(empty_pattern, match->span, "the pattern of `match exe` is empty",
                  "write a glob such as \"kvstore*\"");
        no_nul(match->pattern, match->span, "the pattern of `match exe`");
        if (matches_.insert(match).second) module_.match_exe.push_back(match->pattern);
    } else if (const auto* files = std::get_if<ast::FileClass>(&item.node)) {
        add_files(scope, *files);
    } else if (const auto* socket = std::get_if<ast::Socket>(&item.node)) {
        auto index = static_cast<std::uint32_t>(sockets_.size());
        sockets_.emplace_back(socket, &scope);
        module_.sockets.push_back({socket->name.text, socket->tcp, 0});
        declare(scope, SymbolKind::socket, socket->name, index);
    } else if (const auto* cls = std::get_if<ast::PriorityClass>(&item.node)) {
        const auto number = static_cast<std::uint32_t>(module_.classes.size());
        const bool fresh = scope.classes.try_emplace(cls->name.text, ClassName{number, &scope}).second;
        if (!fresh)
            error(duplicate_name, cls->name.span, "class `" + cls->name.text + "` is declared twice",
                  "rename one of the two");
        module_.classes.emplace_back().name = cls->name.text;
        classes_.emplace_back(cls, &scope);
    } else if (const auto* batch = std::get_if<ast::Batch>(&item.node)) {
        if (batches_.empty() || batches_.front().first == batch)
            batches_.emplace_back(batch, &scope);
        else
            error(duplicate_name, batch->span, "`batch` is given twice", "keep one of the two");
    }
}

void Checker::declare_item(Instance& scope, const ast::Item& item) {
    const auto next = [](const auto& table) { return static_cast<std::uint32_t>(table.size()); };
    if (const auto* param = std::get_if<ast::Param>(&item.node)) {
        declare_param(scope, *param);
    } else if (const auto* constant = std::get_if<ast::Const>(&item.node)) {
        const std::uint32_t index = add_constant(scope, constant->binding.name, constant->binding.value);
        declare(scope, SymbolKind::constant, constant->binding.name, index);
    } else if (const auto* record = std::get_if<ast::Record>(&item.node)) {
        RecordInfo& info = records_.emplace_back();
        info.fields = &record->fields;
        info.scope = &scope;
        info.span = record->name.span;
        module_.records.emplace_back().name = record->name.text;
        declare(scope, SymbolKind::record, record->name, next(records_) - 1);
        declare_choices(scope, *record);
    } else if (const auto* text = std::get_if<ast::TextRule>(&item.node)) {
        texts_.push_back({text, &scope});
        module_.texts.emplace_back().name = text->name.text;
        declare(scope, SymbolKind::text, text->name, next(texts_) - 1);
    } else if (const auto* fn = std::get_if<ast::Fn>(&item.node)) {
        fns_.push_back({fn, &scope, false, false});
        declare(scope, SymbolKind::fn, fn->name, next(fns_) - 1);
    } else if (const auto* chain = std::get_if<ast::Chain>(&item.node)) {
        chains_.push_back({chain, &scope, false});
        module_.chains.emplace_back().name = scope.prefix + chain->name.text;
        declare(scope, SymbolKind::chain, chain->name, next(chains_) - 1);
    } else if (const auto* service = std::get_if<ast::Service>(&item.node)) {
        services_.emplace_back(service, &scope);
        module_.services.emplace_back().name = scope.prefix + service->name.text;
        declare(scope, SymbolKind::service, service->name, next(services_) - 1);
    } else if (const auto* probe = std::get_if<ast::Probe>(&item.node)) {
        probes_.emplace_back(probe, &scope);
        module_.probes.emplace_back().name = scope.prefix + probe->name.text;
        declare(scope, SymbolKind::probe, probe->name, next(probes_) - 1);
    }
}

// The files come before what names them, and imports after the file's own names, so that `with` can use its constants.
void Checker::declare_file(Instance& scope) {
    for (const auto& item : scope.file->items) declare_item(scope, item);
    for (const auto& item : scope.file->items) {
        if (const auto* app = std::get_if<ast::App>(&item.node)) declare_app(scope, *app);
        if (const auto* app_item = std::get_if<ast::AppItem>(&item.node)) declare_app_item(scope, *app_item);
    }
    check_given(scope);
    import_files(scope);
}

Symbol* Checker::find(Instance& scope, std::string_view name) {
    auto it = scope.names.find(name);
    return it == scope.names.end() ? nullptr : it->second;
}

std::vector<std::string> Checker::names_of(Instance& scope, std::optional<SymbolKind> kind) {
    std::vector<std::string> out;
    if (unseen()) return out;
    for (const auto& [name, symbol] : scope.names)
        if (!kind || symbol->kind == *kind) out.emplace_back(name);
    return out;
}

// `alias.name` as an expression: the symbol of that import. Null when the base is not an import, or the import has no
// such name; the latter is reported unless `quiet`.
Symbol* Checker::find_member(const ast::Expr& e, bool quiet) {
    const auto* access = std::get_if<ast::FieldAccess>(&e.node);
    if (!access) return nullptr;
    const auto* base = std::get_if<ast::NameRef>(&access->base->node);
    if (!base || lookup(base->name.text)) return nullptr;
    Symbol* module = env_.scope ? find(*env_.scope, base->name.text) : nullptr;
    if (!module || module->kind != SymbolKind::module) return nullptr;
    module->used = true;
    Instance& inside = instances_[module->index];
    if (Symbol* found = find(inside, access->field.text)) {
        found->used = true;
        return found;
    }
    if (!quiet && !inside.is_broken(access->field.text) && !inside.choices.contains(access->field.text)) {
        error(unknown_member, access->field.span, "`" + base->name.text + "` has no `" + access->field.text + "`",
              suggestion(access->field.text, names_of(inside, std::nullopt),
                         "look at what \"" + inside.name + "\" declares"));
    }
    return nullptr;
}

Symbol* Checker::find_qualified(const ast::QualifiedName& name, Code missing, const char* what) {
    Instance* inside = env_.scope;
    if (!name.module.text.empty()) {
        Symbol* module = find(*env_.scope, name.module.text);
        if (!module || module->kind != SymbolKind::module) {
            error(unknown_name, name.module.span, "there is no import `" + name.module.text + "`",
                  suggestion(name.module.text, names_of(*env_.scope, SymbolKind::module),
                             "import the file with `as " + name.module.text + "`"));
            return nullptr;
        }
        module->used = true;
        inside = &instances_[module->index];
    }
    if (Symbol* found = find(*inside, name.name.text)) return found;
    failed_ = true;
    if (inside->is_broken(name.name.text)) return nullptr;
    error(missing, name.name.span, std::string("there is no ") + what + " `" + name.name.text + "`",
          suggestion(name.name.text, names_of(*inside, std::nullopt),
                     std::string("declare the ") + what + ", or import the file that does"));
    return nullptr;
}

Symbol* Checker::symbol_of(const ast::QualifiedName& name, SymbolKind kind, Code missing, const char* what) {
    if (name.name.text.empty()) {
        failed_ = true;
        return nullptr;
    }
    Symbol* found = find_qualified(name, missing, what);
    if (!found) return nullptr;
    found->used = true;
    if (found->kind == kind) return found;
    std::vector<diag::Note> notes{{found->span, "it is declared here"}};
    error(kind == SymbolKind::files || kind == SymbolKind::socket || kind == SymbolKind::probe ? wrong_source
                                                                                               : wrong_kind,
          name.name.span,
          "`" + name.name.text + "` is " + kind_word(found->kind) + ", and a " + what + " is wanted here",
          suggestion(name.name.text, names_of(*env_.scope, kind), std::string("name a ") + what), std::move(notes));
    return nullptr;
}

std::optional<std::uint32_t> Checker::record_named(const ast::QualifiedName& name) {
    Symbol* found = symbol_of(name, SymbolKind::record, unknown_record, "record");
    if (!found) return std::nullopt;
    return found->index;
}

void Checker::warn_nothing() {
    Span where{.file = root_.id, .line = 1, .col = 1, .end_line = 1, .end_col = 1};
    for (const ast::Item& item : root_.items) {
        const auto* app = std::get_if<ast::App>(&item.node);
        if (app == nullptr || !app->items.empty()) return;
        where = item.span;
    }
    warn(nothing_declared, where, "this spec declares nothing", "declare a chain or a service, or name another file");
}

// Something that nothing refers to is most often a slip; a file without chains is a library, whose names are for
// others.
void Checker::warn_unused() {
    Instance& root = instances_.front();
    warn_nothing();
    bool has_chain = !services_.empty();
    for (const auto& c : chains_) has_chain |= c.scope == &root;
    std::set<const ast::Import*> brings;  // what is used, or runs
    std::set<const Instance*> used;
    for (const auto& symbol : symbols_) {
        const bool is_run = symbol.kind == SymbolKind::chain || symbol.kind == SymbolKind::service;
        if (is_run) brings.insert(symbol.owner->root_import());
        if (is_run || symbol.used) used.insert(symbol.owner);
    }
    for (const Instance& instance : instances_)
        if (instance.serves) brings.insert(instance.root_import());
    for (const auto& [import, made] : root_imports_) {
        if (!used.contains(made) && !made->serves && !brings.contains(import))
            warn(unused_import, import->path_span, "nothing of \"" + import->path + "\" is used", "remove the import");
    }
    if (!has_chain) return;
    for (const auto& symbol : symbols_) {
        if (symbol.owner == &root && symbol.kind == SymbolKind::record && !symbol.used &&
            !symbol.name.starts_with('_')) {
            warn(unused_record, symbol.span, "record `" + std::string(symbol.name) + "` is never used",
                 "remove it, or begin its name with `_`");
        }
    }
}

}  // namespace chainio::sema
