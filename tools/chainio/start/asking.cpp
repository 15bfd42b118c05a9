#include "tools/chainio/start/asking.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <new>

#include "tools/chainio/run/child.h"
#include "tools/chainio/run/signals.h"

namespace chainio::start {
namespace {

// With standard error it would keep whoever reads that to its end, for as long as there is no answer.
void let_go_of_standard_error() {
    run::let_go_of_descriptors();
    ::dup2(1, 2);
}

}  // namespace

Asking::Asking(const std::function<bool()>& ask, std::atomic<std::uint32_t>& asleep) {
    void* const memory = ::mmap(nullptr, sizeof *yes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    yes_ = new (memory) std::atomic<bool>(false);
    const pid_t parent = ::getpid();
    pid_ = static_cast<int>(::syscall(SYS_clone, 0L, nullptr, nullptr, nullptr, nullptr));
    if (pid_ != 0) return;
    run::block_signals(run::kAllSignals);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    let_go_of_standard_error();
    if (ask && ask()) {
        yes_->store(true);
        asleep.store(0);
        ::syscall(SYS_futex, &asleep, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
    ::_exit(0);
}

Asking::~Asking() {
    if (pid_ > 0) {
        const bool ends = is_yes();
        if (!ends) ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, __WCLONE | (ends ? 0 : WNOHANG));
    }
    if (yes_ != nullptr) ::munmap(yes_, sizeof *yes_);
}

}  // namespace chainio::start
