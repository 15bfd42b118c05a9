// An engine that has frames and no chain, for what only moves frames.
#pragma once
#include <memory>

#include "runtime/engine/engine.h"
#include "runtime/spec/loaded.h"

namespace chainio::service {

// nullptr: it cannot be had.
inline std::unique_ptr<engine::Engine> engine_of_nothing() {
    auto engine = engine::Engine::create(spec::Loaded::from_artifact(ir::Artifact{}),
                                         {.umem_bytes = std::size_t{4} << 20, .use_ring = false});
    return engine ? std::move(*engine) : nullptr;
}

}  // namespace chainio::service
