#include "tools/chainio/testing/origin.h"

#include <fmt/format.h>

#include "tools/chainio/testing/check.h"
#include "tools/chainio/testing/places.h"

namespace chainio::testing {

Origin origin_of(const ir::Module& module, const Outcome& outcome, const Ended& ended, const std::string& source_map) {
    Origin origin{.step = {}, .place = {}, .reads = outcome.reads.size(), .last = {}};
    if (!outcome.reads.empty()) origin.last = outcome.reads.back();
    if (ended.at == nullptr) return origin;
    origin.step = module.programs[ended.program].name;
    origin.place = Places(module, source_map).of(*ended.at);
    return origin;
}

std::string described(const Origin& origin) {
    const std::string last =
        origin.last ? fmt::format("; read {} is the last: {}", origin.reads, described(*origin.last)) : "";
    if (origin.step.empty()) return last.empty() ? "" : "comes from no step" + last;
    return fmt::format("comes from {}{}{}{}", origin.step, origin.place.empty() ? "" : " at ", origin.place, last);
}

}  // namespace chainio::testing
