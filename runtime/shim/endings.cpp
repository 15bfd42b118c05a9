#include "runtime/shim/endings.h"

#include <bit>
#include <cstring>

namespace chainio::shim {
namespace {

// The first byte of a text lies lowest in a word here, as in memory.
static_assert(std::endian::native == std::endian::little);
constexpr unsigned kWord = sizeof(std::uint64_t), kByteBits = 8;

// The last bytes of a text, the very last one highest.
[[gnu::noinline]] std::uint64_t short_word(const char* text, std::size_t length) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < length; ++i)
        word |= std::uint64_t{static_cast<unsigned char>(text[i])} << kByteBits * (kWord - length + i);
    return word;
}

inline std::uint64_t last_word(const char* text, std::size_t length) {
    if (length < kWord) return short_word(text, length);
    std::uint64_t word = 0;
    std::memcpy(&word, text + length - kWord, kWord);
    return word;
}

}  // namespace

// Behind the last byte that may mean something else, and within the last part of the path.
Endings::Ending Endings::ending_of(const char* pattern) {
    const std::size_t length = strnlen(pattern, kMaxPattern);
    std::size_t count = 0;
    while (count < kWord && count < length && !std::strchr("*?[]\\/", pattern[length - 1 - count])) ++count;
    if (count == 0) return {0, 0};
    const std::uint64_t bits = ~std::uint64_t{0} << kByteBits * (kWord - count);
    return {last_word(pattern, length) & bits, bits};
}

void Endings::learn(const Plan& plan, bool all) {
    all_ = all;
    for (bool& refused : refused_) refused = true;
    for (count_ = 0; count_ < plan.class_count; ++count_) {
        const Ending& ending = endings_[count_] = ending_of(plan.classes[count_].pattern);
        all_ = all_ || ending.bits == 0;
        const auto last = static_cast<char>(ending.word >> kByteBits * (kWord - 1));
        const auto before = static_cast<char>(ending.word >> kByteBits * (kWord - 2));
        refused_[mixed(before, last)] = false;
        for (bool& refused : refused_) refused = refused && before != 0;  // of one byte: any may be before it
    }
    for (bool& refused : refused_) refused = refused && !all_;
}

bool Endings::may_match(const char* path) const {
    if (all_) return true;
    const std::size_t length = length_of(path);
    const std::uint64_t word = last_word(path, length);
    for (unsigned i = 0; i < count_; ++i)
        if (((word ^ endings_[i].word) & endings_[i].bits) == 0) return true;
    return false;
}

}  // namespace chainio::shim
