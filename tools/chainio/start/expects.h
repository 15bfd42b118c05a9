// Whether a program is likely to open what its spec is about, as far as its arguments tell.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "runtime/shim/protocol.h"

namespace chainio::start {

// An argument, or what stands behind its first `=`, names a file that a class matches, or a folder that holds one. It
// is a guess: a program that opens something else later gets its server then.
bool expects_matches(const shim::Plan& plan, const std::string& program, std::span<const std::string> arguments);

enum class Guess : std::uint8_t { nothing, a_match, unknown };
// The same as far as it is known without asking a file system, which might never answer: by what the kernel remembers.
// Without asking it is not known what is in a folder of a file system that has no disk of its own.
Guess expects_at_once(const shim::Plan& plan, const std::string& program, std::span<const std::string> arguments);

}  // namespace chainio::start
