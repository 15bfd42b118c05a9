// Runs one call chain the simple way: blocking reads, the interpreter, one step after the other. What the engine must
// equal.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/artifact.h"

namespace chainio::tests {

struct ReferenceArgument {
    std::uint64_t scalar = 0;
    std::vector<std::uint8_t> bytes;
    std::uint32_t file = 0;  // handed to ReferenceRead
};

struct ReferenceFile {
    std::uint64_t size = 0;
    std::vector<std::uint64_t> header;
};

struct ReferenceResult {
    std::uint32_t outcome = 0;
    ir::ResultKind kind = ir::ResultKind::none;
    std::uint64_t scalar = 0;
    std::vector<std::uint8_t> bytes;
    std::uint32_t hops = 0;
};

// Fills `out` from the file's bytes at `offset`; returns how many there were (fewer: the file ends), or -errno.
using ReferenceRead =
    std::function<std::int64_t(std::uint32_t file, std::uint64_t offset, std::span<std::uint8_t> out)>;

ReferenceResult run_reference(const ir::Artifact& artifact, std::uint32_t chain,
                              const std::vector<ReferenceArgument>& args, const std::vector<ReferenceFile>& files,
                              const ReferenceRead& read);

// Reads by pread until the block is full or the file ends; for run_reference over descriptors.
std::int64_t reference_pread(int fd, std::uint64_t offset, std::span<std::uint8_t> out);

}  // namespace chainio::tests
