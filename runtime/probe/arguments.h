// Where a probe's arguments are when its site is reached, and what reaching it costs.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bpf-templates/chainio_probe.h"

namespace chainio::probe {

// The argument descriptions of a USDT note, split: "-4@%edi 8@8(%rsp)". Empty without any.
std::vector<std::string_view> split_arguments(std::string_view text);
// One of them on x86-64. The error says why it cannot be read.
std::expected<cio_probe_arg, std::string> parse_argument(std::string_view text);
// Argument `n` of a function that has just been called, in the System V order of x86-64.
cio_probe_arg call_argument(unsigned n);

enum class Cost : std::uint8_t {
    nop5,         // the kernel turns the trap into a call
    emulated,     // a trap; the kernel does what the instruction would have done
    stepped,      // a trap, and another one behind the instruction
    system_call,  // a tracepoint that every system call of the machine passes
    refused,      // the kernel does not probe this instruction
};
struct Instruction {
    Cost cost = Cost::stepped;
    std::uint32_t skip = 0;  // bytes of a leading `endbr64`, behind which probing is as good and cheaper
};
// What probing the instruction that `code` begins with (x86-64) costs.
Instruction classify(std::span<const std::uint8_t> code);
std::string_view describe(Cost);

}  // namespace chainio::probe
