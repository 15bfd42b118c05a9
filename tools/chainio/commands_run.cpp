#include "tools/chainio/commands.h"

namespace chainio::tool {

std::span<const AddCommand> commands() {
    static constexpr AddCommand kOne[] = {add_run};
    return kOne;
}

}  // namespace chainio::tool
