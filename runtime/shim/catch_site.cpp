// The machine code between a program's system call and its being looked at.
//
// It may use what a system call changes: rcx and r11. It keeps everything else, the flags too, and writes nothing below
// the program's stack pointer: there may be a red zone, or no stack at all. So it tests by jrcxz alone. A call that
// nobody looks at is made here, a few instructions later than without us; a child that it starts goes on here.
#include <cstring>

#include "runtime/shim/rewrite.h"

#if defined(__x86_64__)

#include "runtime/shim/shim.h"

extern "C" {
extern const std::uint8_t chainio_site_code[], chainio_site_words[], chainio_site_claim[], chainio_site_done[],
    chainio_site_release[], chainio_site_call[], chainio_site_end[];
void chainio_catch_entry();
void chainio_catch_none();
extern std::uint8_t chainio_catch_kinds[];
extern constinit thread_local chainio::shim::Level* chainio_catch_free [[gnu::tls_model("initial-exec")]];
}

// Copied for each site. fs:[0x11223344] stands for the thread's free stack, chainio_site_words for four addresses.
__asm__(R"(
    .intel_syntax noprefix
    .pushsection .text
chainio_site_code:
    movzx r11d, ax
    mov rcx, [rip + chainio_site_words]
    movzx ecx, byte ptr [rcx + r11]
    jrcxz 3f
    lea ecx, [rcx - 1]
    jrcxz 4f
chainio_site_claim:
    mov rcx, qword ptr fs:[0x11223344]
    jrcxz 5f
    # A signal handler that comes in between takes the same stack, and has given it back when it returns.
    mov r11, [rcx + 8]
    mov qword ptr fs:[0x11223344], r11
    mov [rcx], rsp
    mov rsp, rcx
    lea r11, [rip + chainio_site_call]
    jmp qword ptr [rip + chainio_site_words + 16]
3:  jmp chainio_site_call
4:  movzx r11d, di
    lea r11, [r11 + r11 * 2]
    mov rcx, [rip + chainio_site_words + 8]
    mov ecx, [rcx + r11 * 8]
    jrcxz 3b
    jmp chainio_site_claim
5:  lea r11, [rip + chainio_site_call]
    jmp qword ptr [rip + chainio_site_words + 24]
chainio_site_words:
    .quad 0, 0, 0, 0
chainio_site_done:
    mov r11, qword ptr fs:[0x11223344]
    mov [rcx + 8], r11
    mov qword ptr fs:[0x11223344], rcx
    jmp chainio_site_end
chainio_site_release:
    mov r11, qword ptr fs:[0x11223344]
    mov [rcx + 8], r11
    mov qword ptr fs:[0x11223344], rcx
chainio_site_call:
    syscall
chainio_site_end:
    .popsection
    .att_syntax
)");

namespace chainio::shim {
namespace {

constexpr std::int32_t kPlaceOfFree = 0x11223344;
constexpr std::size_t kWords = 4;

std::size_t code_bytes() { return static_cast<std::size_t>(chainio_site_end - chainio_site_code); }

bool put_jump(std::uint8_t* at, std::uint64_t to) {
    const std::uint64_t from = reinterpret_cast<std::uint64_t>(at) + kJumpBytes;
    const auto distance = static_cast<std::int64_t>(to - from);
    const auto narrow = static_cast<std::int32_t>(distance);
    if (narrow != distance) return false;
    at[0] = 0xe9;
    std::memcpy(at + 1, &narrow, sizeof narrow);
    return true;
}

// How far from the thread pointer the thread's free stack is: the same for all threads.
std::int32_t place_of_free() {
    const auto place = reinterpret_cast<std::int64_t>(&chainio_catch_free) -
                       reinterpret_cast<std::int64_t>(__builtin_thread_pointer());
    return static_cast<std::int32_t>(place);
}

void fill_in(std::uint8_t* code, const void* slots) {
    const std::int32_t place = place_of_free();
    for (std::size_t i = 0; i + sizeof place <= code_bytes(); ++i)
        if (std::memcmp(code + i, &kPlaceOfFree, sizeof place) == 0) std::memcpy(code + i, &place, sizeof place);
    const std::uint64_t words[kWords] = {
        reinterpret_cast<std::uint64_t>(chainio_catch_kinds), reinterpret_cast<std::uint64_t>(slots),
        reinterpret_cast<std::uint64_t>(&chainio_catch_entry), reinterpret_cast<std::uint64_t>(&chainio_catch_none)};
    std::memcpy(code + (chainio_site_words - chainio_site_code), words, sizeof words);
}

}  // namespace

std::uint64_t claim_of(std::uint64_t call) {
    return call - static_cast<std::uint64_t>(chainio_site_call - chainio_site_claim);
}
std::uint64_t release_of(std::uint64_t call) {
    return call - static_cast<std::uint64_t>(chainio_site_call - chainio_site_release);
}
std::uint64_t done_of(std::uint64_t call) {
    return call - static_cast<std::uint64_t>(chainio_site_call - chainio_site_done);
}

std::size_t site_code_bytes(const Site& site) {
    constexpr std::size_t kAlign = 16;
    return (code_bytes() + site.bytes + kJumpBytes + kAlign - 1) & ~(kAlign - 1);
}

bool make_site_code(const Site& site, std::uint64_t site_address, const void* slots, std::uint8_t* at) {
    constexpr std::size_t kCall = 2;
    std::memcpy(at, site.code, site.call_at);
    at += site.call_at;
    std::memcpy(at, chainio_site_code, code_bytes());
    fill_in(at, slots);
    at += code_bytes();
    const std::size_t behind = site.bytes - site.call_at - kCall;
    std::memcpy(at, site.code + site.call_at + kCall, behind);
    return put_jump(at + behind, site_address + site.bytes);
}

}  // namespace chainio::shim

#endif
