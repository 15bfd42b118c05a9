#include "runtime/shim/reach.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "runtime/shim/next.h"
#include "runtime/shim/post.h"
#include "runtime/shim/protocol.h"
#include "runtime/shim/raw.h"

namespace chainio::shim {
namespace {

constexpr char kName[] = "/libchainio.so", kExpanded[] = "/$LIB/";
constexpr char kVariable[] = "LD_PRELOAD=";
constexpr std::size_t kVariableLength = sizeof kVariable - 1;
constexpr char kBetween[] = ": ";

constinit char own_path[kMaxPath + 1] = {};
constinit char own_place[kMaxPath + 1] = {};  // what of it has to be there: `$LIB` only the loader knows
constinit const char* loaded = nullptr;       // with `$LIB` as this program's loader has it
constinit const char* first_list = nullptr;   // in memory that the kernel has made for the program's environment

std::size_t length_of_part(const char* part) { return std::strcspn(part, kBetween); }
const char* next_part(const char* part) {
    part += length_of_part(part);
    return part + std::strspn(part, kBetween);
}

bool is_ours(const char* part) {
    const std::size_t length = length_of_part(part);
    return std::strlen(own_path) == length && std::memcmp(part, own_path, length) == 0;
}

bool names_library(const char* part, std::size_t length) {
    constexpr std::size_t kNameLength = sizeof kName - 1;
    return part[0] == '/' && length >= kNameLength && length < sizeof own_path &&
           std::memcmp(part + length - kNameLength, kName, kNameLength) == 0;
}

bool is_preload(const char* variable) { return std::strncmp(variable, kVariable, kVariableLength) == 0; }

enum class Reach : std::uint8_t { is_asked, within, out };
constinit std::atomic<Reach> reach_of_process{Reach::is_asked};

Reach known_reach() {
    const auto child = static_cast<Reach>(producer.silent);
    return child != Reach::is_asked ? child : reach_of_process.load(std::memory_order_relaxed);
}

// A filter of system calls that refuses the question says nothing of the library.
bool out_of_reach() {
    if (own_path[0] == 0) return false;
    if (const Reach known = known_reach(); known != Reach::is_asked) return known == Reach::out;
    const long found = raw_call(SYS_faccessat, AT_FDCWD, word(own_place), F_OK);
    return failed(found) && found != -EPERM && found != -ENOSYS;
}

// The kernel says so of what this program cannot read. A filter of system calls that refuses the question says nothing,
// and one that may end the process for it is not asked.
bool readable(const void* at, std::size_t bytes) {
    if (known_reach() != Reach::is_asked) return true;
    char copy[sizeof(char*)];
    const iovec into{copy, bytes}, from{const_cast<void*>(at), bytes};
    const long got = raw_call(SYS_process_vm_readv, raw_call(SYS_getpid), word(&into), 1, word(&from), 1, 0);
    return got == static_cast<long>(bytes) || (failed(got) && got != -EFAULT);
}

bool readable_text(const char* text) {
    constexpr std::uintptr_t kPageBytes = 4096;
    while (readable(text, 1)) {
        const std::size_t rest = kPageBytes - reinterpret_cast<std::uintptr_t>(text) % kPageBytes;
        if (std::memchr(text, 0, rest)) return true;
        text += rest;
    }
    return false;
}

// Of one that is not, the kernel tells who passes it on: EFAULT.
bool readable_environment(char* const* environment) {
    for (; readable(environment, sizeof *environment); ++environment) {
        if (!*environment) return true;
        if (!readable_text(*environment)) return false;
    }
    return false;
}

// `to` has room for all of the variable; empty where nothing else is preloaded.
char* copy_others(const char* variable, char* to) {
    char* const begin = to;
    for (const char* part = variable + kVariableLength; *part; part = next_part(part)) {
        const std::size_t length = length_of_part(part);
        if (length == 0 || is_ours(part)) continue;
        if (to == begin) {
            std::memcpy(to, kVariable, kVariableLength);
            to += kVariableLength;
        } else {
            *to++ = ':';
        }
        std::memcpy(to, part, length);
        to += length;
    }
    *to = 0;
    return to;
}

// Whether anything is left of a variable without our entry. What a program has put there itself is not written to: it
// may be a constant.
bool keeps_others(char* variable) {
    char* part = variable + kVariableLength;
    const bool writable = part == first_list;
    bool others = false;
    while (*part) {
        char* next = const_cast<char*>(next_part(part));
        const bool leaves = is_ours(part);
        if (leaves && writable) {
            std::memmove(part, next, std::strlen(next) + 1);
            continue;
        }
        others |= !leaves;
        part = next;
    }
    return others;
}

}  // namespace

void learn_own_entry() {
    const char* list = first_list = secure_getenv("LD_PRELOAD");
    for (const char* part = list; part && *part; part = next_part(part)) {
        const std::size_t length = length_of_part(part);
        if (!names_library(part, length)) continue;
        std::memcpy(own_path, part, length);
        std::memcpy(own_place, part, length);
        if (char* expanded = std::strstr(own_place, kExpanded)) *expanded = 0;
        loaded = file_of(own_path);
        return;
    }
}

static Reach ask_now() { return out_of_reach() ? Reach::out : Reach::within; }

void ask_no_more() { reach_of_process.store(ask_now(), std::memory_order_relaxed); }

void fall_silent() {
    producer.silent = static_cast<std::uint32_t>(ask_now());
    raw_call(SYS_set_tid_address, word(const_cast<std::uint32_t*>(&producer.silent)));
}

const char* loaded_file() { return loaded; }

std::size_t room_without_us(char* const* environment, bool complains) {
    constexpr std::size_t kMostRoom = 16 * 1024;  // of a stack that may be small; then the loader says what it says
    if (!environment || !(complains ? own_path[0] != 0 : out_of_reach())) [[likely]]
        return 0;
    if (!readable_environment(environment)) return 0;
    std::size_t room = sizeof(char*);
    bool ours = false;
    for (char* const* each = environment; *each; ++each) {
        room += sizeof(char*);
        if (!is_preload(*each)) continue;
        room += std::strlen(*each) + 1;
        for (const char* part = *each + kVariableLength; *part; part = next_part(part)) ours = ours || is_ours(part);
    }
    return ours && room <= kMostRoom ? room : 0;
}

char* const* without_us(char* const* environment, void* room) {
    auto** out = static_cast<char**>(room);
    std::size_t count = 0;
    while (environment[count]) ++count;
    char* text = reinterpret_cast<char*>(out + count + 1);
    for (char* const* each = environment; *each; ++each) {
        if (!is_preload(*each)) {
            *out++ = *each;
            continue;
        }
        char* const end = copy_others(*each, text);
        if (end != text) *out++ = text;
        text = end + 1;
    }
    *out = nullptr;
    return static_cast<char* const*>(room);
}

void leave_environment(bool is_refused_us) {
    if (!environ || !(is_refused_us || out_of_reach())) [[likely]]
        return;
    char** to = environ;
    for (char** each = environ; *each; ++each) {
        if (is_preload(*each) && !keeps_others(*each)) continue;
        if (to != each) *to = *each;
        ++to;
    }
    if (*to) *to = nullptr;
}

}  // namespace chainio::shim
