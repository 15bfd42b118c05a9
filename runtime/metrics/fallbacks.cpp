#include "runtime/metrics/fallbacks.h"

#include <algorithm>

namespace chainio::metrics {

Fallback* Fallbacks::find(std::string_view name, std::string_view reason) {
    const auto found =
        std::ranges::find_if(all_, [=](const Fallback& each) { return each.name == name && each.reason == reason; });
    return found == all_.end() ? nullptr : &*found;
}

void Fallbacks::note(std::string_view name, std::string_view reason, std::uint64_t times) {
    Fallback* known = find(name, reason);
    if (known == nullptr &&
        std::ranges::count(all_, name, &Fallback::name) >= static_cast<std::ptrdiff_t>(kMostReasons)) {
        reason = kOtherReasons;
        known = find(name, reason);
    }
    if (known == nullptr) known = &all_.emplace_back(std::string(name), std::string(reason));
    known->count += times;
}

std::string Fallbacks::last_reason(std::string_view name) const {
    const auto found = std::ranges::find(all_.rbegin(), all_.rend(), name, &Fallback::name);
    return found == all_.rend() ? "" : found->reason;
}

std::uint64_t Fallbacks::count(std::string_view name) const {
    std::uint64_t total = 0;
    for (const auto& fallback : all_) {
        if (fallback.name == name) total += fallback.count;
    }
    return total;
}

}  // namespace chainio::metrics
