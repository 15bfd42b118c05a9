// Whether a program is likely to open what its spec is about, as far as its arguments tell.
#pragma once
#include <span>
#include <string>

#include "runtime/shim/protocol.h"

namespace chainio::start {

// An argument, or what stands behind its first `=`, names a file that a class matches, or a folder that holds one. It
// is a guess: a program that opens something else later gets its server then.
bool expects_matches(const shim::Plan& plan, const std::string& program, std::span<const std::string> arguments);

}  // namespace chainio::start
