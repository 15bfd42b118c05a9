#include "runtime/shadow/plan.h"

#include <algorithm>
#include <cstring>

#include "compiler/ir/artifact.h"
#include "compiler/ir/visit.h"

namespace chainio::shadow {
namespace {

struct Reaches {
    std::vector<std::uint32_t> classes;  // of the module
    std::string wrong;
};

void add_class(Reaches& reaches, std::uint32_t file_class) {
    if (std::ranges::find(reaches.classes, file_class) == reaches.classes.end()) reaches.classes.push_back(file_class);
}

void follow_call(const ir::Module& module, std::uint32_t target, Reaches& reaches) {
    const ir::Chain& chain = module.chains[target];
    if (chain.mode != ir::ChainMode::call || chain.entry < 0) {
        reaches.wrong = "it prefetches via '" + chain.name + "', which is no call chain";
        return;
    }
    for (const ir::Param& param : chain.params) {
        if (param.kind == ir::Param::Kind::file) add_class(reaches, param.file_class);
        if (param.kind == ir::Param::Kind::bytes)
            reaches.wrong = "it prefetches via '" + chain.name + "', which takes bytes";
    }
}

void collect(const ir::Module& module, const ir::Chain& chain, const ir::Body& body, Reaches& reaches) {
    for (const ir::Stmt& stmt : body) {
        if (const auto* prefetch = std::get_if<ir::Prefetch>(&stmt.node)) {
            if (prefetch->kind == ir::PrefetchKind::mark) continue;
            if (prefetch->kind == ir::PrefetchKind::same) {
                add_class(reaches, chain.source);
            } else if (ir::is_call(prefetch->kind)) {
                follow_call(module, prefetch->target, reaches);
            } else {
                add_class(reaches, prefetch->target);
            }
        }
        ir::for_each_body(stmt, [&](const ir::Body& nested) { collect(module, chain, nested, reaches); });
    }
}

// Whether all that it asks for are files of one class by name.
bool asks_by_name(const ir::Body& body, std::uint32_t target) {
    return std::ranges::all_of(body, [&](const ir::Stmt& stmt) {
        const auto* prefetch = std::get_if<ir::Prefetch>(&stmt.node);
        bool all = prefetch == nullptr || (prefetch->kind == ir::PrefetchKind::path && prefetch->target == target);
        ir::for_each_body(stmt, [&](const ir::Body& nested) { all = all && asks_by_name(nested, target); });
        return all;
    });
}

// How much of the class's pattern is its root; 0: its root lies elsewhere.
std::uint32_t root_in_pattern(const ir::FileClass& files) {
    const std::string& root = files.root;
    if (root.empty() || !files.pattern.starts_with(root)) return 0;
    const bool whole = root.back() == '/' || files.pattern.substr(root.size()).starts_with('/');
    return whole ? static_cast<std::uint32_t>(root.size()) : 0;
}

// Of a chain whose reaches are these classes of the module.
bool may_run_itself(const ir::Module& module, const ir::Chain& chain, const std::vector<std::uint32_t>& reached) {
    if (chain.mode != ir::ChainMode::on_ready || reached.size() != 1 || !chain.header_args.empty()) return false;
    const ir::Body& body = module.programs[static_cast<std::size_t>(chain.shadow)].body;
    return root_in_pattern(module.files[reached.front()]) != 0 && asks_by_name(body, reached.front());
}

// Nobody asks a program's thread who is first, so that nobody else may be in the way; and it shows a request to one
// chain.
void settle_own(SpecPlan& plan) {
    const bool alike = std::ranges::all_of(
        plan.chains, [&](const ChainPlan& chain) { return chain.rank == plan.chains.front().rank; });
    for (ChainPlan& chain : plan.chains) {
        const auto on_same = std::ranges::count_if(plan.chains, [&](const ChainPlan& other) {
            return other.mode == ir::ChainMode::on_ready && other.source == chain.source;
        });
        chain.own = chain.own && alike && on_same == 1;
    }
}

// Whether a program goes by where and how long the block is, and by nothing that is in it.
bool sees_no_byte(const ir::Body& body) {
    return std::ranges::all_of(body, [](const ir::Stmt& stmt) {
        const bool blind = std::visit(
            ir::Overloaded{[](const auto&) { return false; },
                           []<ir::AnyOf<ir::Move, ir::Unary, ir::Binary, ir::Select, ir::GetInput, ir::GetArg,
                                        ir::Check, ir::Fail, ir::End, ir::If, ir::Loop, ir::Break, ir::Continue>
                                  N>(const N&) { return true; },
                           [](const ir::Prefetch& prefetch) { return prefetch.kind != ir::PrefetchKind::path; }},
            stmt.node);
        bool all = blind;
        ir::for_each_body(stmt, [&](const ir::Body& nested) { all = all && sees_no_byte(nested); });
        return all;
    });
}

// Whether a program goes by how long the read was that it is about, or the latest one.
bool goes_by_total(const ir::Body& body) {
    return std::ranges::any_of(body, [](const ir::Stmt& stmt) {
        const auto* input = std::get_if<ir::GetInput>(&stmt.node);
        bool any = input != nullptr && input->input == ir::Input::block_tag;
        ir::for_each_body(stmt, [&](const ir::Body& nested) { any = any || goes_by_total(nested); });
        return any;
    });
}

std::string too_long(const ir::Module& module, const std::vector<std::uint32_t>& classes) {
    for (std::uint32_t i : classes) {
        if (module.files[i].pattern.size() >= shim::kMaxPattern)
            return "the pattern of files '" + module.files[i].name + "' is longer than " +
                   std::to_string(shim::kMaxPattern - 1) + " bytes; shorten it";
    }
    return {};
}

std::uint32_t place_of(std::vector<std::uint32_t>& list, std::uint32_t item) {
    const auto found = std::ranges::find(list, item);
    if (found != list.end()) return static_cast<std::uint32_t>(found - list.begin());
    list.push_back(item);
    return static_cast<std::uint32_t>(list.size() - 1);
}

// Empty when the chain has found its place in the plan, else why it has none.
std::string place_chain(const ir::Module& module, std::uint32_t index, SpecPlan& plan) {
    const ir::Chain& chain = module.chains[index];
    if (chain.shadow < 0) return "the artifact has no program for it; compile the spec again";
    Reaches reaches;
    collect(module, chain, module.programs[static_cast<std::size_t>(chain.shadow)].body, reaches);
    if (!reaches.wrong.empty()) return reaches.wrong;
    const bool has_file = chain.mode == ir::ChainMode::on_read || chain.mode == ir::ChainMode::on_open;
    const std::size_t fetched_into = reaches.classes.size();
    if (has_file) add_class(reaches, chain.source);
    if (std::string wrong = too_long(module, reaches.classes); !wrong.empty()) return wrong;
    if (plan.chains.size() == shim::kMaxChains)
        return "a run has at most " + std::to_string(shim::kMaxChains) + " shadow chains";
    auto classes = plan.classes;
    auto sockets = plan.sockets;
    ChainPlan out;
    out.chain = index;
    out.mode = chain.mode;
    const ir::Body& body = module.programs[static_cast<std::size_t>(chain.shadow)].body;
    out.asks = !body.empty();
    out.own = may_run_itself(module, chain, reaches.classes);
    out.blind = chain.mode == ir::ChainMode::on_read && sees_no_byte(body);
    out.by_last_read = chain.mode == ir::ChainMode::on_open && goes_by_total(body);
    out.rank = static_cast<std::uint16_t>(chain.priority_class < 0 ? module.classes.size()
                                                                   : static_cast<std::size_t>(chain.priority_class));
    for (std::size_t i = 0; i < reaches.classes.size(); i++) {
        const std::uint32_t place = place_of(classes, reaches.classes[i]);
        if (i < fetched_into) out.targets.push_back(place);
    }
    out.source = has_file                                ? place_of(classes, chain.source)
                 : chain.mode == ir::ChainMode::on_ready ? place_of(sockets, chain.source)
                                                         : chain.source;
    if (classes.size() > shim::kMaxClasses)
        return "a run looks at no more than " + std::to_string(shim::kMaxClasses) + " file classes";
    if (sockets.size() > shim::kMaxSockets)
        return "a run looks at no more than " + std::to_string(shim::kMaxSockets) + " sockets";
    plan.classes = std::move(classes);
    plan.sockets = std::move(sockets);
    plan.chains.push_back(std::move(out));
    return {};
}

// A path belongs to the first class that it matches, as in the spec.
void sort_classes(SpecPlan& plan) {
    const std::vector<std::uint32_t> before = plan.classes;
    std::ranges::sort(plan.classes);
    const auto moved = [&](std::uint32_t place) {
        return static_cast<std::uint32_t>(std::ranges::find(plan.classes, before[place]) - plan.classes.begin());
    };
    for (ChainPlan& chain : plan.chains) {
        if (chain.mode == ir::ChainMode::on_read || chain.mode == ir::ChainMode::on_open)
            chain.source = moved(chain.source);
        for (std::uint32_t& target : chain.targets) target = moved(target);
    }
}

void copy_text(char* to, std::size_t size, const std::string& text) {
    const std::size_t length = std::min(text.size(), size - 1);
    std::memcpy(to, text.data(), length);
    to[length] = 0;
}

}  // namespace

std::expected<SpecPlan, std::string> plan_of(const ir::Module& module) {
    SpecPlan plan;
    for (std::uint32_t i = 0; i < module.chains.size(); i++) {
        if (module.chains[i].mode == ir::ChainMode::call) continue;
        if (const std::string why = place_chain(module, i, plan); !why.empty())
            plan.refused.push_back("chain '" + module.chains[i].name + "': " + why);
    }
    if (module.match_exe.size() > shim::kMaxExes)
        return std::unexpected("app '" + module.app + "' matches more than " + std::to_string(shim::kMaxExes) +
                               " programs by name; use a glob");
    for (const std::string& exe : module.match_exe) {
        if (exe.size() >= shim::kMaxPattern)
            return std::unexpected("`match exe` of app '" + module.app + "' is longer than " +
                                   std::to_string(shim::kMaxPattern - 1) + " bytes; shorten it");
    }
    if (plan.chains.empty()) {
        if (plan.refused.empty())
            return std::unexpected(
                "the spec has no shadow chain, so there is nothing to read ahead; declare one, `chain NAME on "
                "read(FILES) as r { prefetch … }`, or import one of std/*_shadow.chain");
        std::string text = "no shadow chain of the spec can run here";
        for (const std::string& one : plan.refused) text += "; " + one;
        return std::unexpected(text);
    }
    sort_classes(plan);
    settle_own(plan);
    plan.watched.assign(module.files.size(), kNotWatched);
    for (std::uint32_t i = 0; i < plan.classes.size(); i++) plan.watched[plan.classes[i]] = i;
    for (const std::uint32_t i : plan.classes) plan.no_read_ahead.push_back(module.files[i].no_read_ahead);
    return plan;
}

void fill_plan(const ir::Module& module, const SpecPlan& plan, bool explain, shim::Plan& to) {
    to.class_count = static_cast<std::uint32_t>(plan.classes.size());
    to.socket_count = static_cast<std::uint32_t>(plan.sockets.size());
    to.exe_count = static_cast<std::uint32_t>(module.match_exe.size());
    to.explain = explain ? 1 : 0;
    for (std::uint32_t i = 0; i < to.exe_count; i++) copy_text(to.exes[i], shim::kMaxPattern, module.match_exe[i]);
    for (std::uint32_t i = 0; i < to.class_count; i++) {
        const ir::FileClass& files = module.files[plan.classes[i]];
        copy_text(to.classes[i].pattern, shim::kMaxPattern, files.pattern);
        to.classes[i].flags = (files.direct ? shim::kDirect : 0) | (files.immutable ? shim::kImmutable : 0) |
                              (files.no_read_ahead ? shim::kReadAsAsked : 0);
        to.classes[i].root = root_in_pattern(files);
    }
    for (std::uint32_t i = 0; i < to.socket_count; i++) {
        const ir::Socket& socket = module.sockets[plan.sockets[i]];
        to.sockets[i] = {socket.port, static_cast<std::uint8_t>(socket.tcp ? 1 : 0)};
    }
    for (std::uint32_t i = 0; i < plan.chains.size(); i++) {
        const ChainPlan& chain = plan.chains[i];
        if (!chain.own) continue;
        const auto program = static_cast<std::uint32_t>(module.chains[chain.chain].shadow);
        const std::uint32_t place = chain.targets.front(), target = plan.classes[place];
        shim::OwnChain& own = to.own[chain.source];
        own = {.chain = i + 1, .program = program, .target = target, .file_class = place, .index = {}};
        copy_text(own.index, shim::kMaxIndex, module.files[target].index);
    }
    const ir::IoLayout layout = ir::layout_of(module);
    to.step = {layout.total, layout.prefetch_offset, layout.prefetch_count};
}

std::string steps_of(const spec::Loaded& spec, const SpecPlan& plan) {
    if (std::ranges::none_of(plan.chains, &ChainPlan::own)) return {};
    const auto code = spec.native_object();
    return {reinterpret_cast<const char*>(code.data()), code.size()};
}

Names names_of(const ir::Module& module, const SpecPlan& plan) {
    Names names;
    for (std::uint32_t i = 0; i < plan.classes.size(); i++)
        copy_text(names.classes[i], shim::kMaxName, module.files[plan.classes[i]].name);
    for (std::uint32_t i = 0; i < plan.chains.size(); i++)
        copy_text(names.chains[i], shim::kMaxName, module.chains[plan.chains[i].chain].name);
    names.chain_count = static_cast<std::uint32_t>(plan.chains.size());
    names.class_count = static_cast<std::uint32_t>(plan.classes.size());
    return names;
}

void fill_region(const ir::Module& module, const SpecPlan& plan, bool explain, shim::Region& region) {
    fill_plan(module, plan, explain, region.plan);
    put_names(names_of(module, plan), region.stats);
}

Posts posts_of(const SpecPlan& plan, const std::vector<Listens>& chains) {
    Posts posts{std::vector<std::uint32_t>(plan.classes.size()), std::vector<std::uint32_t>(plan.sockets.size())};
    std::vector<bool> wakes(plan.classes.size());
    for (std::uint32_t i = 0; i < plan.chains.size(); i++) {
        const ChainPlan& chain = plan.chains[i];
        const Listens listens = chain.asks ? chains[i] : Listens::to_nothing;
        const bool on = listens == Listens::to_all || listens == Listens::to_events;
        const bool slow = listens == Listens::to_slow_reads || listens == Listens::in_its_sleep;
        // Openings are told of even while the chain is off: without the path its reads mean nothing once it is on
        // again.
        if (chain.mode == ir::ChainMode::on_read) {
            posts.classes[chain.source] |= shim::kPostOpens | (on ? shim::kPostReads : slow ? shim::kPostSlowReads : 0);
            wakes[chain.source] = wakes[chain.source] || on || listens == Listens::to_slow_reads;
        }
        if (chain.blind && on) posts.classes[chain.source] |= shim::kPostBegun;
        if (chain.mode == ir::ChainMode::on_open)
            posts.classes[chain.source] |= shim::kPostOpens | (on ? shim::kWakeOpens : 0);
        if (chain.mode == ir::ChainMode::on_ready && on) posts.sockets[chain.source] |= shim::kPostReady;
        // What the program waits for there it had to read itself, before the server could: that says something about
        // a chain of which all is in memory.
        if (listens == Listens::to_events)
            for (std::uint32_t target : chain.targets) posts.classes[target] |= shim::kPostSlowReads;
        if (listens != Listens::to_all) continue;
        for (std::uint32_t target : chain.targets) {
            posts.classes[target] |= shim::kPostOpens | shim::kPostReads;
            wakes[target] = true;
        }
    }
    // There slow reads are looked at whoever listens: they say whether anybody brings what the kernel does not read
    // ahead, and at one of them a program takes back what it has told the kernel.
    for (std::uint32_t i = 0; i < plan.no_read_ahead.size(); i++) {
        if (!plan.no_read_ahead[i]) continue;
        posts.classes[i] |= shim::kNoReadAhead;
        if ((posts.classes[i] & shim::kPostReads) == 0) posts.classes[i] |= shim::kPostSlowReads;
    }
    for (std::uint32_t i = 0; i < posts.classes.size(); i++)
        if ((posts.classes[i] & shim::kPostSlowReads) != 0 && !wakes[i]) posts.classes[i] |= shim::kLetSleep;
    return posts;
}

}  // namespace chainio::shadow
