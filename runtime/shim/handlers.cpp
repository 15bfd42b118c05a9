// Signal handlers with a stack of their own (SA_ONSTACK), while the program's own system calls are looked at.
//
// The kernel begins at the top of that stack unless the thread is on it, and during a call that is looked at it is on
// one of ours: a second such handler in the middle of the first one's call would overwrite the first. Where handlers
// cannot interrupt each other (Go blocks all signals in its own) nothing of that can happen.
#include <signal.h>

#include "runtime/shim/next.h"
#include "runtime/shim/rewrite.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {
namespace {

constexpr int kSignals = 64;
constexpr std::uint64_t bit(int signal) { return std::uint64_t{1} << (signal - 1); }
// What a thread does to itself: nothing that is made while a call is looked at raises them.
constexpr std::uint64_t kOwnFaults =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGSYS);

constinit std::atomic<std::uint64_t> on_stack{0};
constinit std::atomic<std::uint64_t> blocked[kSignals + 1]{};  // in the handler of each

bool may_interrupt_each_other() {
    const std::uint64_t all = on_stack.load(std::memory_order_relaxed);
    for (int signal = 1; signal <= kSignals; ++signal)
        if (all & bit(signal) && all & ~kOwnFaults & ~blocked[signal].load(std::memory_order_relaxed)) return true;
    return false;
}

struct Handler {
    bool is_function;  // and not SIG_DFL or SIG_IGN
    std::uint64_t flags, mask;
};

constexpr char kUnsafe[] =
    "its signal handlers have a stack of their own and may interrupt each other; from then on its own system calls are "
    "not seen";

// Before it is set: afterwards it may be called at any time. A child of vfork sets its own, and shares our memory.
void handles(long signal, const Handler& handler) {
    if (signal < 1 || signal > kSignals || in_vfork_child()) return;
    const int number = static_cast<int>(signal);
    if (!handler.is_function || !(handler.flags & SA_ONSTACK)) {
        on_stack.fetch_and(~bit(number), std::memory_order_relaxed);
        return;
    }
    blocked[number].store(handler.mask | (handler.flags & SA_NODEFER ? 0 : bit(number)), std::memory_order_relaxed);
    on_stack.fetch_or(bit(number), std::memory_order_relaxed);
    if (may_interrupt_each_other()) end_catching(kUnsafe);
}

bool is_function(std::uint64_t handler) { return handler != 0 && handler != 1; }

}  // namespace

// What the kernel has of a handler, on x86-64: the only processors where calls are caught.
struct Kernels {
    std::uint64_t handler, flags, restorer, mask;
};

static void handles_as(long signal, const Kernels& action) {
    handles(signal, {is_function(action.handler), action.flags, action.mask});
}

void handles_by_number(long signal, long action) {
    if (!catching() || action == 0) return;
    Kernels kernels{};
    if (!read_safely(action, &kernels, sizeof kernels)) return end_catching("its signal handlers cannot be looked at");
    handles_as(signal, kernels);
}

void look_at_handlers() {
    for (int signal = 1; signal <= kSignals; ++signal) {
        Kernels kernels{};
        if (!failed(raw_call(SYS_rt_sigaction, signal, 0, word(&kernels), sizeof kernels.mask)))
            handles_as(signal, kernels);
    }
}

static void handles_by_name(int signal, const struct sigaction* action) {
    if (!action || !catching()) [[likely]]
        return;
    std::uint64_t mask = 0;
    __builtin_memcpy(&mask, &action->sa_mask, sizeof mask);
    handles(signal, {is_function(reinterpret_cast<std::uint64_t>(action->sa_handler)),
                     static_cast<unsigned>(action->sa_flags), mask});
}

#define CHAINIO_SIGACTION(name)                                                                     \
    CHAINIO_CALL(int, name, int signal, const struct sigaction* action, struct sigaction* before) { \
        handles_by_name(signal, action);                                                            \
        return CHAINIO_NEXT(name)(signal, action, before);                                          \
    }
CHAINIO_SIGACTION(sigaction)
CHAINIO_SIGACTION(__sigaction)

}  // namespace chainio::shim
