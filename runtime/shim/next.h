// The functions that the program would have reached without us: the next definition of each name, usually libc's.
#pragma once
#include <link.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>

#include "runtime/shim/names.h"

namespace chainio::shim {

enum class Name : unsigned {
#define CHAINIO_RAW(name, fallback) name,
#define CHAINIO_LIBC(name) name,
    CHAINIO_NAMES(CHAINIO_RAW, CHAINIO_LIBC)
#undef CHAINIO_RAW
#undef CHAINIO_LIBC
        count
};

extern constinit std::atomic<void*> next_functions[static_cast<unsigned>(Name::count)];
// Leaves the registers alone, so that functions which need it once do not save them each time.
[[clang::preserve_most]] void* resolve(Name name);
void resolve_all();
void* real_dlsym();  // past our own; null: the program has none

inline void* next_function(Name name) {
    void* found = next_functions[static_cast<unsigned>(name)].load(std::memory_order_relaxed);
    if (!found) [[unlikely]]
        return resolve(name);
    return found;
}

// Of functions that libraries bring along: `caller`, an address, may lie in one that the program has opened with its
// libraries for itself, so that nobody else finds them.
void* next_function_for(Name name, const void* caller);

// dl_iterate_phdr() of libc: a library of the program may have one of its own, which knows only some files (to unwind
// quickly) or changes their names where these are for the program alone to see (fakechroot).
void for_each_loaded(int (*look)(dl_phdr_info*, std::size_t, void*), void* argument);

// What the loader calls the file that lies there; empty: the program. Null: none does.
const char* file_of(const void* place);

// Whether RTLD_NEXT leads from `caller`, an address of a file that was loaded with the program, to `function`, which it
// leads us to: that is libc's, and lies behind the caller's file. False of who interposes anything on his own, and may
// be reached by us; and of what was opened later, of which only the loader knows.
bool would_find_next(const void* caller, const void* function);

void release_at_thread_end();  // region.cpp: the calling thread has a ring

}  // namespace chainio::shim

// Defines the interposed function `name`. Its own name in C++ keeps it apart from what the system's headers declare,
// with attributes and exception specifications that a definition would have to repeat.
#define CHAINIO_CALL(result, name, ...)                                                               \
    extern "C" [[gnu::visibility("default")]] result chainio_shim_##name(__VA_ARGS__) __asm__(#name); \
    result chainio_shim_##name(__VA_ARGS__)

// The next definition of `name`, with the type of ours.
#define CHAINIO_NEXT(name) \
    reinterpret_cast<decltype(&chainio_shim_##name)>(::chainio::shim::next_function(::chainio::shim::Name::name))
#define CHAINIO_NEXT_FOR(name, caller)                \
    reinterpret_cast<decltype(&chainio_shim_##name)>( \
        ::chainio::shim::next_function_for(::chainio::shim::Name::name, caller))
