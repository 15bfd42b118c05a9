// Calls of which libc makes one system call and nothing else, made here: a function below ours is one more return that
// the processor foretells wrongly, since the kernel leaves it nothing to foretell returns by.
#pragma once
#include <atomic>
#include <cerrno>

#include "runtime/shim/raw.h"

namespace chainio::shim {

// next.cpp: the next functions of all these are libc's own, and not another library's that interposes them.
extern constinit std::atomic<bool> next_is_libc;
void go_straight_no_more();  // for good, also where the library has not begun yet

// next.cpp: libc's word that the process has one thread. A libc before 2.32 has none, and then it has several.
extern constinit std::atomic<const char*> single_threaded;
void learn_of_threads();  // looks for it, once
inline bool has_one_thread() { return *single_threaded.load(std::memory_order_relaxed) != 0; }

// Of functions that no thread can be cancelled in.
inline bool goes_straight() { return next_is_libc.load(std::memory_order_relaxed); }

// Of cancellation points. A thread that is alone can only be cancelled by itself, after which nothing goes straight.
inline bool goes_straight_alone() { return goes_straight() && has_one_thread(); }

// What libc's function returns where the kernel says `result`.
inline long with_errno(long result) {
    if (!failed(result)) [[likely]]
        return result;
    errno = static_cast<int>(-result);
    return -1;
}

template <class... Arguments>
int straight(long number, Arguments... arguments) {
    return static_cast<int>(with_errno(raw_call(number, arguments...)));
}

}  // namespace chainio::shim
