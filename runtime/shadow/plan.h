// What a spec's shadow chains need of a run: which file classes and sockets to look at, which chains can run, and what
// they prefetch into.
#pragma once
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "runtime/shadow/launch_region.h"
#include "runtime/shim/protocol.h"
#include "runtime/spec/loaded.h"

namespace chainio::shadow {

inline constexpr std::uint32_t kNotWatched = UINT32_MAX;

struct ChainPlan {
    std::uint32_t chain = 0;  // index into Module::chains
    ir::ChainMode mode = ir::ChainMode::on_read;
    std::uint32_t source = 0;            // watched class, watched socket, or probe of the module
    std::vector<std::uint32_t> targets;  // watched classes that it prefetches into
    std::uint16_t rank = 0;              // its priority class; Module::classes.size() without one
    bool blind = false;                  // on reads, of which it sees no byte: it runs when a long one begins
    bool by_last_read = false;           // on openings, and goes by how the thread has read
    bool own = false;                    // programs may run it themselves (shim::OwnChain)
    bool asks = true;                    // false: as its parameters are, it asks for nothing whatever it is shown
};

struct SpecPlan {
    std::vector<ChainPlan> chains;       // those that can run here, at most shim::kMaxChains
    std::vector<std::uint32_t> classes;  // module's file class, by watched class
    std::vector<std::uint32_t> sockets;  // module's socket, by watched socket
    std::vector<std::uint32_t> watched;  // watched class by module's file class, or kNotWatched
    std::vector<bool> no_read_ahead;     // by watched class: in its files the kernel is to read nothing ahead
    std::vector<std::string> refused;    // chains that cannot run, by name, and why
};

// The error names the chains and what each is missing.
std::expected<SpecPlan, std::string> plan_of(const ir::Module& module);
// Writes what programs compare their calls with.
void fill_plan(const ir::Module& module, const SpecPlan& plan, bool explain, shim::Plan& to);
// The code that programs run themselves; empty: no chain is of that kind, or there is none for this machine.
std::string steps_of(const spec::Loaded& spec, const SpecPlan& plan);
Names names_of(const ir::Module& module, const SpecPlan& plan);
// Both in a region.
void fill_region(const ir::Module& module, const SpecPlan& plan, bool explain, shim::Region& region);

// What a chain wants to hear of.
enum class Listens : std::uint8_t {
    to_nothing,
    in_its_sleep,   // to slow reads, but they wake it only when it rests
    to_slow_reads,  // one that runs on reads: whether there is something to win again
    to_events,      // what it runs on, but not reads of what it fetches
    to_all,
};
// What programs are asked to post: shim::kPost… by watched class and socket.
struct Posts {
    std::vector<std::uint32_t> classes, sockets;
};
Posts posts_of(const SpecPlan& plan, const std::vector<Listens>& chains);

}  // namespace chainio::shadow
