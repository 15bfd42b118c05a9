// No signal handler of the program comes, or jumps away, while this lives. Signals that come meanwhile are kept.
#pragma once
#include <signal.h>

#include <cstring>

#include "runtime/shim/raw.h"

namespace chainio::shim {

class WithoutSignals {
  public:
    WithoutSignals() {
        sigset_t all;
        std::memset(&all, 0xff, sizeof all);
        raw_call(SYS_rt_sigprocmask, SIG_SETMASK, word(&all), word(&before_), kKernelsSet);
    }
    ~WithoutSignals() { raw_call(SYS_rt_sigprocmask, SIG_SETMASK, word(&before_), 0, kKernelsSet); }
    WithoutSignals(const WithoutSignals&) = delete;
    WithoutSignals& operator=(const WithoutSignals&) = delete;

  private:
    static constexpr long kKernelsSet = 8;  // bytes
    sigset_t before_;
};

}  // namespace chainio::shim
