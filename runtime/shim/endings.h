// What paths end in that some class could match: an open of any other costs its program this look and no more. It is
// written out here since each instruction counts that follows a system call.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "runtime/shim/protocol.h"

namespace chainio::shim {

// As strlen, in a few instructions: after a system call each of them counts, and each jump to another place does more.
// Whole blocks are read, which no page's end divides.
#ifdef __SSE2__
[[clang::no_sanitize("address", "thread")]] inline std::size_t length_of(const char* text) {
    constexpr std::size_t kBlock = sizeof(__m128i);
    const std::size_t skipped = reinterpret_cast<std::uintptr_t>(text) % kBlock;
    const auto* block = reinterpret_cast<const __m128i*>(text - skipped);
    const auto zeros = [](__m128i bytes) {
        return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128())));
    };
    unsigned found = zeros(_mm_load_si128(block)) >> skipped;
    if (found != 0) return static_cast<unsigned>(std::countr_zero(found));
    std::size_t length = kBlock - skipped;
    while ((found = zeros(_mm_load_si128(++block))) == 0) length += kBlock;
    return length + static_cast<unsigned>(std::countr_zero(found));
}
#else
inline std::size_t length_of(const char* text) { return std::strlen(text); }
#endif

class Endings {
  public:
    // `all`: every path is of interest, as before anything is learnt.
    void learn(const Plan& plan, bool all);
    // Whether the last two bytes may be those of some ending. An empty path cannot have been opened.
    bool ends_well(const char* path) const {
        const std::size_t length = length_of(path);
        const char* last = path + length + (length < 2) - 1;  // of one byte it is the zero behind it
        return static_cast<unsigned>(length < 2) | !refused_[mixed(last[-1], *last)];
    }
    // False only when no class matches any file whose path has the same last part.
    bool may_match(const char* path) const;

  private:
    // The last bytes of a pattern that stand for themselves, at most eight, as one word and the bits of it that count.
    struct Ending {
        std::uint64_t word, bits;
    };
    static Ending ending_of(const char* pattern);

    static unsigned char mixed(char last_but_one, char last) { return static_cast<unsigned char>(last_but_one ^ last); }

    bool refused_[256] = {};  // by the last two bytes of a path, mixed: no ending ends in such
    bool all_ = true;
    unsigned count_ = 0;
    Ending endings_[kMaxClasses] = {};
};

}  // namespace chainio::shim
