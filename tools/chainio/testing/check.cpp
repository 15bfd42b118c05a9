#include "tools/chainio/testing/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/spec/outcomes.h"

namespace chainio::testing {
namespace {

using Lines = std::vector<std::string>;

std::string describe(const DoneRead& read) { return described(read); }

std::string describe(const DonePrefetch& prefetch) {
    const std::string range =
        prefetch.length == 0 && prefetch.at == 0 ? "" : fmt::format(", at: {}, for: {}", prefetch.at, prefetch.length);
    const std::string name(prefetch.name.begin(), prefetch.name.end());
    switch (prefetch.kind) {
        case CIO_PREFETCH_CHAIN:
            return fmt::format("{{ via: {}, args: [{}] }}", prefetch.target, fmt::join(prefetch.args, ", "));
        case CIO_PREFETCH_SIBLING: return fmt::format("{{ files: {}, sibling: {}{} }}", prefetch.target, name, range);
        case CIO_PREFETCH_PATH:
            return fmt::format("{{ files: {}, path: {}{} }}", prefetch.target, quoted(prefetch.name), range);
        case CIO_PREFETCH_MARK: return fmt::format("{{ mark: {}, at: {} }}", prefetch.length, prefetch.at);
        case CIO_PREFETCH_MARK_VIA:
            return fmt::format("{{ mark_via: {}, args: [{}], at: {} }}", prefetch.target,
                               fmt::join(prefetch.args, ", "), prefetch.at);
        default: return fmt::format("{{ same: true{} }}", range);
    }
}

bool matches(const ExpectedRead& expected, const DoneRead& read) {
    return (!expected.file || *expected.file == read.file) && (!expected.at || *expected.at == read.at) &&
           (!expected.length || *expected.length == read.length);
}

bool matches(const ExpectedPrefetch& expected, const DonePrefetch& prefetch) {
    if (expected.chain && (prefetch.kind != CIO_PREFETCH_CHAIN || *expected.chain != prefetch.target)) return false;
    if (expected.args && *expected.args != prefetch.args) return false;
    if (expected.files && *expected.files != prefetch.target) return false;
    if (expected.sibling && (prefetch.kind != CIO_PREFETCH_SIBLING ||
                             Bytes(expected.sibling->begin(), expected.sibling->end()) != prefetch.name))
        return false;
    if (expected.path && (prefetch.kind != CIO_PREFETCH_PATH || *expected.path != prefetch.name)) return false;
    if (expected.mark && (prefetch.kind != CIO_PREFETCH_MARK || *expected.mark != prefetch.length)) return false;
    if (expected.mark_via && (prefetch.kind != CIO_PREFETCH_MARK_VIA || *expected.mark_via != prefetch.target))
        return false;
    if (expected.same && prefetch.kind != CIO_PREFETCH_SAME) return false;
    return (!expected.at || *expected.at == prefetch.at) && (!expected.length || *expected.length == prefetch.length);
}

template <typename Wanted, typename Got>
void compare_lists(std::string_view what, std::string_view several, const std::vector<Wanted>& wanted,
                   const std::vector<Got>& got, Lines& lines) {
    for (std::size_t i = 0; i < std::min(wanted.size(), got.size()); i++) {
        if (!matches(wanted[i], got[i]))
            lines.push_back(fmt::format("{} {} is {}, which is not what is expected", what, i + 1, describe(got[i])));
    }
    if (wanted.size() != got.size())
        lines.push_back(fmt::format("{} {}, expected {}", got.size(), several, wanted.size()));
    for (std::size_t i = wanted.size(); i < got.size(); i++)
        lines.push_back(fmt::format("one more {}: {}", what, describe(got[i])));
}

void compare_integers(const std::vector<std::uint64_t>& wanted, const Bytes& bytes, Lines& lines) {
    std::vector<std::uint64_t> got(bytes.size() / 8);
    for (std::size_t i = 0; i < got.size() * 8; i++) got[i / 8] |= std::uint64_t{bytes[i]} << (8 * (i % 8));
    if (bytes.size() % 8 == 0 && got == wanted) return;
    lines.push_back(fmt::format("result is {} bytes, [{}] as 8-byte integers; expected [{}]", bytes.size(),
                                fmt::join(got, ", "), fmt::join(wanted, ", ")));
}

void compare_result(const Expected& expected, const Outcome& outcome, Lines& lines) {
    const bool scalar = outcome.kind == ir::ResultKind::scalar;
    if (expected.value) {
        if (!scalar) {
            lines.push_back("the chain gives bytes; `value` is for chains that return an integer");
        } else if (*expected.value != outcome.scalar) {
            lines.push_back(fmt::format("value is {}, expected {}", static_cast<std::int64_t>(outcome.scalar),
                                        static_cast<std::int64_t>(*expected.value)));
        }
    }
    const bool wants_bytes = expected.bytes || expected.starts_with || expected.length || expected.integers;
    if (wants_bytes && scalar) {
        lines.push_back(fmt::format("the chain gives the integer {}; `value` compares it",
                                    static_cast<std::int64_t>(outcome.scalar)));
        return;
    }
    if (expected.bytes && *expected.bytes != outcome.bytes) {
        const auto at = std::ranges::mismatch(*expected.bytes, outcome.bytes).in1 - expected.bytes->begin();
        lines.push_back(fmt::format("result is {}, expected {}; they differ from byte {} on", quoted(outcome.bytes),
                                    quoted(*expected.bytes), at));
    }
    if (expected.starts_with &&
        std::ranges::mismatch(*expected.starts_with, outcome.bytes).in1 != expected.starts_with->end()) {
        lines.push_back(fmt::format("result is {}, expected to start with {}", quoted(outcome.bytes),
                                    quoted(*expected.starts_with)));
    }
    if (expected.length && *expected.length != outcome.bytes.size()) {
        lines.push_back(fmt::format("result is {} bytes, expected {}", outcome.bytes.size(), *expected.length));
    }
    if (expected.integers) compare_integers(*expected.integers, outcome.bytes, lines);
}

void compare_work(const Expected& expected, const Outcome& outcome, Lines& lines) {
    if (expected.reads) compare_lists("read", "reads", *expected.reads, outcome.reads, lines);
    if (expected.read_count && *expected.read_count != outcome.reads.size()) {
        lines.push_back(fmt::format("{} reads, expected {}", outcome.reads.size(), *expected.read_count));
    }
    if (expected.most_reads && outcome.reads.size() > *expected.most_reads) {
        lines.push_back(fmt::format("{} reads, expected at most {}", outcome.reads.size(), *expected.most_reads));
    }
    if (expected.prefetches) compare_lists("prefetch", "prefetches", *expected.prefetches, outcome.prefetches, lines);
    if (expected.prefetch_count && *expected.prefetch_count != outcome.prefetches.size()) {
        lines.push_back(fmt::format("{} prefetches, expected {}", outcome.prefetches.size(), *expected.prefetch_count));
    }
}

}  // namespace

std::string described(const DoneRead& read) {
    return fmt::format("{{ file: {}, at: {}, for: {} }}", read.file, read.at, read.length);
}

Lines differences(const Case& test, const Outcome& outcome, const ir::Module& module) {
    Lines lines;
    const std::string name = spec::outcome_name(outcome.outcome, module.reasons);
    if (name != test.expected.outcome)
        lines.push_back(fmt::format("outcome is {}, expected {}", name, test.expected.outcome));
    // A result says nothing once the outcome is another than expected.
    if (lines.empty() && outcome.outcome == CIO_OK) compare_result(test.expected, outcome, lines);
    compare_work(test.expected, outcome, lines);
    return lines;
}

Lines disagreement(const Outcome& first, const Outcome& second, const ir::Module& module) {
    Lines lines;
    if (first.outcome != second.outcome) {
        lines.push_back(fmt::format("outcome is {} here and {} in the engine before",
                                    spec::outcome_name(second.outcome, module.reasons),
                                    spec::outcome_name(first.outcome, module.reasons)));
    }
    if (first.kind != second.kind || first.scalar != second.scalar || first.bytes != second.bytes) {
        lines.push_back(
            fmt::format("result is {} here and {} in the engine before", quoted(second.bytes), quoted(first.bytes)));
    }
    if (first.reads != second.reads) lines.push_back("the reads are not those of the engine before");
    if (first.prefetches != second.prefetches) lines.push_back("the prefetches are not those of the engine before");
    return lines;
}

}  // namespace chainio::testing
