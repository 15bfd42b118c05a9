// The limits that compiled programs and chains must keep, and the refusals that name the line.
#pragma once
#include <cstdint>
#include <string_view>

namespace chainio::chainc {

struct Compilation;

// Executed by one run of a program, some 10 ms of a core. (The verifier's limit is on what it explores, which --verify
// shows.)
inline constexpr std::uint64_t most_instructions = 16'000'000;
inline constexpr std::uint32_t most_stack = 512;        // bytes of a BPF program's frames
inline constexpr std::uint64_t most_memory = 64 << 20;  // bytes of one run of a chain

void enforce_lowered_sizes(Compilation&);  // before the passes
void enforce_limits(Compilation&);         // before anything is compiled
void enforce_stack(Compilation&);          // what the compiled code needs
// Whether clang stopped because a program needs more stack than BPF has; reports that at the program's place.
bool report_stack_overflow(Compilation&, std::string_view compiler_output);

}  // namespace chainio::chainc
