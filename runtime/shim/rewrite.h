// System calls that a program makes without libc: how they come to be looked at. docs/shim.md explains it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/shim/protocol.h"
#include "runtime/shim/sites.h"

namespace chainio::shim {

// ---- rewrite.cpp ----
// Replaces the calls of the program that was started. Before its first instruction. `sites_program`: chainio-sites;
// null when the run does not ask for that. Whoever could name it would have it run by every process of the run, so it
// never comes out of shared memory.
void rewrite(Region& region, const char* sites_program);

// ---- caught.cpp ----
// What calls are looked at, from here on; false, with a reason, when this machine cannot do it.
const char* start_catching(const Region& region);
void stop_catching();  // every call goes on as it is
bool catching();
void end_catching(const char* why);  // as stop_catching, and the report says why
void release_levels();               // the thread ends

// ---- handlers.cpp ----
void handles_by_number(long signal, long action);  // rt_sigaction is about to be made; the address may be any
void look_at_handlers();                           // those that libraries set before calls are caught

// ---- catch_site.cpp ----
// The code that stands in for one site: room for it, and the code itself, for where it is to run.
std::size_t site_code_bytes(const Site& site);
// `slots`: Table::slots(). False when the site is too far away from `at`.
bool make_site_code(const Site& site, std::uint64_t site_address, const void* slots, std::uint8_t* at);

#if defined(__x86_64__)
// A stack that calls are looked at from: it lies below this. A thread has those that it has ever needed at once, since
// a signal handler may come while a call is being looked at.
struct alignas(64) Level {
    std::uint64_t program_stack;  // where the program's own is
    Level* next;                  // free one of the thread
    std::uint64_t resume;         // of a shared one: where to go on
    std::uint64_t shared;         // 1 and more: one of those that all threads share
};

// The program's registers, as the code at a site has saved them.
struct Registers {
    std::uint64_t rbx, r9, r8, r10, rdx, rsi, rdi, rax, flags;
    std::uint64_t resume;  // the call's place in the site's code; where to go on from here
};

// Places in a site's code.
std::uint64_t claim_of(std::uint64_t call);    // a free stack is taken, and all begins anew
std::uint64_t release_of(std::uint64_t call);  // the stack is given back, and the call is made
std::uint64_t done_of(std::uint64_t call);     // the same, but the call has been made
#endif

}  // namespace chainio::shim
