// --verify: every program through the running kernel's verifier, its complaints at the user's lines.
#pragma once
#include <string>

namespace chainio::chainc {

struct Compilation;

void verify_programs(Compilation&);
std::string verified_table(const Compilation&);

}  // namespace chainio::chainc
