// What the file of a program says that is about to be executed.
#pragma once

namespace chainio::shim {

enum class ProgramFile : int {
    unknown = -1,  // no child could be made to look at it
    other = 0,
    without_loader = 1,  // an ELF file that runs without a dynamic loader, and so without us
    narrow = 2,          // a 32-bit one with a loader, which would complain about us
    foreign = 3,         // one for another kind of machine, whose emulator hands its loader what is preloaded
    none = 4,            // nothing that can be read
    other_library = 5,   // one whose loader is of another C library than glibc, and does not find us
};

// As execveat() takes it: what `flags` say of an empty path counts.
struct Place {
    int folder;
    const char* path;
    int flags;
    bool is_descriptor() const;  // it is what `folder` has open; the path has to be one that can be read
};

struct LookedAt {
    ProgramFile file;
    bool is_refused_us;  // no loader can open the library, as where Landlock keeps the process out of its folder
};
LookedAt look_at_program(const Place& place);

}  // namespace chainio::shim
