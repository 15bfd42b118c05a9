// What the file of a program says that is about to be executed.
#pragma once

namespace chainio::shim {

enum class ProgramFile : int {
    unknown = -1,  // no child could be made to look at it
    other = 0,
    without_loader = 1,  // an ELF file that runs without a dynamic loader, and so without us
    narrow = 2,          // a 32-bit one with a loader, which would complain about us
};

// As execveat() takes it: what `flags` say of an empty path counts.
struct Place {
    int folder;
    const char* path;
    int flags;
};
ProgramFile look_at_program(const Place& place);

}  // namespace chainio::shim
