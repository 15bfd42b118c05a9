// What a run did, for people and for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runtime/engine/engine.h"

namespace chainio::tool {

// Some lines for stderr: outcomes, reads, syscalls, latencies, fallbacks with their reasons.
std::string summary_text(const engine::Engine& engine, std::uint32_t chain, double seconds);
// Without `seconds` of who has no beginning and end.
std::string summary_json(const engine::Engine& engine, std::uint32_t chain, std::optional<double> seconds);
// One line for each fallback; empty without any.
std::string fallbacks_text(const metrics::Fallbacks& fallbacks);
nlohmann::ordered_json fallbacks_json(const metrics::Fallbacks& fallbacks);

}  // namespace chainio::tool
