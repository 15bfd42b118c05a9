// What the file of a program says that is about to be executed.
#pragma once

namespace chainio::shim {

enum class ProgramFile : int {
    unknown = -1,  // no child could be made to look at it
    other = 0,
    without_loader = 1,  // an ELF file that runs without a dynamic loader, and so without us
};

ProgramFile look_at_program(const char* path);

}  // namespace chainio::shim
