#include "runtime/shadow/score.h"

#include <algorithm>

namespace chainio::shadow {
namespace {

shim::GateState shown(policy::Gate::State state) {
    switch (state) {
        case policy::Gate::State::on: return shim::GateState::on;
        case policy::Gate::State::off: return shim::GateState::off;
        case policy::Gate::State::probing: break;
    }
    return shim::GateState::probing;
}

bool is_about(const ChainPlan& chain, std::uint32_t file_class) {
    const bool files = chain.mode == ir::ChainMode::on_read || chain.mode == ir::ChainMode::on_open;
    return files && chain.source == file_class;
}

// Whether programs read in the class what the chain fetches, or what it goes by.
bool has_to_do_with(const ChainPlan& chain, std::uint32_t file_class) {
    return is_about(chain, file_class) || std::ranges::find(chain.targets, file_class) != chain.targets.end();
}

}  // namespace

Score::Score(const ir::Module& module, const SpecPlan& plan, shim::Region& region, bool use_gates)
    : module_(module),
      plan_(plan),
      region_(region),
      use_gates_(use_gates),
      gates_(plan.chains.size()),
      turns_(plan.chains.size()),
      times_off_(plan.chains.size()),
      listens_(plan.chains.size()),
      first_turn_(plan.chains.size()),
      misses_(plan.classes.size()) {
    silence_.reserve(plan.chains.size());
    for (const ChainPlan& chain : plan.chains)
        silence_.emplace_back(chain.mode == ir::ChainMode::on_read && !chain.blind);
    tell_programs();
}

void Score::on_range(std::uint32_t chain, std::uint64_t turn, RangeEnd end) {
    const bool counts = turn >= first_turn_[chain];
    policy::Gate& gate = gates_[chain];
    if (served_ && (end == RangeEnd::hit || end == RangeEnd::late || end == RangeEnd::vain)) add(stats(chain).served);
    switch (end) {
        case RangeEnd::hit:
            add(stats(chain).hits);
            add(stats(chain).saved_ns, saving_);
            saving_ = 0;
            useful(chain, counts);
            return;
        case RangeEnd::late:
            add(stats(chain).late);
            useful(chain, counts);
            return;
        case RangeEnd::vain:
            add(stats(chain).late);
            if (counts) gate.wasted();
            return;
        case RangeEnd::wasted: add(stats(chain).wasted); [[fallthrough]];
        case RangeEnd::overdue:
            if (counts) gate.wasted();
            return;
        case RangeEnd::given_up: add(stats(chain).wasted); return;
        case RangeEnd::redeemed:
        case RangeEnd::failed: return;
    }
}

// What a page has named may be read over many events at which the chain has nothing to add.
void Score::useful(std::uint32_t chain, bool counts) {
    silence_[chain].useful();
    if (counts) gates_[chain].useful();
    if (listens(chain) != listens_[chain]) tell_programs();
}

bool Score::admit(std::uint32_t chain) {
    if (!use_gates_ || gates_[chain].admit()) return true;
    dropped(chain);
    return false;
}

void Score::duplicate(std::uint32_t chain) {
    gates_[chain].take_back();
    add(stats(chain).duplicate);
}

void Score::cached(std::uint32_t chain) {
    add(stats(chain).cached);
    gates_[chain].in_memory();
    silence_[chain].in_memory();
    if (listens(chain) != listens_[chain]) tell_programs();
}

void Score::fetched(std::uint32_t chain, std::uint64_t bytes) {
    add(stats(chain).fetches);
    add(stats(chain).fetched_bytes, bytes);
    gates_[chain].fetched();
    silence_[chain].useful();
    if (listens(chain) != listens_[chain]) tell_programs();
}

void Score::ran(std::uint32_t chain, bool well, bool asked) {
    if (asked) {
        silence_[chain].asked();
        turns_[chain]++;
    } else {
        silence_[chain].nothing();
    }
    if (listens(chain) != listens_[chain]) tell_programs();
    add(stats(chain).events);
    if (!well) add(stats(chain).failed);
}

Listens Score::listens(std::uint32_t chain) const {
    const ir::ChainMode mode = plan_.chains[chain].mode;
    const bool on_read = mode == ir::ChainMode::on_read;
    if (!wants_events(chain))
        return on_read && gates_[chain].may_look(now_ns_) ? Listens::to_slow_reads : Listens::to_nothing;
    if (!use_gates_) return Listens::to_all;
    // Reads of what it has fetched say something about it only once it has.
    const Listens most = gates_[chain].probes_nothing() ? Listens::to_events : Listens::to_all;
    return on_read || mode == ir::ChainMode::on_open ? std::min(most, silence_[chain].hears()) : most;
}

void Score::waited(std::uint32_t file_class, std::uint64_t now_ns) {
    if (!use_gates_) return;
    bool any = false;
    for (std::uint32_t i = 0; i < plan_.chains.size(); i++) {
        if (has_to_do_with(plan_.chains[i], file_class)) {
            silence_[i].program_waited();
            if (listens(i) != listens_[i]) tell_programs();
        }
        if (!is_about(plan_.chains[i], file_class) || !gates_[i].may_look(now_ns)) continue;
        any = true;
        gates_[i].look_again();
    }
    if (any) update_gates(now_ns);
}

void Score::program_read(std::uint32_t file_class, std::uint64_t bytes, std::uint64_t took_ns, bool touched) {
    shim::ClassStats& out = region_.stats.classes[file_class];
    add(out.reads);
    add(out.read_bytes, bytes);
    add(out.read_ns, took_ns);
    if (took_ns <= shim::kSlowReadNs) return;
    add(out.slow_reads);
    add(out.slow_ns, took_ns);
    if (touched) return;
    misses_[file_class].add(took_ns);
}

void Score::expect_saving(std::uint32_t file_class, std::uint64_t took_ns, bool served, bool goes_on) {
    served_ = served;
    saving_ = 0;
    if (goes_on) return;
    const std::uint64_t miss = misses_[file_class].ns, fetch = fetches_.ns;
    const std::uint64_t wait = miss == 0 || fetch == 0 ? std::max(miss, fetch) : std::min(miss, fetch);
    saving_ = wait > took_ns ? wait - took_ns : 0;
}

void Score::fetch_took(std::uint64_t ns) { fetches_.add(ns); }

void Score::Wait::add(std::uint64_t took) {
    if (ns == 0) {
        ns = took;
    } else if (took < ns) {
        ns -= (ns - took) / 4;
    } else {
        ns += (took - ns) / 64;
    }
}

void Score::update_gates(std::uint64_t now_ns) {
    if (!use_gates_) return;
    now_ns_ = now_ns;
    std::vector<std::uint32_t> changed;
    for (std::uint32_t i = 0; i < gates_.size(); i++) {
        if (!gates_[i].update(now_ns)) continue;
        changed.push_back(i);
        if (gates_[i].state() != policy::Gate::State::on) first_turn_[i] = turns_[i] + 1;
        times_off_[i] += gates_[i].state() == policy::Gate::State::off;
    }
    tell_programs();
    // Only now: who sees a gate's state finds what the program is asked to post as it is in that state.
    for (const std::uint32_t i : changed) {
        stats(i).gate.store(shown(gates_[i].state()), std::memory_order_release);
        stats(i).gate_changes.fetch_add(1, std::memory_order_release);
    }
}

// What to post, where chains listen otherwise than when programs were last told.
void Score::tell_programs() {
    bool changed = false;
    for (std::uint32_t i = 0; i < listens_.size(); i++) {
        const Listens now = listens(i);
        changed = changed || now != listens_[i];
        listens_[i] = now;
    }
    if (!changed) return;
    const Posts posts = posts_of(plan_, listens_);
    for (std::uint32_t i = 0; i < posts.classes.size(); i++)
        region_.class_posts[i].store(posts.classes[i], std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < posts.sockets.size(); i++)
        region_.socket_posts[i].store(posts.sockets[i], std::memory_order_relaxed);
}

std::vector<std::string> Score::gate_notes() const {
    std::vector<std::string> notes;
    for (std::uint32_t i = 0; i < gates_.size(); i++) {
        if (times_off_[i] == 0) continue;
        const bool wasted = gates_[i].reason() == policy::Gate::Reason::wasted;
        const std::string how_often =
            times_off_[i] == 1 ? "once, because " : std::to_string(times_off_[i]) + " times, the last time because ";
        notes.push_back(
            "chain '" + module_.chains[plan_.chains[i].chain].name + "' was switched off " + how_often +
            (wasted ? "too little of what it fetched was read" : "what it asked for was in memory already"));
    }
    return notes;
}

}  // namespace chainio::shadow
