// The timers of setitimer() and alarm(), which a process keeps when it executes another program and of which a child
// has none.
#pragma once
#include <sys/time.h>

#include <array>
#include <cstddef>

namespace chainio::run {

struct Timers {
    static constexpr std::array kKinds{ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
    std::array<itimerval, kKinds.size()> left{};

    // Those of this process, which has none afterwards.
    static Timers take() {
        Timers taken;
        const itimerval none{};
        for (std::size_t i = 0; i < kKinds.size(); i++) ::setitimer(kKinds[i], &none, &taken.left[i]);
        return taken;
    }
    // They are this process's. System calls alone, for a child in its parent's memory.
    void give() const {
        for (std::size_t i = 0; i < kKinds.size(); i++)
            if (left[i].it_value.tv_sec != 0 || left[i].it_value.tv_usec != 0)
                ::setitimer(kKinds[i], &left[i], nullptr);
    }
};

}  // namespace chainio::run
