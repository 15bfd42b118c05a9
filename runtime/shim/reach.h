// Programs that cannot have the library, since they have another root or fewer rights, or are of another kind: glibc's
// loader would say so on their standard error.
#pragma once
#include <cstddef>

namespace chainio::shim {

// What LD_PRELOAD calls the library; before the program can change its environment.
void learn_own_entry();
// The file that the loader took for it; null: not known.
const char* loaded_file();
// From here on the process allows itself only some system calls: what there is to ask of the library is asked now.
void ask_no_more();
// The same in a child that shares its parent's memory, which goes on as it was: the thread is silent until the child
// executes another program or ends.
void fall_silent();
// Bytes that the environment takes without our entry; 0: it is passed on as it is. `complains`: whether the program's
// loader would complain about us although we are in reach.
std::size_t room_without_us(char* const* environment, bool complains);
char* const* without_us(char* const* environment, void* room);
// Takes our entry out of the program's own environment where the library is out of reach, or refused: what libc starts
// with it.
void leave_environment(bool is_refused_us);

// The environment for a program that is about to be executed, on the caller's stack where it is another one.
#define CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains)                 \
    do {                                                                     \
        const std::size_t room = room_without_us(environment, complains);    \
        if (room != 0) [[unlikely]]                                          \
            (environment) = without_us(environment, __builtin_alloca(room)); \
    } while (false)

}  // namespace chainio::shim
