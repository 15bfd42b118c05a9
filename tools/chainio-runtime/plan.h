// What a runtime would do with each part of an artifact: run it, and by which engine, or refuse it by name.
#pragma once
#include <string>
#include <vector>

#include "runtime/service/server.h"
#include "runtime/spec/loaded.h"

namespace chainio::runtime_tool {

struct PlanRow {
    std::string kind, name;
    std::string state;  // "runs", "refused", "recorded"
    std::string why;
};

// With `kernel` by the kernel engine; `tried`: by the user engine, until a trial is over. `no_ring`: why there is no
// io_uring, without which no service runs; empty where there is one. `ports`: where services are instead of where the
// spec has them.
std::vector<PlanRow> plan_of(const spec::Loaded& spec, const std::string& engine, bool kernel, bool tried,
                             const std::string& no_ring, const std::vector<service::Server::Port>& ports);
std::string plan_text(const std::vector<PlanRow>& rows);
std::string plan_json(const std::vector<PlanRow>& rows);

}  // namespace chainio::runtime_tool
