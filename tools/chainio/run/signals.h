// Signals as the kernel keeps them: 64, a bit each. C libraries keep the lowest real-time ones to themselves, not all
// the same ones, and leave them out of their sets; a program that is started must find them as they were.
#pragma once
#include <csignal>
#include <cstdint>

namespace chainio::run {

using SignalSet = std::uint64_t;

constexpr int kFirstRealTime = 34;  // 32 and 33 are what every C library's threads use
constexpr int kLastSignal = 64;
constexpr SignalSet signal_bit(int number) { return SignalSet{1} << (number - 1); }
constexpr SignalSet kAllSignals = ~(signal_bit(32) | signal_bit(33));

// Blocks these signals and no others; those that were blocked before.
SignalSet block_signals(SignalSet set);
// A blocked one that waits, if any: one of this thread before one of the process.
void take_signal(int number);
// Those that wait, blocked, for this thread or the process.
SignalSet waiting_signals();
sigset_t to_libc(SignalSet set);

using Handler = void (*)(int, siginfo_t*, void*);

// Runs it with all signals blocked. Whether the signal was ignored before.
bool handle_signal(int number, Handler handler);
void ignore_signal(int number);
void default_signal(int number);

}  // namespace chainio::run
