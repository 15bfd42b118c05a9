// Where a run of `chainio call` has ended that did not end with ok.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/spec/loaded.h"
#include "tools/chainio/call_args.h"
#include "tools/chainio/results.h"
#include "tools/chainio/testing/origin.h"

namespace chainio::tool {

// The chain is run once more, step after step, by the interpreter, as only that knows. `values` and `paths` are by
// parameter. Nothing where that run ends otherwise, as the files have changed, or would take long.
std::optional<testing::Origin> origin_of_call(const std::shared_ptr<const spec::Loaded>& spec, std::uint32_t chain,
                                              std::span<const Value> values, std::span<const std::string> paths,
                                              const Result& result);
nlohmann::ordered_json origin_json(const testing::Origin& origin);

}  // namespace chainio::tool
