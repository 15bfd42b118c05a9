// Which line of the canonical form an instruction of a loaded BPF program comes from.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/backends/bpf_object.h"

namespace chainio::backends {

struct SourceLine {
    std::string file;
    std::uint32_t line = 0;  // 0: unknown
};

class LineTable {
  public:
    explicit LineTable(const BpfObject&);  // from its .BTF and .BTF.ext; empty when these are not readable
    SourceLine find(const std::string& section, std::uint64_t byte_offset) const;

  private:
    std::map<std::string, std::map<std::uint64_t, SourceLine>> lines_;
};

// Where the functions of `entry` and its callees were put in the program that libbpf handed to the kernel: first
// instruction -> function of the object.
std::map<std::size_t, std::size_t> placed_functions(const BpfObject&, const std::string& entry,
                                                    std::span<const bpf_insn> loaded);

}  // namespace chainio::backends
