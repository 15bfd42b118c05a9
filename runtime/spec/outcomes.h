// The names and meanings of outcomes, as users read and write them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chainio::spec {

struct OutcomeInfo {
    std::uint32_t number;
    std::string_view name;
    std::string_view meaning;
};

// The outcomes that every artifact knows, by number.
std::span<const OutcomeInfo> outcomes();

// The name of an outcome; `reasons` are the artifact's own, counted from CIO_USER. "outcome_<n>" for one that nobody
// named.
std::string outcome_name(std::uint32_t outcome, const std::vector<std::string>& reasons);

}  // namespace chainio::spec
