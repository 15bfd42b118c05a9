// What the caller tells the loader of libraries is for the program. ChainIO's own programs load theirs where they were
// installed: of an older libstdc++ in LD_LIBRARY_PATH the loader would end what `chainio` becomes, and the program's
// exit code would be lost. So these variables have other names until main() has begun.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

extern char** environ;

namespace chainio::run {

constexpr std::string_view kHeld = "CHAINIO_HELD_";

inline bool is_for_loader(std::string_view entry) { return entry.starts_with("LD_"); }

// Each stays in its place, which the program finds it in. One that there is no memory for keeps its name as well: a
// null would be the end of the environment, and what stands behind it, as what chainio-run is told of its program,
// would be lost.
inline void hold_loader_variables(void* (*allocate)(std::size_t) = std::malloc) {
    for (char** each = environ; *each != nullptr; each++) {
        if (!is_for_loader(*each)) continue;
        const std::size_t size = std::strlen(*each) + 1;
        auto* held = static_cast<char*>(allocate(kHeld.size() + size));
        if (held == nullptr) continue;
        std::memcpy(std::ranges::copy(kHeld, held).out, *each, size);
        *each = held;
    }
}

inline void release_loader_variables() {
    for (char** each = environ; *each != nullptr; each++)
        if (std::string_view(*each).starts_with(kHeld)) *each += kHeld.size();
}

}  // namespace chainio::run
