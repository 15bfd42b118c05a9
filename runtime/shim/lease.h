// Leases for writing: whoever opens the file has the kernel send their holder a signal, which ends most programs, and
// they are refused while anybody else has it open.
#pragma once
#include <fcntl.h>

#include "runtime/shim/removal.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {

// Has `set` give `descriptor` a lease of that kind. The server opens what it hears of, so it is to have heard of
// nothing that it has not looked at yet, and to hear of nothing from then on.
template <typename Set>
[[gnu::noinline]] auto leased(int descriptor, long kind, Set set) {
    if (static_cast<int>(kind) != F_WRLCK) return set();
    const int rule = leave_alone(descriptor);
    if (rule != kNoRule) have_closed_all();
    const auto result = without_open_files(EAGAIN, set);
    if (result != 0 && rule != kNoRule) watch_again(descriptor, rule);
    return result;
}

}  // namespace chainio::shim
