// Any bytes as an artifact file: refused with a message, or opened and described. Native code is not loaded: a shared
// object is code by intention, and running it is the user's decision.
#include <cstdlib>

#include "compiler/ir/artifact.h"
#include "runtime/spec/elf_sections.h"
#include "runtime/spec/loaded.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::uint8_t> bytes(data, size);
    const auto sections = chainio::spec::read_sections(bytes);
    const auto loaded = chainio::spec::Loaded::from_bytes(bytes, "input", {.use_native = false});
    if (!sections && loaded) std::abort();
    if (!loaded) {
        if (loaded.error().message.empty() || loaded.error().system) std::abort();
        return 0;
    }
    // What was accepted holds the invariants that the engine relies on.
    if (!chainio::ir::validate((*loaded)->module()).empty()) std::abort();
    for (const auto& chain : (*loaded)->module().chains) {
        if (!(*loaded)->find_chain(chain.name)) std::abort();
    }
    return 0;
}
