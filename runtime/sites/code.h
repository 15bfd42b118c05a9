// The instructions of a function, as far as it matters which of them may be moved.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace chainio::sites {

struct Instruction {
    std::uint64_t address = 0;
    std::span<const std::uint8_t> bytes{};
    std::optional<std::uint64_t> target{};  // of a jump or call that names it
    bool is_call = false;                   // `syscall`
    bool movable = false;                   // means the same wherever it stands, and goes on with what follows
    bool returns = false;
    bool jumps_by_table = false;  // to where a register or memory says

    std::uint64_t end() const { return address + bytes.size(); }
};

// All of `code`, which begins at `address`; nothing when some of it is no instruction, or crosses the end.
std::optional<std::vector<Instruction>> instructions_of(std::uint64_t address, std::span<const std::uint8_t> code);

}  // namespace chainio::sites
