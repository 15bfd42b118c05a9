// What the verifier said of an artifact's programs, as a line of JSON has it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "compiler/backends/backends.h"

namespace chainio::tests {

using Json = nlohmann::ordered_json;

inline Json described(const std::string& path, const backends::VerifyResult& result) {
    Json programs = Json::array();
    for (const auto& p : result.loaded) {
        programs.push_back({{"program", p.program},
                            {"loads", true},
                            {"processed", p.instructions_processed},
                            {"peak_states", p.peak_states},
                            {"most_states_per_instruction", p.most_states_per_instruction},
                            {"stack", p.stack}});
    }
    for (const auto& p : result.failed)
        programs.push_back({{"program", p.program}, {"loads", false}, {"message", p.message}});
    return {{"artifact", path}, {"permitted", result.permitted}, {"why", result.why}, {"programs", programs}};
}

inline std::string line_of(const Json& said) { return said.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace chainio::tests
