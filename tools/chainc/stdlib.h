// Where this program and the library of specs are. Apart from the compiler, for tools that only look a name up.
#pragma once
#include <string>

namespace chainio::chainc {

// That this program lies in; empty when it cannot be found out.
std::string executable_folder();
// The folder that holds the standard library: `given`, or $CHAINIO_STDLIB, or the one installed beside this program, or
// the one of the source tree that this program was built from. Empty when there is none.
std::string find_stdlib(const std::string& given);

}  // namespace chainio::chainc
