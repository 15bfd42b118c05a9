// "Did you mean": optimal string alignment distance, so that one swap of neighbours counts as one mistake.
#include <algorithm>
#include <array>
#include <cctype>

#include "compiler/diag/diag.h"

namespace chainio::diag {
namespace {

constexpr std::size_t longest_word = 64;  // keeps the table on the stack and the work bounded

bool same_letter(char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

std::size_t distance(std::string_view a, std::string_view b) {
    using Row = std::array<std::size_t, longest_word + 1>;
    Row before_last{}, last{}, current{};
    for (std::size_t j = 0; j <= b.size(); j++) last[j] = j;
    for (std::size_t i = 1; i <= a.size(); i++) {
        current[0] = i;
        for (std::size_t j = 1; j <= b.size(); j++) {
            const std::size_t change = same_letter(a[i - 1], b[j - 1]) ? 0 : 1;
            current[j] = std::min({last[j] + 1, current[j - 1] + 1, last[j - 1] + change});
            const bool swapped = i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
            if (swapped) current[j] = std::min(current[j], before_last[j - 2] + 1);
        }
        before_last = last;
        last = current;
    }
    return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
    if (word.empty() || word.size() > longest_word) return std::nullopt;
    // A third of the letters may be wrong, at least one; a word of one letter is only ever the other case of a letter.
    const std::size_t allowed = word.size() == 1 ? 0 : std::max<std::size_t>(1, word.size() / 3);
    std::optional<std::string> best;
    std::size_t best_distance = allowed + 1;
    for (const std::string& candidate : candidates) {
        if (candidate.empty() || candidate.size() > longest_word || candidate == word) continue;
        const std::size_t found = distance(word, candidate);
        if (found < best_distance || (found == best_distance && best && candidate < *best)) {
            best = candidate;
            best_distance = found;
        }
    }
    return best;
}

}  // namespace chainio::diag
