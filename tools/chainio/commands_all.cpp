#include "tools/chainio/commands.h"

namespace chainio::tool {

// One line a subcommand.
std::span<const AddCommand> commands() {
    static constexpr AddCommand kAll[] = {
        add_ask, add_call, add_control, add_inspect, add_outcomes, add_run, add_store, add_test, add_top,
    };
    return kAll;
}

}  // namespace chainio::tool
