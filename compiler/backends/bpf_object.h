// The instructions of a compiled BPF object, with its calls resolved: what the stack scan and --verify's line mapping
// read.
#pragma once
#include <linux/bpf.h>

#include <cstdint>
#include <expected>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace chainio::backends {

// A relocation of a 64-bit immediate load: the address of `offset` bytes into a symbol's section.
struct DataReference {
    std::string section;  // ".maps", ".rodata" …
    std::string symbol;
    std::uint64_t offset = 0;
};

struct BpfFunction {
    std::string name, section;
    std::uint64_t section_offset = 0;  // bytes
    std::vector<bpf_insn> code;
    std::map<std::size_t, std::size_t> calls;         // instruction -> function
    std::map<std::size_t, DataReference> references;  // instruction -> what its immediate names
};

struct BpfObject {
    std::vector<BpfFunction> functions;
    std::map<std::string, std::vector<std::uint8_t>> sections;  // those with contents
    const BpfFunction* find(const std::string& name) const;
};

std::expected<BpfObject, std::string> read_bpf_object(std::span<const std::uint8_t> elf);

// The stack that each function uses and its callees with it, counted as the verifier does: every frame rounded up to 32
// bytes.
std::vector<std::uint32_t> stack_depths(const BpfObject&);

}  // namespace chainio::backends
