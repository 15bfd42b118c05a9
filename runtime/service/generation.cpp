#include "runtime/service/generation.h"

namespace chainio::service {
namespace {

constexpr std::uint32_t kDefaultPriority = 4;  // as the engine gives to what has no class

}  // namespace

Generation::Generation(engine::Engine& with, Files opened, const Places& places, std::uint64_t patience_ns)
    : engine(with),
      module(with.spec().module()),
      files(std::move(opened)),
      requests(with, files, places, patience_ns),
      lender(with) {
    for (auto* list : {&starved, &again, &yielding, &short_of_memory})
        list->reserve(places.run + places.shed + places.parked);
    for (auto* of : {&counters, &udp_counters, &ring_counters})
        for (std::size_t i = 0; i < module.services.size(); i++) of->push_back(std::make_shared<ServiceCounters>());
}

void Generation::inherit_counters(const Generation& before) {
    for (std::uint32_t i = 0; i < module.services.size(); i++) {
        const auto old = before.find(module.services[i].name);
        if (!old) continue;
        counters[i] = before.counters[*old];
        udp_counters[i] = before.udp_counters[*old];
        ring_counters[i] = before.ring_counters[*old];
    }
}

std::optional<std::uint32_t> Generation::find(std::string_view service) const {
    for (std::uint32_t i = 0; i < module.services.size(); i++)
        if (module.services[i].name == service) return i;
    return std::nullopt;
}

std::uint16_t Generation::rank_of(std::uint32_t service) const {
    const std::int32_t rank = module.services[service].priority_class;
    return static_cast<std::uint16_t>(rank < 0 ? module.classes.size() : static_cast<std::size_t>(rank));
}

std::uint32_t Generation::priority_of(std::uint32_t service) const {
    const std::uint16_t rank = rank_of(service);
    return rank < module.classes.size() ? module.classes[rank].priority : kDefaultPriority;
}

std::vector<engine::ClassRank> ranks_of(const ir::Module& module) {
    std::vector<engine::ClassRank> ranks;
    for (const auto& entry : module.classes) ranks.push_back({entry.priority, entry.weight});
    ranks.push_back({kDefaultPriority, 1});
    return ranks;
}

std::vector<engine::ClassRank> lines_of(const ir::Module& module) {
    auto lines = ranks_of(module);
    lines.insert(lines.begin(), engine::ClassRank(lines.back()));  // it counts as without a class
    return lines;
}

}  // namespace chainio::service
