// One BPF object from several, with libbpf's static linker.
#pragma once
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "compiler/backends/clang.h"

namespace chainio::backends {

// Links files of `dir` in their order and returns the object, which `dir` keeps as `output`. Sections, BTF and line
// tables of all of them are in it; DWARF is not.
std::expected<std::vector<std::uint8_t>, std::string> link_bpf(const TempDir& dir, const std::string& output,
                                                               const std::vector<std::string>& inputs);

}  // namespace chainio::backends
