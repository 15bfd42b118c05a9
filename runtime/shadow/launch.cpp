#include "runtime/shadow/launch.h"

#include <algorithm>
#include <memory>

#include "runtime/shadow/plan.h"

namespace chainio::shadow {

std::string launch_of(const spec::Loaded& spec) {
    const ir::Module& module = spec.module();
    if (!module.probes.empty()) return {};
    const auto plan = plan_of(module);
    if (!plan || !plan->refused.empty()) return {};
    auto launch = std::make_unique<Launch>();
    fill_plan(module, *plan, false, launch->plan);
    const Posts posts = posts_of(*plan, std::vector<Listens>(plan->chains.size(), Listens::to_all));
    std::ranges::copy(posts.classes, launch->class_posts);
    std::ranges::copy(posts.sockets, launch->socket_posts);
    for (std::size_t i = 0; i < posts.classes.size(); i++) launch->class_posts[i] |= shim::kWakeOpens;
    launch->names = names_of(module, *plan);
    launch->steps = steps_of(spec, *plan);
    return packed(*launch);
}

}  // namespace chainio::shadow
