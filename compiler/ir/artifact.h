// What one artifact holds besides its BPF and native code: the module, the memory layout and the proven bounds.
// `.chainio.spec` is the serialised form; docs/artifact.md gives it byte for byte.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::ir {

// Byte offsets behind the start of struct cio_io (bpf-templates/chainio_step.h). Each size is a power of two (or 0) and
// is followed by CIO_PAD readable bytes. The same for every program of an artifact.
struct IoLayout {
    std::uint32_t state_offset = 0, state_size = 0;
    std::uint32_t arg_bytes_offset = 0, arg_bytes_size = 0;
    std::uint32_t out_offset = 0, out_size = 0;
    std::uint32_t prefetch_offset = 0, prefetch_count = 0;
    std::uint32_t total = 0;
};
IoLayout layout_of(const Module&);

struct ProgramBounds {
    std::uint64_t instructions = 0;  // most BPF instructions that one run executes
    std::uint32_t stack = 0;         // bytes, all frames
};

struct Artifact {
    Module module;
    IoLayout layout;
    std::vector<ProgramBounds> bounds;  // one a program
};

constexpr std::size_t kMaxSpecBytes = 16u << 20;  // of the serialised form
// Of any size: who writes an artifact refuses one that could not be read.
std::vector<std::uint8_t> serialize(const Artifact&);
// Whether what single programs do has to be proven. `proven`: it was, before the bytes came to where nobody else can
// change them; such programs must not be interpreted without.
enum class Programs : bool { to_prove, proven };

// Never trusts its input: every length, index and enum is checked, and validate() holds for the result.
std::expected<Artifact, std::string> deserialize(std::span<const std::uint8_t>, Programs programs = Programs::to_prove);

// Whether the invariants of ir.h hold; the text of the first that does not, else empty.
std::string validate(const Module&, Programs programs = Programs::to_prove);
std::string dump(const Module&);  // --emit=ir

}  // namespace chainio::ir
