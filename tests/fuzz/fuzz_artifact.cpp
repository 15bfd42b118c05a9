// Any bytes as .chainio.spec: refused with a message, or a module that keeps the IR's rules and is written as it was
// read.
#include <cstdlib>

#include "compiler/ir/artifact.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace chainio;
    const auto artifact = ir::deserialize({data, size});
    if (!artifact) {
        if (artifact.error().empty()) std::abort();
        return 0;
    }
    if (!ir::validate(artifact->module).empty()) std::abort();
    const std::vector<std::uint8_t> written = ir::serialize(*artifact);
    const auto again = ir::deserialize(written);
    if (!again || ir::serialize(*again) != written) std::abort();
    if (ir::dump(artifact->module) != ir::dump(again->module)) std::abort();
    return 0;
}
