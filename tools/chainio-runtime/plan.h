// What a runtime would do with each part of an artifact: run it, and by which engine, or refuse it by name.
#pragma once
#include <string>
#include <vector>

#include "tools/chainio-runtime/edition.h"

namespace chainio::runtime_tool {

struct PlanRow {
    std::string kind, name;
    std::string state;  // "runs", "refused", "recorded"
    std::string why;
};

// `tried`: by the user engine, until a trial is over. `no_ring`: why there is no io_uring, without which no service
// runs; empty where there is one.
std::vector<PlanRow> plan_of(const Edition& edition, const std::string& engine, bool tried, const std::string& no_ring);
std::string plan_text(const std::vector<PlanRow>& rows);
std::string plan_json(const std::vector<PlanRow>& rows);

}  // namespace chainio::runtime_tool
