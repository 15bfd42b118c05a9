#include "tools/chainio/run/signals.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <ctime>

namespace chainio::run {
namespace {

// What the kernel's rt_sigaction takes. The C library's own function refuses what it keeps to itself.
struct KernelAction {
    void* handler;
    unsigned long flags;
    void (*restorer)();
    SignalSet blocked;
};

#if defined(__x86_64__)
// Where a handler returns to; elsewhere the kernel has a place of its own.
extern "C" void chainio_end_of_signal();
asm(".text\n.type chainio_end_of_signal, @function\nchainio_end_of_signal:\n  mov $15, %eax\n  syscall\n");  // rt_sigreturn
constexpr unsigned long kHasRestorer = 0x04000000;
#else
constexpr void (*chainio_end_of_signal)() = nullptr;
constexpr unsigned long kHasRestorer = 0;
#endif

KernelAction exchange(int number, void* handler, unsigned long flags) {
    const KernelAction wanted{handler, flags | kHasRestorer, chainio_end_of_signal, kAllSignals};
    KernelAction old{};
    ::syscall(SYS_rt_sigaction, number, &wanted, &old, sizeof(SignalSet));
    return old;
}

}  // namespace

SignalSet block_signals(SignalSet set) {
    SignalSet before = 0;
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &set, &before, sizeof set);
    return before;
}

void take_signal(int number) {
    const SignalSet set = signal_bit(number);
    const timespec at_once{};
    ::syscall(SYS_rt_sigtimedwait, &set, nullptr, &at_once, sizeof set);
}

SignalSet waiting_signals() {
    SignalSet set = 0;
    ::syscall(SYS_rt_sigpending, &set, sizeof set);
    return set;
}

sigset_t to_libc(SignalSet set) {
    sigset_t out;
    sigemptyset(&out);
    std::memcpy(&out, &set, sizeof set);
    return out;
}

bool handle_signal(int number, Handler handler) {
    return exchange(number, reinterpret_cast<void*>(handler), SA_SIGINFO).handler == reinterpret_cast<void*>(SIG_IGN);
}

void ignore_signal(int number) { exchange(number, reinterpret_cast<void*>(SIG_IGN), 0); }
void default_signal(int number) { exchange(number, reinterpret_cast<void*>(SIG_DFL), 0); }

}  // namespace chainio::run
