// `chainio outcomes`: what the words that a chain can end with mean.
#include <CLI/CLI.hpp>

#include "runtime/spec/outcomes.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/printed.h"

namespace chainio::tool {

void add_outcomes(CLI::App& root, int& exit_code) {
    auto* command = root.add_subcommand("outcomes", "List what a chain can end with");
    command->callback([&exit_code] {
        for (const auto& info : spec::outcomes()) print_out("{:>3}  {:<13} {}\n", info.number, info.name, info.meaning);
        print_out(" 32… a chain's own `fail REASON` words, see `chainio inspect`\n");
        exit_code = kExitOk;
    });
}

}  // namespace chainio::tool
