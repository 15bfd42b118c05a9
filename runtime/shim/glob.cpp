#include "runtime/shim/glob.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "runtime/shim/protocol.h"

namespace chainio::shim {
namespace {

// The positions of a pattern at which a match of the text so far may stand. Small, since it may lie on a signal
// handler's stack.
struct Positions {
    static constexpr unsigned kWords = kMaxPattern / 64 + 1;
    std::uint64_t bits[kWords];

    void put(unsigned at) { bits[at / 64] |= std::uint64_t{1} << at % 64; }
    bool has(unsigned at) const { return bits[at / 64] >> at % 64 & 1; }
};

unsigned stars(const char* pattern, unsigned at) {
    unsigned count = 0;
    while (pattern[at + count] == '*') ++count;
    return count;
}

// Adds a position, and what stands behind stars there, since those may match nothing.
void reach(const char* pattern, unsigned at, Positions& positions) {
    positions.put(at);
    if (const unsigned run = stars(pattern, at)) positions.put(at + run);
}

// The position behind the set that begins at `at`, or 0 when it has no end and '[' means itself.
unsigned set_end(const char* pattern, unsigned at) {
    unsigned next = at + 1;
    if (pattern[next] == '!') ++next;
    for (bool first = true; pattern[next]; first = false) {
        if (pattern[next] == ']' && !first) return next + 1;
        if (pattern[next] == '\\' && pattern[next + 1]) ++next;
        ++next;
    }
    return 0;
}

unsigned char set_member(const char* pattern, unsigned& at) {
    if (pattern[at] == '\\') ++at;
    return static_cast<unsigned char>(pattern[at++]);
}

bool in_set(const char* pattern, unsigned at, unsigned end, unsigned char c) {
    unsigned next = at + 1;
    const bool inverted = pattern[next] == '!';
    if (inverted) ++next;
    bool found = false;
    while (next < end - 1) {
        const unsigned char low = set_member(pattern, next);
        unsigned char high = low;
        if (pattern[next] == '-' && next + 1 < end - 1) {
            ++next;
            high = set_member(pattern, next);
        }
        found = found || (low <= c && c <= high);
    }
    return found != inverted;
}

void step(const char* pattern, unsigned at, char c, Positions& next) {
    const char token = pattern[at];
    if (const unsigned run = stars(pattern, at)) {
        if (run > 1 || c != '/') reach(pattern, at, next);
        return;
    }
    if (token == '?') {
        if (c != '/') reach(pattern, at + 1, next);
        return;
    }
    if (const unsigned end = token == '[' ? set_end(pattern, at) : 0) {
        if (c != '/' && in_set(pattern, at, end, static_cast<unsigned char>(c))) reach(pattern, end, next);
        return;
    }
    if (token == '\\' && pattern[at + 1]) ++at;
    if (pattern[at] && pattern[at] == c) reach(pattern, at + 1, next);
}

const char* after_last_slash(const char* text) {
    const char* last = text;
    for (; *text; ++text)
        if (*text == '/') last = text + 1;
    return last;
}

constexpr char kSpecial[] = "*?[\\";

// Whether a text matches stars with `tail` behind them, which stands for itself. One star crosses no '/'.
bool stars_match(const char* tail, const char* text, bool crosses) {
    const std::size_t length = std::strlen(text), tail_length = std::strlen(tail);
    if (length < tail_length || std::memcmp(text + length - tail_length, tail, tail_length) != 0) return false;
    return crosses || std::memchr(text, '/', length - tail_length) == nullptr;
}

// What a pattern comes to of which nothing but stars at one place is special, as most are: the matcher below takes half
// a microsecond for a path, beside the opening of a file. `pattern` and `text` go past what stands for itself at first.
enum class Plain { matches, differs, neither };
Plain match_plainly(const char*& pattern, const char*& text) {
    const std::size_t same = std::strcspn(pattern, kSpecial);
    if (std::strncmp(pattern, text, same) != 0) return Plain::differs;
    pattern += same;
    text += same;
    if (!*pattern) return *text ? Plain::differs : Plain::matches;
    const unsigned run = stars(pattern, 0);
    const char* const tail = pattern + run;
    if (run == 0 || tail[std::strcspn(tail, kSpecial)]) return Plain::neither;
    return stars_match(tail, text, run > 1) ? Plain::matches : Plain::differs;
}

}  // namespace

bool glob_matches(const char* pattern, const char* path) {
    bool whole = false;
    unsigned length = 0;
    for (; pattern[length]; ++length) {
        if (length + 1 >= kMaxPattern) return false;  // longer than a rule can hold
        whole = whole || pattern[length] == '/';
    }
    if (!whole) path = after_last_slash(path);
    const char* const begin = pattern;
    const Plain plain = match_plainly(pattern, path);
    if (plain != Plain::neither) return plain == Plain::matches;
    length -= static_cast<unsigned>(pattern - begin);
    const unsigned words = length / 64 + 1;
    Positions sets[2]{};
    reach(pattern, 0, sets[0]);
    unsigned now = 0;
    for (; *path; ++path, now ^= 1) {
        Positions& next = sets[now ^ 1];
        std::uint64_t any = 0;
        for (unsigned i = 0; i < words; ++i) next.bits[i] = 0;
        for (unsigned i = 0; i < words; ++i)
            for (std::uint64_t rest = sets[now].bits[i]; rest != 0; rest &= rest - 1)
                step(pattern, i * 64 + static_cast<unsigned>(std::countr_zero(rest)), *path, next);
        for (unsigned i = 0; i < words; ++i) any |= next.bits[i];
        if (any == 0) return false;
    }
    return sets[now].has(length);
}

}  // namespace chainio::shim
