// dlsym(): a program that looks a function up in a library that it opened by hand gets ours, as it does by calling it
// by name.
#include <dlfcn.h>

#include <cstring>

#include "runtime/shim/next.h"

// Our definitions, for their addresses only.
#define CHAINIO_RAW(name, fallback) extern "C" void chainio_address_##name() __asm__(#name);
#define CHAINIO_LIBC(name) extern "C" void chainio_address_##name() __asm__(#name);
CHAINIO_NAMES(CHAINIO_RAW, CHAINIO_LIBC)
#undef CHAINIO_RAW
#undef CHAINIO_LIBC

namespace chainio::shim {
namespace {

struct Own {
    const char* name;
    void (*address)();
};
constexpr Own own_functions[] = {
#define CHAINIO_RAW(name, fallback) {#name, chainio_address_##name},
#define CHAINIO_LIBC(name) {#name, chainio_address_##name},
    CHAINIO_NAMES(CHAINIO_RAW, CHAINIO_LIBC)
#undef CHAINIO_RAW
#undef CHAINIO_LIBC
};

// Only what is exactly the function that ours would call: a library that interposes on its own and looks for what is
// behind it would otherwise find us again, and call in circles.
void* ours_instead(void* found, const char* name) {
    for (unsigned i = 0; i < static_cast<unsigned>(Name::count); ++i)
        if (next_functions[i].load(std::memory_order_relaxed) == found && std::strcmp(own_functions[i].name, name) == 0)
            return reinterpret_cast<void*>(own_functions[i].address);
    return found;
}

using Lookup = void* (*)(void*, const char*);

}  // namespace

// RTLD_NEXT and RTLD_DEFAULT depend on who asks, which libc takes from the return address: those are jumped to.
CHAINIO_CALL(void*, dlsym, void* handle, const char* name) {
    auto* next = reinterpret_cast<Lookup>(real_dlsym());
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) [[clang::musttail]]
        return next(handle, name);
    void* found = next(handle, name);
    return found ? ours_instead(found, name) : nullptr;
}

}  // namespace chainio::shim
