// The IR interpreter: the reference that native code and BPF are compared with, and the runtime's engine of last
// resort.
#pragma once
#include <cstdint>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/artifact.h"

namespace chainio::ir {

// Runs one validated program over `io` (layout.total bytes from `io` on are the caller's). `block` has io.block_length
// bytes. Sets io.outcome, finished, next, result … exactly as the C back end's code does. No allocation; a handler
// program fails with CIO_UNSUPPORTED, as it needs a service around it.
void interpret(const Artifact&, std::uint32_t program, cio_io& io, const std::uint8_t* block);

// The same, watched: for tests and for `--report`'s cross-checks.
struct Trace {
    std::uint64_t statements = 0;  // executed
    bool out_of_range =
        false;  // an access that validate() should have refused; the program then failed with CIO_MALFORMED
    const Stmt* failed = nullptr;  // the statement at which the program ended with another outcome than CIO_OK
};
void interpret(const Artifact&, std::uint32_t program, cio_io& io, const std::uint8_t* block, Trace&);

}  // namespace chainio::ir
