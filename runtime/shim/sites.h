// What `chainio-sites` tells the preload library of a program that makes system calls without libc: where they are, and
// which instructions around each make room for a jump. Written to a file: a SiteList, then `count` Sites. The library
// believes nothing of it that it has not compared with the program's memory.
#pragma once
#include <cstdint>

namespace chainio::shim {

inline constexpr std::uint64_t kSitesMagic = 0x3173657469736f63;  // "cosites1"
inline constexpr std::uint32_t kMaxSites = 1024, kMaxWindow = 32, kJumpBytes = 5, kMaxReason = 240;

struct SiteList {
    std::uint64_t magic;
    std::uint32_t count;
    std::uint32_t others;      // calls by a number that nobody looks at
    std::uint32_t unknown;     // bytes outside of any function that could be a call
    std::uint32_t unused;      // where padding would be
    char refused[kMaxReason];  // why nothing is to be replaced, or empty; ends with a NUL
};

// Some whole instructions that lie behind one another, one of them the call. Nothing jumps between them, each of the
// others means the same wherever it stands, and the last may be a return with padding behind it.
struct Site {
    std::uint64_t address;  // of the first, as the file numbers addresses
    std::uint8_t bytes;     // of all of them, at least kJumpBytes
    std::uint8_t call_at;   // where in them the two bytes of the call are
    std::uint8_t code[kMaxWindow];
    std::uint8_t unused[6];  // as well
};
static_assert(sizeof(Site) == 48);

}  // namespace chainio::shim
