#include "runtime/shadow/launch.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include "runtime/shadow/plan.h"

namespace chainio::shadow {
namespace {

struct Launch {
    std::uint32_t version = shim::kVersion, bytes = static_cast<std::uint32_t>(shim::kRegionBytes);
    std::uint32_t class_posts[shim::kMaxClasses]{}, socket_posts[shim::kMaxSockets]{};
    shim::Plan plan{};
};
static_assert(std::is_trivially_copyable_v<Launch>);

}  // namespace

std::string launch_of(const ir::Module& module) {
    if (!module.probes.empty()) return {};
    const auto plan = plan_of(module);
    if (!plan) return {};
    auto launch = std::make_unique<Launch>();
    fill_plan(module, *plan, false, launch->plan);
    const Posts posts = posts_of(*plan, std::vector<Listens>(plan->chains.size(), Listens::to_all));
    std::ranges::copy(posts.classes, launch->class_posts);
    std::ranges::copy(posts.sockets, launch->socket_posts);
    return {reinterpret_cast<const char*>(launch.get()), sizeof(Launch)};
}

bool launch_region(std::string_view launch, bool explain, shim::Region& region) {
    if (launch.size() != sizeof(Launch)) return false;
    auto kept = std::make_unique<Launch>();
    std::memcpy(kept.get(), launch.data(), sizeof(Launch));
    if (kept->version != shim::kVersion || kept->bytes != shim::kRegionBytes) return false;
    region.plan = kept->plan;
    region.plan.explain = explain ? 1 : 0;
    for (std::size_t i = 0; i < shim::kMaxClasses; i++) region.class_posts[i] = kept->class_posts[i];
    for (std::size_t i = 0; i < shim::kMaxSockets; i++) region.socket_posts[i] = kept->socket_posts[i];
    return true;
}

}  // namespace chainio::shadow
