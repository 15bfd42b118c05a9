#include "runtime/shadow/launch_region.h"

#include <cstring>
#include <memory>
#include <type_traits>

namespace chainio::shadow {

static_assert(std::is_trivially_copyable_v<Launch>);

void put_names(const Names& names, shim::Stats& stats) {
    for (std::size_t i = 0; i < names.chain_count; i++)
        std::memcpy(stats.chains[i].name, names.chains[i], shim::kMaxName);
    for (std::size_t i = 0; i < names.class_count; i++)
        std::memcpy(stats.classes[i].name, names.classes[i], shim::kMaxName);
    stats.chain_count = names.chain_count;
    stats.class_count = names.class_count;
}

bool launch_region(std::string_view launch, bool explain, shim::Region& region) {
    if (launch.size() != sizeof(Launch)) return false;
    auto kept = std::make_unique<Launch>();
    std::memcpy(kept.get(), launch.data(), sizeof(Launch));
    if (kept->version != shim::kVersion || kept->bytes != shim::kRegionBytes) return false;
    if (kept->names.chain_count > shim::kMaxChains || kept->names.class_count > shim::kMaxClasses) return false;
    region.plan = kept->plan;
    region.plan.explain = explain ? 1 : 0;
    for (std::size_t i = 0; i < shim::kMaxClasses; i++) region.class_posts[i] = kept->class_posts[i];
    for (std::size_t i = 0; i < shim::kMaxSockets; i++) region.socket_posts[i] = kept->socket_posts[i];
    put_names(kept->names, region.stats);
    return true;
}

}  // namespace chainio::shadow
