// What the first bytes of a program's file say.
#pragma once
#include <cstddef>

#include "runtime/shim/program_file.h"

namespace chainio::shim {

struct ProgramHead {
    alignas(8) char bytes[1024];
    std::size_t size;  // that there are
};
ProgramFile judge(const ProgramHead& head);

}  // namespace chainio::shim
