#include "runtime/metrics/fallbacks.h"

namespace chainio::metrics {

void Fallbacks::note(std::string_view name, std::string_view reason, std::uint64_t times) {
    for (auto& fallback : all_) {
        if (fallback.name != name || fallback.reason != reason) continue;
        fallback.count += times;
        return;
    }
    all_.push_back({std::string(name), std::string(reason), times});
}

std::uint64_t Fallbacks::count(std::string_view name) const {
    std::uint64_t total = 0;
    for (const auto& fallback : all_) {
        if (fallback.name == name) total += fallback.count;
    }
    return total;
}

}  // namespace chainio::metrics
