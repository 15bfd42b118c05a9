// What is one thing although it is declared several times, because the file that declares it comes in by several
// imports.
#include <algorithm>
#include <map>
#include <string_view>

#include "compiler/sema/checker.h"

namespace chainio::sema {
namespace {

bool has_same_numbers(const ir::PriorityClass& one, const ir::PriorityClass& other) {
    return one.priority == other.priority && one.weight == other.weight &&
           std::ranges::equal(one.slos, other.slos, [](const ir::Slo& a, const ir::Slo& b) {
               return a.percentile_x1000 == b.percentile_x1000 && a.ns == b.ns;
           });
}

}  // namespace

// An import without `with` makes the same of a file wherever it stands, and under one prefix it has the same names.
std::optional<std::uint32_t> Checker::same_instance(const ast::File& file, const std::string& prefix,
                                                    const ast::Import& import) const {
    if (!import.bindings.empty()) return std::nullopt;
    const auto found = std::ranges::find_if(instances_, [&](const Instance& made) {
        return made.file == &file && made.import && made.import->bindings.empty() && made.prefix == prefix;
    });
    if (found == instances_.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - instances_.begin());
}

// Two imports of one file have records of their own, which are the same unless what the imports are given has changed
// them.
bool Checker::alike_records(std::uint32_t a, std::uint32_t b) const {
    if (a == b) return true;
    if (records_[a].fields != records_[b].fields) return false;
    const auto both = [](const checked::ExprPtr& x, const checked::ExprPtr& y) {
        return x && y ? same(*x, *y, true) : !x && !y;
    };
    return std::ranges::equal(
        module_.records[a].fields, module_.records[b].fields, [&](const checked::Field& x, const checked::Field& y) {
            return x.kind == y.kind && x.fixed_offset == y.fixed_offset && x.fixed_size == y.fixed_size &&
                   x.choices == y.choices && both(x.at, y.at) && both(x.length, y.length) && both(x.count, y.count) &&
                   both(x.when, y.when) && both(x.equals, y.equals) && both(x.value, y.value) &&
                   alike_records(x.record, y.record);
        });
}

// A class has one header, and every chain that reads it takes its fields from there.
void Checker::check_given_headers(std::uint32_t files) {
    const FilesInfo& info = files_[files];
    std::optional<std::uint32_t> first;
    for (const FilesInfo::Given& given : info.given) {
        env_.scope = given.scope;
        const Symbol* symbol = symbol_of({{}, *given.header}, SymbolKind::record, unknown_record, "record");
        if (!symbol || !record(symbol->index, given.header->span)) return;
        if (!first) first = symbol->index;
        if (alike_records(*first, symbol->index)) continue;
        const std::string &one = module_.records[*first].name, &other = module_.records[symbol->index].name;
        error(headers_differ, given.span,
              "files `" + info.files->name.text + "` get the header `" + other + "` of this import, and `" + one +
                  "` of another",
              "give each import a class of its own, or declare the header: `files " + info.files->name.text +
                  " = … { header … }`",
              {{info.given.front().span, "the other import is given the class here"},
               {records_[*first].span, "the header of that one is declared here"},
               {records_[symbol->index].span, "the header of this one is declared here"}});
        return;
    }
}

// Callers name chains and clients of the metrics name services, so that two of one name would hide each other.
void Checker::check_artifact_names() {
    if (failed_) return;
    std::map<std::string_view, std::size_t> chains, services;
    const auto twice = [&](const char* what, const ast::Name& name, const std::string& full, Span first) {
        error(duplicate_name, name.span, std::string("two ") + what + " of the artifact would be called `" + full + "`",
              "import one of their files with a name of its own: `import … as …`", {{first, "the other one is here"}});
    };
    for (std::size_t i = 0; i < chains_.size(); i++) {
        const auto [it, fresh] = chains.try_emplace(module_.chains[i].name, i);
        if (!fresh)
            twice("chains", chains_[i].chain->name, module_.chains[i].name, chains_[it->second].chain->name.span);
    }
    for (std::size_t i = 0; i < services_.size(); i++) {
        const auto [it, fresh] = services.try_emplace(module_.services[i].name, i);
        if (!fresh)
            twice("services", services_[i].first->name, module_.services[i].name,
                  services_[it->second].first->name.span);
    }
}

// A program's socket is looked for by transport and port alone, so that chains on a second one would never run.
void Checker::join_sockets() {
    std::map<std::pair<bool, std::uint16_t>, std::uint32_t> first;
    std::vector<ir::Socket> joined;
    for (const ir::Socket& socket : module_.sockets) {
        const auto [it, fresh] =
            first.try_emplace({socket.tcp, socket.port}, static_cast<std::uint32_t>(joined.size()));
        if (fresh) joined.push_back(socket);
        socket_numbers_.push_back(it->second);
    }
    module_.sockets = std::move(joined);
}

// One declaration is one class, unless the imports of its file give it different numbers.
void Checker::join_classes() {
    std::map<const ast::PriorityClass*, std::vector<std::uint32_t>> made;
    std::vector<ir::PriorityClass> joined;
    for (std::size_t i = 0; i < classes_.size(); i++) {
        ir::PriorityClass& own = module_.classes[i];
        std::vector<std::uint32_t>& alike = made[classes_[i].first];
        const auto same =
            std::ranges::find_if(alike, [&](std::uint32_t number) { return has_same_numbers(joined[number], own); });
        if (same != alike.end()) {
            class_numbers_.push_back(*same);
            continue;
        }
        alike.push_back(static_cast<std::uint32_t>(joined.size()));
        class_numbers_.push_back(alike.back());
        joined.push_back(std::move(own));
    }
    module_.classes = std::move(joined);
}

// A class that comes in by two imports is one class, and another one of its name may come in where nobody could tell
// the two apart.
void Checker::check_merged_classes() {
    for (const MergedClasses& merged : merged_classes_) {
        if (has_same_numbers(module_.classes[class_numbers_[merged.had]],
                             module_.classes[class_numbers_[merged.brought]]))
            continue;
        const ast::Name& had = classes_[merged.had].first->name;
        error(duplicate_name, merged.import->path_span,
              "\"" + merged.import->path + "\" brings in class `" + had.text + "`, which is already declared",
              "give the import a name of its own: `import \"" + merged.import->path + "\" as …`",
              {{had.span, "the other one is here"}});
    }
}

void Checker::check_batches() {
    for (std::size_t i = 0; i < batches_.size(); i++) {
        const auto& [batch, scope] = batches_[i];
        const ir::Batch made = check_batch(*batch, *scope);
        if (i == 0)
            module_.batch = made;
        else if (made.min != module_.batch.min || made.max != module_.batch.max)
            error(duplicate_name, batch->span, "`batch` is given twice, by two imports with different numbers",
                  "give both imports the same numbers");
    }
}

}  // namespace chainio::sema
