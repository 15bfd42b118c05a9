// `chainio store`: makes stores of keys and values, and checks them.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <memory>
#include <string>

#include "compiler/diag/utf8.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/counted.h"
#include "tools/chainio/named.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/sizes.h"
#include "tools/chainio/store/build.h"
#include "tools/chainio/store/check.h"
#include "tools/chainio/whole.h"

namespace chainio::tool {
namespace {

struct StoreGiven {
    store::BuildOptions options;
    std::string tsv, sqlite, table, query, duplicates = "refuse";
};

std::string no_query(const std::string& sql) { return sql.empty() ? "the query is empty" : ""; }

int problems(const std::vector<std::string>& lines, bool system) {
    for (const auto& line : lines) say("chainio store: {}\n", diag::escaped(line));
    return system ? kExitSystem : kExitFailed;
}

int usage(const char* text) {
    say("chainio store build: {}\n", text);
    return kExitUsage;
}

// Of what was built or checked.
std::string size_of(const auto& store) {
    return fmt::format("{} in {} bytes, {} and {}", counted(store.items, "item"), store.bytes,
                       counted(store.buckets, "bucket"), counted(store.overflow, "further one"));
}

int build(const StoreGiven& given) {
    if (given.options.path.empty()) return usage("the name of the file to make is empty");
    if (given.tsv.empty() == given.sqlite.empty()) return usage("one of --from FILE and --from-sqlite DB is wanted");
    if (given.sqlite.empty() && !(given.table.empty() && given.query.empty()))
        return usage("--table and --query go with --from-sqlite");
    if (!given.sqlite.empty() && given.table.empty() == given.query.empty())
        return usage("with --from-sqlite, one of --table NAME and --query SQL is wanted");
    auto source =
        given.sqlite.empty() ? store::open_tsv(given.tsv) : store::open_sqlite(given.sqlite, given.table, given.query);
    if (!source) return problems({source.error().text}, source.error().system);
    std::signal(SIGXFSZ, SIG_IGN);  // a store that is longer than a file may be is said
    const auto built = store::build(**source, given.options);
    if (!built) return problems(built.error().problems, built.error().system);
    print_out("{}: {}, seed {}", diag::escaped(given.options.path), size_of(*built), built->seed);
    if (built->dropped != 0) print_out("; {} left out whose key is there already", counted(built->dropped, "item"));
    print_out("\n");
    if (const std::string note = (*source)->note(); !note.empty()) say("chainio store: {}\n", diag::escaped(note));
    for (const std::string& lost : built->lost)
        say("chainio store: {}: the store before had what this one could not be given: {}\n",
            diag::escaped(given.options.path), diag::escaped(lost));
    return kExitOk;
}

int check(const std::string& path) {
    const auto checked = store::check(path);
    if (!checked) return problems({checked.error()}, true);
    if (!checked->problems.empty()) {
        const int code = problems(checked->problems, false);
        if (checked->more_problems != 0)
            say("chainio store: {}: and {} more, which are not named\n", diag::escaped(path), checked->more_problems);
        if (checked->of_ours) say("chainio store: {} is damaged; build it again\n", diag::escaped(path));
        return code;
    }
    print_out("{}: whole, {}\n", diag::escaped(path), size_of(*checked));
    return kExitOk;
}

void add_build(CLI::App& parent, int& exit_code) {
    auto given = std::make_shared<StoreGiven>();
    auto* command = parent.add_subcommand("build", "Make a store, or replace one");
    command->add_option("store", given->options.path, "the file to make")->required();
    command->add_option("--from", given->tsv, "lines KEY, tab, VALUE and perhaps tab, FLAGS; - reads standard input")
        ->check(no_name);
    command->add_option("--from-sqlite", given->sqlite, "an SQLite database")->check(no_name);
    command->add_option("--table", given->table, "of it, with the columns key, value and perhaps flags")
        ->check(no_name);
    command->add_option("--query", given->query, "SQL that gives key, value and perhaps flags")->check(no_query);
    command->add_option("--duplicates", given->duplicates, "of a key that comes again: refuse, first or last")
        ->check(CLI::IsMember({"refuse", "first", "last"}))
        ->capture_default_str();
    command->add_flag("--allow-empty", given->options.allow_empty, "also make a store without any items");
    command->add_option("--seed", given->options.seed, "of the keys' hashes")
        ->transform(Whole(0, UINT64_MAX))
        ->capture_default_str();
    command->add_option("--memory", given->options.memory, "bytes for sorting the index")
        ->transform(Size())
        ->check(CLI::Range(std::size_t{1} << 16, std::size_t{1} << 40))
        ->default_str("256MiB");
    command->callback([given, &exit_code] {
        given->options.duplicates = given->duplicates == "first"  ? store::Duplicates::first
                                    : given->duplicates == "last" ? store::Duplicates::last
                                                                  : store::Duplicates::refuse;
        exit_code = build(*given);
    });
}

}  // namespace

void add_store(CLI::App& root, int& exit_code) {
    auto* command = root.add_subcommand("store", "Make and check stores of keys and values (docs/store.md)");
    command->require_subcommand(1);
    add_build(*command, exit_code);
    auto path = std::make_shared<std::string>();
    auto* checking = command->add_subcommand("check", "Read a store whole and say what is wrong with it");
    checking->add_option("store", *path, "what `chainio store build` made")->required();
    checking->callback([path, &exit_code] { exit_code = check(*path); });
}

}  // namespace chainio::tool
