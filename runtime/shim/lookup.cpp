// dlsym(): a program that looks a function up in a library that it opened by hand gets ours, as it does by calling it
// by name.
#include <dlfcn.h>

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

// By hand: what the runtime of a sanitizer asks for before it has begun may be the very function that it would compare
// with.
bool is_same(const char* name, const char* other) {
    for (; *name == *other; ++name, ++other)
        if (*name == 0) return true;
    return false;
}

// Only what is exactly the function that ours would call: a library that interposes on its own and looks for what is
// behind it would otherwise find us again, and call in circles. What is rare is first looked for here.
void* ours_instead(void* found, const char* name) {
    for (unsigned i = 0; i < static_cast<unsigned>(Name::count); ++i) {
        const void* next = next_functions[i].load(std::memory_order_relaxed);
        if ((next && next != found) || !is_same(own_functions[i].name, name)) continue;
        if (next_function(static_cast<Name>(i)) == found) return reinterpret_cast<void*>(own_functions[i].address);
    }
    return found;
}

using Lookup = void* (*)(void*, const char*);

// What a library behind us is to get for the next function of a name: ours where the loader would say libc's, which is
// the one that ours calls. Null: the loader is to say. It is asked here, too, as it has no error of before any more
// then.
void* ours_as_next(Lookup next, const char* name, const void* caller) {
    for (unsigned i = 0; i < static_cast<unsigned>(Name::count); ++i) {
        if (!is_same(own_functions[i].name, name)) continue;
        const void* ahead = next_functions[i].load(std::memory_order_relaxed);
        if (!ahead || !would_find_next(caller, ahead) || next(RTLD_NEXT, name) != ahead) return nullptr;
        return reinterpret_cast<void*>(own_functions[i].address);
    }
    return nullptr;
}

}  // namespace

// RTLD_NEXT and RTLD_DEFAULT depend on who asks, which libc takes from the return address: those are jumped to.
CHAINIO_CALL(void*, dlsym, void* handle, const char* name) {
    auto* next = reinterpret_cast<Lookup>(real_dlsym());
    if (!next) return nullptr;
    if (handle == RTLD_NEXT)
        if (void* ours = ours_as_next(next, name, __builtin_return_address(0))) return ours;
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) [[clang::musttail]]
        return next(handle, name);
    void* found = next(handle, name);
    return found ? ours_instead(found, name) : nullptr;
}

}  // namespace chainio::shim
