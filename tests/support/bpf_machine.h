// Executes compiled BPF programs in user space and counts every instruction: what ProgramBounds::instructions is held
// against.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/backends/bpf_object.h"

namespace chainio::tests {

class BpfMachine {
  public:
    explicit BpfMachine(const backends::BpfObject&);

    struct Result {
        std::uint64_t executed = 0;
        std::string failure;  // an instruction that does not exist, or more of them than `limit`
    };
    // Runs `entry` with cio_io_map and cio_block_map being the given memory.
    Result run(const std::string& entry, std::uint8_t* io, std::uint8_t* block, std::uint64_t limit);

  private:
    struct Insn {
        std::uint8_t code, dst, src;
        std::int16_t off;
        std::int32_t imm;
        std::uint64_t wide;  // LD_IMM64: the value; a call: the instruction it leads to
    };
    struct Frame {
        std::size_t back;
        std::uint64_t saved[4];
    };
    void add_function(const backends::BpfFunction&);
    std::uint64_t address_of(const backends::DataReference&);

    std::vector<Insn> code_;
    std::map<std::string, std::size_t> entries_;
    std::map<std::string, std::vector<std::uint8_t>> data_;
};

}  // namespace chainio::tests
