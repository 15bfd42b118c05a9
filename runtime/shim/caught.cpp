// A program's own system call that is to be looked at: from the registers to what libc's function would have been.
#include "runtime/shim/rewrite.h"

#if defined(__x86_64__)

#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/shim/indirect.h"
#include "runtime/shim/next.h"
#include "runtime/shim/numbers.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/without_signals.h"

using chainio::shim::Level;
using chainio::shim::Registers;

extern "C" {
// The two bits of a call's number: 0 it goes on as it is, 1 when its descriptor is watched, 2 it is looked at.
[[gnu::visibility("hidden")]] constinit std::uint8_t chainio_catch_kinds[65'536]{};
[[gnu::visibility("hidden")]] constinit thread_local Level* chainio_catch_free [[gnu::tls_model("initial-exec")]] =
    nullptr;
// A thread's first call is looked at from one of these stacks, which all threads share: null while a thread has it.
[[gnu::visibility("hidden")]] constinit std::atomic<Level*> chainio_catch_shared[16]{};
[[gnu::visibility("hidden")]] constinit std::uint64_t chainio_catch_missed = 0;
[[gnu::visibility("hidden")]] constinit std::uint32_t chainio_catch_state = 0;  // what xsave is to save

void chainio_catch_give_back();
[[gnu::visibility("hidden")]] void chainio_catch_seen(Registers* in, Level* level);
}

// What the code at a site comes to. `entry`: on a stack of ours, r11 is the place of the call. The program may hold
// something in any register, and libc uses the widest there are to copy memory. `none`: on the program's stack, with
// rcx zero, because the thread has no free stack. A shared one is waited for, but not for long: who comes in a signal
// handler of the thread that has it would wait for ever. `give_back`: one for each of those, 16 bytes apart.
__asm__(R"(
    .intel_syntax noprefix
    .pushsection .text
    .globl chainio_catch_none, chainio_catch_entry
    .hidden chainio_catch_none, chainio_catch_entry
    .p2align 4
chainio_catch_none:
    .rept 4
    .set slot, 0
    .rept 16
    xchg rcx, qword ptr [rip + chainio_catch_shared + 8 * slot]
    jrcxz 1f
    jmp 3f
1:
    .set slot, slot + 1
    .endr
    mov ecx, 250
2:  pause
    loop 2b
    .endr
    mov rcx, [rip + chainio_catch_missed]
    lea rcx, [rcx + 1]
    mov [rip + chainio_catch_missed], rcx
    jmp r11
3:  mov [rcx], rsp
    mov rsp, rcx
chainio_catch_entry:
    push r11
    pushfq
    cld
    push rax
    push rdi
    push rsi
    push rdx
    push r10
    push r8
    push r9
    push rbx
    mov rbx, rsp
    mov rdi, rsp
    lea rsi, [rsp + 80]
    sub rsp, 4096
    and rsp, -64
    xor eax, eax
    mov [rsp + 512], rax
    mov [rsp + 520], rax
    mov [rsp + 528], rax
    mov [rsp + 536], rax
    mov [rsp + 544], rax
    mov [rsp + 552], rax
    mov [rsp + 560], rax
    mov [rsp + 568], rax
    mov eax, [rip + chainio_catch_state]
    xor edx, edx
    xsave64 [rsp]
    call chainio_catch_seen
    mov eax, [rip + chainio_catch_state]
    xor edx, edx
    xrstor64 [rsp]
    mov rsp, rbx
    pop rbx
    pop r9
    pop r8
    pop r10
    pop rdx
    pop rsi
    pop rdi
    pop rax
    popfq
    pop r11
    mov rcx, rsp
    mov rsp, [rcx]
    jmp r11
    .p2align 4
chainio_catch_give_back:
    .set slot, 0
    .rept 16
    .p2align 4
    mov r11, [rcx + 16]
    mov [rip + chainio_catch_shared + 8 * slot], rcx
    jmp r11
    .set slot, slot + 1
    .endr
    .popsection
    .att_syntax
)");

namespace chainio::shim {
namespace {

static_assert(offsetof(Registers, resume) == 72 && offsetof(Level, next) == 8 && offsetof(Level, resume) == 16);

constexpr long kLevelBytes = 256 * 1024, kGuard = 4096;
constexpr unsigned kMostLevels = 8192;  // of a process: handlers that jump out of the call they came in lose one

constinit Region* counted = nullptr;
constinit std::atomic<unsigned> levels{0};

// Its descriptor lies at the upper end, and below the lower end is a page that nobody may touch.
Level* make_level() {
    if (levels.fetch_add(1) >= kMostLevels) return nullptr;
    const long memory =
        raw_call(SYS_mmap, 0, kLevelBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (failed(memory)) return nullptr;
    if (failed(raw_call(SYS_mprotect, memory + kGuard, kLevelBytes - kGuard, PROT_READ | PROT_WRITE))) {
        raw_call(SYS_munmap, memory, kLevelBytes);
        return nullptr;
    }
    return reinterpret_cast<Level*>(memory + kLevelBytes - static_cast<long>(sizeof(Level)));
}

// The thread gets a stack of its own. No signal handler may keep the shared one meanwhile.
bool add_level() {
    const WithoutSignals no_handler_takes_it;
    Level* level = make_level();
    if (!level) return false;
    level->next = chainio_catch_free;
    chainio_catch_free = level;
    release_at_thread_end();
    return true;
}

long six(long number, long a, long b, long c, long d, long e, long f) { return raw_call(number, a, b, c, d, e, f); }

// Whether the call has been made.
bool look(long number, const Arguments& in, long& result) {
    counted->rewriting.calls.fetch_add(1, std::memory_order_relaxed);
    if (chainio_catch_missed != 0)
        counted->rewriting.missed.fetch_add(std::exchange(chainio_catch_missed, 0), std::memory_order_relaxed);
    if (number != SYS_arch_prctl) return seen_by_number(six, number, in, result);
    if (in.a == ARCH_SET_FS)
        end_catching("it moves its thread-local memory; from then on its own system calls are not seen");
    return false;
}

// The registers that libc may use, and where the kernel's and the processor's idea of them end.
const char* choose_state() {
    constexpr unsigned kSaves = 1U << 27, kStateLeaf = 0xd, kVectors = 0xe6, kRoom = 4096 - 64;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kSaves)) return "this processor has no xsave";
    unsigned low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    for (unsigned part = 2; part < 8; ++part) {
        if (!(low & kVectors & 1U << part)) continue;
        if (!__get_cpuid_count(kStateLeaf, part, &a, &b, &c, &d) || a + b > kRoom)
            return "this processor's registers need more room than there is";
    }
    chainio_catch_state = low & kVectors;
    return nullptr;
}

}  // namespace

const char* start_catching(const Region& region) {
    if (const char* why = choose_state()) return why;
    std::uint64_t index = 0;
    for (auto& slot : chainio_catch_shared) {
        Level* level = make_level();
        if (!level) return "there is no memory for a stack";
        level->shared = ++index;
        slot.store(level);
    }
    counted = const_cast<Region*>(&region);
    const bool sockets = region.plan.socket_count != 0 || region.plan.explain != 0;
    for (const Number& row : kNumbers) {
        if (row.care == Care::sockets && !sockets) continue;
        chainio_catch_kinds[row.number] = row.care == Care::descriptor ? 1 : 2;
    }
    look_at_handlers();
    return nullptr;
}

void stop_catching() {
    for (const Number& row : kNumbers) chainio_catch_kinds[row.number] = 0;
}

bool catching() { return chainio_catch_kinds[SYS_openat] != 0; }

void end_catching(const char* why) {
    post_note(Note::not_rewritten, why);
    stop_catching();
}

void release_levels() {
    while (Level* level = chainio_catch_free) {
        chainio_catch_free = level->next;
        raw_call(SYS_munmap, word(level) + static_cast<long>(sizeof(Level)) - kLevelBytes, kLevelBytes);
        levels.fetch_sub(1);
    }
}

}  // namespace chainio::shim

void chainio_catch_seen(Registers* in, Level* level) {
    using namespace chainio::shim;
    const std::uint64_t call = in->resume;
    if (level->shared != 0) {
        const bool added = add_level();
        if (!added) ++chainio_catch_missed;
        level->resume = added ? claim_of(call) : call;
        constexpr std::uint64_t kApart = 16;
        in->resume = reinterpret_cast<std::uint64_t>(&chainio_catch_give_back) + (level->shared - 1) * kApart;
        return;
    }
    const int error = errno;
    errno = 0;
    const Arguments arguments{static_cast<long>(in->rdi), static_cast<long>(in->rsi), static_cast<long>(in->rdx),
                              static_cast<long>(in->r10), static_cast<long>(in->r8),  static_cast<long>(in->r9)};
    long result = 0;
    const bool made = look(static_cast<int>(in->rax), arguments, result);
    if (made) in->rax = static_cast<std::uint64_t>(result);
    in->resume = made ? done_of(call) : release_of(call);
    errno = error;
}

#else

#include "runtime/shim/shim.h"

namespace chainio::shim {

const char* start_catching(const Region&) { return "that takes a processor of the x86-64 kind"; }
void stop_catching() {}
bool catching() { return false; }
void end_catching(const char*) {}
void release_levels() {}

}  // namespace chainio::shim

#endif
