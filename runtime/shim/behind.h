// What a function's name leads to behind a file that was loaded, found without the dynamic loader's functions: libc has
// had them since 2.34, and before that only programs that are linked to libdl.
#pragma once

namespace chainio::shim {

// The default definition in the first file that was loaded after the one which `place` lies in. Null: there is none, or
// it is one that is chosen as the program starts (IFUNC).
void* find_behind(const void* place, const char* name);

}  // namespace chainio::shim
