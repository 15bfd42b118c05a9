// `chainio test`: what a spec does on fixture files, in every engine that this machine allows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compiler/diag/utf8.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/named.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/testing/run.h"

namespace chainio::tool {
namespace {

struct TestGiven {
    std::vector<std::string> files;
    testing::Options options;
};

int run(const TestGiven& given) {
    testing::Counts counts;
    for (const auto& file : given.files) testing::run_file(file, given.options, counts);
    if (counts.passed + counts.failed + counts.skipped + counts.listed == 0 && !counts.wrong_file) {
        say("chainio test: no case's name contains '{}'; --list prints them\n", diag::escaped(given.options.filter));
        counts.wrong_file = true;
    }
    if (given.options.list) return counts.system_failed ? kExitSystem : counts.wrong_file ? kExitFailed : kExitOk;
    print_out("{} passed, {} failed, {} skipped\n", counts.passed, counts.failed, counts.skipped);
    if (counts.failed > 0) return kExitFailed;
    return counts.system_failed ? kExitSystem : counts.wrong_file ? kExitFailed : kExitOk;
}

}  // namespace

void add_test(CLI::App& root, int& exit_code) {
    auto* command = root.add_subcommand(
        "test", "Run a spec's tests: chains over fixture files, compared with what they should give");
    auto given = std::make_shared<TestGiven>();
    command->add_option("file", given->files, "test files (app.test.yaml; docs/testing-your-specs.md)")->required();
    command->add_option("--engine", given->options.engines, "interpreter, native or bpf; all by default (repeatable)")
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"interpreter", "native", "bpf"}));
    command->add_option("--filter", given->options.filter, "only cases whose name contains this text")->check(no_name);
    command->add_flag("--list", given->options.list, "print the cases and run none");
    command->callback([given, &exit_code] {
        if (given->options.engines.empty()) given->options.engines = {"interpreter", "native", "bpf"};
        exit_code = run(*given);
    });
}

}  // namespace chainio::tool
