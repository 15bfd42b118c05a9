// The IR interpreter: the reference that native code and BPF are compared with, and the runtime's engine of last resort.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/artifact.h"

namespace chainio::ir {

// Runs one validated program over `io` (layout.total bytes from `io` on are the caller's). `block` has io.block_length bytes.
// Sets io.outcome, finished, next, result … exactly as the C back end's code does.
void interpret(const Artifact&, std::uint32_t program, cio_io& io, const std::uint8_t* block);

}  // namespace chainio::ir
