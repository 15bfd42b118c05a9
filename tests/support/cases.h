// Inputs for step programs, all from one seed: blocks (random, or real pages that are mutated), arguments and state.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/artifact.h"

namespace chainio::tests {

// SplitMix64: every case has its own stream, so that any one of them can be run again alone.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next();
    std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    std::uint64_t interesting();  // small numbers, powers of two and their neighbours, anything

  private:
    std::uint64_t state_;
};

struct SeedPage {
    std::vector<std::uint8_t> bytes;
    std::uint64_t offset = 0;  // in its file
};

struct Inputs {
    std::vector<SeedPage> pages;
    // Values for an argument: by the parameter's name, `file.field` for a header field, `file.size`, `tag` for
    // block.tag.
    std::map<std::string, std::vector<std::uint64_t>> values;
    std::map<std::string, std::vector<std::vector<std::uint8_t>>> bytes;  // the same for parameters of bytes
};

struct CaseBuffers {
    std::span<std::uint8_t> io;     // from struct cio_io to the out area
    std::span<std::uint8_t> block;  // CIO_MAX_BLOCK bytes
};

class CaseMaker {
  public:
    CaseMaker(const ir::Artifact&, const Inputs&);
    // Fills in the step memory and the first io.block_length bytes of the block.
    void make(std::size_t program, Random&, CaseBuffers) const;

  private:
    struct Slot {
        std::string name;
        std::uint8_t bits = 64;
        bool is_signed = false;
        std::uint32_t bytes_max = 0;  // a bytes parameter takes this slot and the next
    };
    std::uint32_t make_block(Random&, std::span<std::uint8_t> block, std::uint64_t& offset) const;
    std::uint32_t make_bytes(const Slot&, Random&, std::span<const std::uint8_t> block,
                             std::span<std::uint8_t> into) const;
    std::uint64_t value_for(const Slot&, Random&, std::span<const std::uint8_t> block) const;

    const ir::Artifact& artifact_;
    const Inputs& inputs_;
    std::vector<std::vector<Slot>> slots_;  // one list a program
    std::vector<const ir::Chain*> chains_;  // the chain of each program, or nullptr
};

}  // namespace chainio::tests
