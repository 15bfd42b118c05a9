// Imports: a file is checked afresh for every import, with that import's parameters.
#include "compiler/sema/checker.h"

namespace chainio::sema {

const ast::Import* Instance::root_import() const {
    const ast::Import* found = nullptr;
    for (const Instance* at = this; at->importer; at = at->importer) found = at->import;
    return found;
}

void Checker::import_files(Instance& scope) {
    for (const auto& item : scope.file->items)
        if (const auto* import = std::get_if<ast::Import>(&item.node)) import_file(scope, *import, item.span);
}

// The way round is told by its places: the imports' own words for one file differ from folder to folder.
bool Checker::is_import_cycle(Instance& scope, const ast::File& file, const ast::Import& import) {
    std::vector<diag::Note> way;
    for (Instance* at = &scope; at; at = at->importer) {
        if (at->file == &file) {
            error(import_cycle, import.path_span, "\"" + import.path + "\" imports itself",
                  "break the circle: move what both need into a third file", std::move(way));
            return true;
        }
        if (at->import) way.push_back({at->import->path_span, "\"" + at->import->path + "\" is imported here"});
    }
    return false;
}

// Depth alone bounds nothing that ends: two imports a file, 16 deep, are 65,536. What would have come is not missed.
bool Checker::is_one_import_too_many(Instance& scope, const ast::Import& import) {
    if (instances_.size() <= kMaxImports) return false;
    if (!imports_reported_)
        error(too_many_imports, import.path_span,
              "the spec has more than " + std::to_string(kMaxImports) + " imports, with those of its imports",
              "import what several files need without `as` and `with`, or fewer times");
    imports_reported_ = scope.incomplete = true;
    return true;
}

// What would have come from the missing file is not reported again at each use.
void Checker::missing_import(Instance& scope, const ast::Import& import, const Loaded& loaded) {
    std::vector<diag::Note> notes;
    for (const auto& place : loaded.tried) notes.push_back({{}, "tried " + place});
    error(import_not_found, import.path_span, "\"" + import.path + "\" is not found",
          loaded.meant.empty() ? "check the path, or add its folder with -I" : loaded.meant, std::move(notes));
    if (!import.alias) {
        scope.incomplete = true;
        return;
    }
    instances_.emplace_back().incomplete = true;
    declare(scope, SymbolKind::module, *import.alias, static_cast<std::uint32_t>(instances_.size() - 1));
}

void Checker::import_file(Instance& scope, const ast::Import& import, Span) {
    if (import.path.empty()) {
        failed_ = true;
        if (!diags_.reported_at(import.path_span))
            error(import_not_found, import.path_span, "the import names no file",
                  "name one: `import \"std/sqlite.chain\"`");
        return;
    }
    if (import.path.contains('\0')) {
        error(import_not_found, import.path_span, "no file's name has a byte 0 in it",
              "write the name of a file, such as \"std/sqlite.chain\"");
        return;
    }
    std::uint32_t depth = 0;
    for (Instance* at = &scope; at; at = at->importer) depth++;
    if (depth > kMaxImportDepth) {
        error(import_too_deep, import.path_span,
              "imports are nested more than " + std::to_string(kMaxImportDepth) + " deep",
              "import the file from fewer levels down");
        return;
    }
    const std::size_t errors = diags_.error_count();
    Loaded loaded = loader_(import.path, scope.file->id);
    after_syntax_errors_ |= diags_.error_count() != errors;
    if (!loaded.file) return missing_import(scope, import, loaded);
    if (is_import_cycle(scope, *loaded.file, import)) return;
    std::string prefix = import.alias ? scope.prefix + import.alias->text + "." : scope.prefix;
    std::optional<std::uint32_t> number = same_instance(*loaded.file, prefix, import);
    if (!number && is_one_import_too_many(scope, import)) return;
    if (!number) number = make_instance(scope, *loaded.file, loaded.canonical_name, std::move(prefix), import);
    Instance& made = instances_[*number];
    if (&scope == &instances_.front()) root_imports_.push_back({&import, &made});
    if (import.alias) {
        declare(scope, SymbolKind::module, *import.alias, *number);
    } else {
        merge_names(scope, made, import);
    }
}

std::uint32_t Checker::make_instance(Instance& scope, const ast::File& file, const std::string& name,
                                     std::string prefix, const ast::Import& import) {
    Instance* made = new_instance(file, name, std::move(prefix), &scope);
    const auto number = static_cast<std::uint32_t>(instances_.size() - 1);
    made->import = &import;
    bind_import(scope, *made, import);
    declare_file(*made);
    return number;
}

// What `with { … }` gives, checked where it is written.
void Checker::bind_import(Instance& importer, Instance& made, const ast::Import& import) {
    for (const auto& binding : import.bindings) {
        if (binding.name.text.empty() || !binding.value) continue;
        Instance::Given given;
        given.span = binding.name.span;
        if (const auto* name = std::get_if<ast::NameRef>(&binding.value->node)) {
            Symbol* symbol = find(importer, name->name.text);
            if (symbol && symbol->kind == SymbolKind::files) {
                symbol->used = true;
                given.files = symbol->index;
            }
        }
        if (!given.files) {
            Value v = constant_expr(*binding.value, &importer);
            given.defines = defines_read_;
            given.wrong = !v;
            if (!v) v = int_constant(1, binding.name.span);  // the parameter still counts as given
            given.value = std::move(v);
        }
        if (!made.given.try_emplace(binding.name.text, std::move(given)).second) {
            error(duplicate_name, binding.name.span, "`" + binding.name.text + "` is given twice",
                  "keep one of the two");
        }
    }
}

void Checker::merge_names(Instance& into, Instance& from, const ast::Import& import) {
    for (const auto& [name, symbol] : from.names) {
        if (symbol->owner != &from || name.starts_with('_')) continue;
        auto [it, fresh] = into.names.try_emplace(name, symbol);
        const bool same_files = !fresh && symbol->kind == SymbolKind::files && it->second->kind == SymbolKind::files &&
                                it->second->index == symbol->index;
        if (!fresh && it->second != symbol && !same_files) {
            error(duplicate_name, import.path_span,
                  "\"" + import.path + "\" brings in `" + std::string(name) + "`, which is already declared",
                  "give the import a name of its own: `import \"" + import.path + "\" as …`",
                  {{it->second->span, "the other one is here"}});
        }
    }
    for (const auto& [name, choices] : from.choices)
        for (const Choice& choice : choices) add_choice(into, name, choice);
    for (const auto& [name, cls] : from.classes) {
        if (cls.owner != &from || name.starts_with('_')) continue;
        const auto [it, fresh] = into.classes.try_emplace(name, cls);
        if (!fresh && it->second.index != cls.index) merged_classes_.push_back({&import, it->second.index, cls.index});
    }
}

// Parameters that were given but that the file does not have.
void Checker::check_given(Instance& scope) {
    std::vector<std::string> known;
    for (const auto& item : scope.file->items) {
        const auto* param = std::get_if<ast::Param>(&item.node);
        if (param) known.push_back(param->files ? param->files->name.text : param->constant.name.text);
    }
    for (const auto& [name, given] : scope.given) {
        if (given.used) continue;
        const bool is_define = given.span.file == 0;
        const Symbol* declared = find(scope, name);
        const bool is_files = declared && declared->kind == SymbolKind::files;
        if (is_define && (is_files || (declared && declared->kind == SymbolKind::constant))) {
            error(unknown_define, given.span,
                  "-D " + name + ": `" + name + "` is a " + (is_files ? "class of files" : "constant") +
                      " and no parameter",
                  std::string("write `param ") + (is_files ? "files " : "") + name +
                      " = …` in the spec, and -D gives " + (is_files ? "its pattern" : "its value"),
                  {{declared->span, "it is declared here"}});
            continue;
        }
        error(is_define ? unknown_define : unknown_parameter, given.span,
              (is_define ? "-D " + name + ": the spec" : "\"" + scope.name + "\"") + " has no parameter `" + name + "`",
              suggestion(
                  name, known, known.empty() ? "the file declares no `param`" : "its parameters are: " + [&] {
                      std::string all;
                      for (const auto& k : known) all += (all.empty() ? "" : ", ") + k;
                      return all;
                  }()));
    }
}

void Checker::apply_defines(Instance& root) {
    for (const auto& [name, define] : options_.defines) {
        Instance::Given given;
        const std::string option = "-D " + name + "=" + define.text + ": ";
        bool is_files = false, is_constant = false;
        for (const auto& item : root.file->items) {
            const auto* param = std::get_if<ast::Param>(&item.node);
            is_files |= param && param->files && param->files->name.text == name;
            is_constant |= param && !param->files && param->constant.name.text == name;
        }
        if (is_files && define.text.starts_with('"') && define.text.ends_with('"')) {
            error(bad_define_value, {}, option + "the quotes would be part of the pattern",
                  "a pattern stands there as it is, quoted for the shell alone: -D " + name + "='*.db'");
        }
        const auto* text = std::get_if<std::string>(&define.value);
        if (is_files) {
            given.pattern = define.text;
        } else if (!is_constant) {
            given.value = int_constant(1, {});  // check_given() says that there is no such parameter
        } else if (text && text->size() > kMaxBlock) {
            error(out_of_range, {}, "-D " + name + ": a string of " + std::to_string(text->size()) + " bytes",
                  "a string has at most " + std::to_string(kMaxBlock) + " bytes");
            given.value = Value{};
        } else if (auto value = define_value(define); value && *value) {
            given.value = std::move(*value);
        } else {
            if (!value) error(bad_define_value, {}, option + define.problem, define.hint);
            given.value = Value{};  // nothing is known of what depends on it
        }
        given.defines.push_back(name);
        root.given.emplace(name, std::move(given));
    }
}

}  // namespace chainio::sema
