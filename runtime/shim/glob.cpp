#include "runtime/shim/glob.h"

#include <cstdint>
#include <cstring>

#include "runtime/shim/protocol.h"

namespace chainio::shim {
namespace {

// The positions of a pattern at which a match of the text so far may stand. Each is held once, which is what bounds the
// work.
struct Positions {
    std::uint16_t list[kMaxPattern + 1];
    std::uint16_t index[kMaxPattern + 1];  // where in the list a position would be
    unsigned count = 0;

    explicit Positions(unsigned length) { std::memset(index, 0, (length + 1) * sizeof index[0]); }

    bool has(unsigned at) const { return index[at] < count && list[index[at]] == at; }
    void put(unsigned at) {
        if (has(at)) return;
        index[at] = static_cast<std::uint16_t>(count);
        list[count++] = static_cast<std::uint16_t>(at);
    }
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

}  // namespace

bool glob_matches(const char* pattern, const char* path) {
    bool whole = false;
    unsigned length = 0;
    for (; pattern[length]; ++length) {
        if (length + 1 >= kMaxPattern) return false;  // longer than a rule can hold
        whole = whole || pattern[length] == '/';
    }
    if (!whole) path = after_last_slash(path);
    Positions sets[2] = {Positions(length), Positions(length)};
    reach(pattern, 0, sets[0]);
    unsigned now = 0;
    for (; *path; ++path, now ^= 1) {
        Positions& next = sets[now ^ 1];
        next.count = 0;
        for (unsigned i = 0; i < sets[now].count; ++i) step(pattern, sets[now].list[i], *path, next);
        if (next.count == 0) return false;
    }
    return sets[now].has(length);
}

}  // namespace chainio::shim
