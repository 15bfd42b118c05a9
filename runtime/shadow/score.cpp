#include "runtime/shadow/score.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

bool is_about_files(const ChainPlan& chain) {
    return chain.mode == ir::ChainMode::on_read || chain.mode == ir::ChainMode::on_open;
}

bool is_about(const ChainPlan& chain, std::uint32_t file_class) {
    return is_about_files(chain) && chain.source == file_class;
}

bool fetches_into(const ChainPlan& chain, std::uint32_t file_class) {
    return std::ranges::find(chain.targets, file_class) != chain.targets.end();
}

// Whether programs read in the class what the chain fetches, or what it goes by, or what is fetched for the same files.
bool has_to_do_with(const SpecPlan& plan, const ChainPlan& chain, std::uint32_t file_class) {
    if (is_about(chain, file_class) || fetches_into(chain, file_class)) return true;
    if (!is_about_files(chain)) return false;
    return std::ranges::any_of(plan.chains, [&](const ChainPlan& other) {
        return is_about(other, chain.source) && fetches_into(other, file_class);
    });
}

Listens listens_while_off(policy::Gate::Hears hears) {
    switch (hears) {
        case policy::Gate::Hears::aloud: return Listens::to_slow_reads;
        case policy::Gate::Hears::quietly: return Listens::in_its_sleep;
        case policy::Gate::Hears::nothing: break;
    }
    return Listens::to_nothing;
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
      too_late_(plan.chains.size()),
      fetched_at_(plan.chains.size()),
      listens_(plan.chains.size()),
      own_(plan.chains.size()),
      lengths_(plan.chains.size()),
      advice_(plan.classes.size()),
      ahead_(plan.classes.size()),
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
            useful(chain, turn);
            return;
        case RangeEnd::late:
            add(stats(chain).late);
            useful(chain, turn);
            return;
        case RangeEnd::vain:
            add(stats(chain).late);
            fetched_at_[chain].vain(turn);
            if (counts) gate.wasted();
            return;
        case RangeEnd::wasted: add(stats(chain).wasted); [[fallthrough]];
        case RangeEnd::failed:
        case RangeEnd::overdue:
            if (!counts) return;
            for (std::uint32_t beside = fetched_at_[chain].wasted(turn); beside > 0; beside--) gate.useful();
            gate.wasted();
            return;
        case RangeEnd::given_up: add(stats(chain).wasted); return;
        case RangeEnd::redeemed: fetched_at_[chain].redeemed(turn); return;
    }
}

// What a page has named may be read over many events at which the chain has nothing to add.
void Score::useful(std::uint32_t chain, std::uint64_t turn) {
    silence_[chain].useful();
    fetched_at_[chain].useful(turn);
    if (turn >= first_turn_[chain]) gates_[chain].useful();
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

void Score::refused(std::uint32_t chain, unsigned admitted) {
    for (; admitted > 0; admitted--) gates_[chain].take_back();
    dropped(chain);
}

void Score::cached(std::uint32_t chain) {
    add(stats(chain).cached);
    gates_[chain].in_memory();
    silence_[chain].in_memory();
    if (listens(chain) != listens_[chain]) tell_programs();
}

// For all but the gate it is what was in memory: nothing comes of either.
void Score::too_late(std::uint32_t chain, bool told) {
    if (!told) {
        add(stats(chain).cached);
        silence_[chain].in_memory();
    }
    too_late_[chain]++;
    gates_[chain].too_late(told);
    if (listens(chain) != listens_[chain]) tell_programs();
}

void Score::led_nowhere(std::uint32_t chain) {
    silence_[chain].in_memory();
    gates_[chain].led_nowhere();
    if (listens(chain) != listens_[chain]) tell_programs();
}

void Score::fetched(std::uint32_t chain, std::uint64_t bytes, bool by_program) {
    const std::uint32_t ranges = pieces_of(bytes);
    add(stats(chain).fetches, ranges);
    if (by_program) add(stats(chain).own);
    add(stats(chain).fetched_bytes, bytes);
    gates_[chain].fetched(ranges);
    fetched_at_[chain].fetched(turns_[chain], ranges);
    silence_[chain].useful();
    if (listens(chain) != listens_[chain]) tell_programs();
}

void Score::take_back_fetched(std::uint32_t chain, std::uint32_t ranges, std::uint64_t bytes) {
    if (ranges == 0) return;
    stats(chain).fetches.fetch_sub(ranges, std::memory_order_relaxed);
    stats(chain).fetched_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    gates_[chain].take_back_fetched(ranges);
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

void Score::left_alone(std::uint32_t chain) {
    silence_[chain].nothing();
    if (listens(chain) != listens_[chain]) tell_programs();
}

void Score::learn_length(std::uint32_t chain, bool asked, std::uint32_t total) {
    if (!use_gates_ || !plan_.chains[chain].blind) return;
    Lengths& lengths = lengths_[chain];
    const std::uint32_t before = lengths.least();
    asked ? lengths.asked(total) : lengths.nothing(total);
    if (lengths.least() == before) return;
    const std::uint32_t file_class = plan_.chains[chain].source;
    region_.least_read[file_class].store(least_read(file_class), std::memory_order_relaxed);
}

// Chains that see the bytes may have something to say of the shortest read: of their lengths nothing is learnt.
std::uint32_t Score::least_read(std::uint32_t file_class) const {
    std::uint32_t least = UINT32_MAX;
    for (std::uint32_t i = 0; i < plan_.chains.size(); i++) {
        const ChainPlan& chain = plan_.chains[i];
        if (chain.mode == ir::ChainMode::on_read && chain.source == file_class && chain.asks)
            least = std::min(least, lengths_[i].least());
    }
    return least == UINT32_MAX ? 0 : least;
}

Listens Score::listens(std::uint32_t chain) const {
    const ir::ChainMode mode = plan_.chains[chain].mode;
    const bool on_read = mode == ir::ChainMode::on_read;
    if (!wants_events(chain))
        return on_read ? listens_while_off(gates_[chain].hears_waits(now_ns_)) : Listens::to_nothing;
    if (!use_gates_) return Listens::to_all;
    // Reads of what it has fetched say something about it only once it has.
    const Listens most = gates_[chain].probes_nothing() ? Listens::to_events : Listens::to_all;
    return on_read || mode == ir::ChainMode::on_open ? std::min(most, silence_[chain].hears()) : most;
}

void Score::waited(std::uint32_t file_class, std::uint64_t now_ns, std::uint32_t length) {
    if (!use_gates_) return;
    bool any = false;
    for (std::uint32_t i = 0; i < plan_.chains.size(); i++) {
        if (length < lengths_[i].least() && is_about(plan_.chains[i], file_class)) continue;
        if (!has_to_do_with(plan_, plan_.chains[i], file_class)) continue;
        silence_[i].program_waited();
        if (listens(i) != listens_[i]) tell_programs();
        if (!is_about_files(plan_.chains[i])) continue;
        any = any || gates_[i].hears_waits(now_ns) != policy::Gate::Hears::nothing;
        gates_[i].waited(now_ns);
    }
    if (any) update_gates(now_ns, true);
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

void Score::saw_read_ahead(std::uint32_t file_class, bool left_alone, std::uint64_t now_ns) {
    if (!use_gates_ || !ahead_[file_class]) return;
    now_ns = std::max(now_ns, now_ns_);  // of a read that did not wait nobody has looked at the clock
    Advice& advice = advice_[file_class];
    left_alone ? advice.left_alone(now_ns) : advice.needs_none(now_ns);
    if (advice.is_good(now_ns)) return;
    now_ns_ = now_ns;
    tell_programs();
}

void Score::expect_saving(std::uint32_t file_class, std::uint64_t took_ns, bool served, bool there_anyway) {
    served_ = served;
    saving_ = 0;
    if (there_anyway) return;
    const std::uint64_t miss = misses_[file_class].lower_ns(), fetch = fetches_.lower_ns();
    const std::uint64_t wait = miss == 0 || fetch == 0 ? std::max(miss, fetch) : std::min(miss, fetch);
    saving_ = wait > took_ns ? wait - took_ns : 0;
}

void Score::fetch_took(std::uint64_t ns) { fetches_.add(ns); }

void Score::update_gates(std::uint64_t now_ns) { update_gates(now_ns, false); }

bool Score::would_be_of_no_use(std::uint64_t now_ns) const {
    if (!use_gates_) return false;
    for (std::uint32_t i = 0; i < gates_.size(); i++)
        if (gates_[i].would_be_of_no_use(now_ns, share(i))) return true;
    return false;
}

// Of one that is not off, conclusions are drawn only once all is known that there is to know.
void Score::update_gates(std::uint64_t now_ns, bool only_off) {
    if (!use_gates_) return;
    now_ns_ = now_ns;
    std::vector<std::uint32_t> changed;
    for (std::uint32_t i = 0; i < gates_.size(); i++) {
        if (only_off && gates_[i].state() != policy::Gate::State::off) continue;
        if (!gates_[i].update(now_ns, share(i))) continue;
        changed.push_back(i);
        if (gates_[i].state() != policy::Gate::State::on) {
            first_turn_[i] = turns_[i] + 1;
            fetched_at_[i].begin_anew(first_turn_[i]);
        }
        times_off_[i] += gates_[i].state() == policy::Gate::State::off;
    }
    tell_programs();
    // Only now: who sees a gate's state finds what the program is asked to post as it is in that state.
    for (const std::uint32_t i : changed) {
        stats(i).gate.store(shown(gates_[i].state()), std::memory_order_release);
        stats(i).gate_changes.fetch_add(1, std::memory_order_release);
    }
}

// A probe is to learn from few, which are counted before they are begun.
bool Score::runs_in_programs(std::uint32_t chain) const {
    return programs_may_begin_ && region_.plan.has_steps != 0 && plan_.chains[chain].own &&
           gates_[chain].state() == policy::Gate::State::on;
}

// Whether some chain brings what is read in the class, as far as is known: then the kernel need not guess it.
bool Score::is_brought(std::uint32_t file_class) const {
    for (std::uint32_t i = 0; i < plan_.chains.size(); i++) {
        const bool in_vain =
            gates_[i].state() != policy::Gate::State::on && gates_[i].reason() == policy::Gate::Reason::wasted;
        if (fetches_into(plan_.chains[i], file_class) && !in_vain) return true;
    }
    return false;
}

void Score::let_programs_begin(bool may) {
    if (may == programs_may_begin_) return;
    programs_may_begin_ = may;
    tell_programs();
}

bool Score::knows_disk(std::uint64_t device) const {
    return std::ranges::any_of(region_.disks, [&](const shim::DiskFacts& disk) { return disk.device == device; });
}

void Score::has_begun(std::uint64_t device, std::uint64_t longest) {
    for (shim::DiskFacts& disk : region_.disks) {
        if (disk.device.load(std::memory_order_relaxed) != 0) continue;
        disk.longest.store(longest, std::memory_order_relaxed);
        return disk.device.store(device, std::memory_order_release);
    }
}

// What to post, where chains listen otherwise than when programs were last told.
void Score::tell_programs() {
    bool changed = false;
    for (std::uint32_t i = 0; i < listens_.size(); i++) {
        const Listens now = listens(i);
        changed = changed || now != listens_[i] || runs_in_programs(i) != own_[i];
        listens_[i] = now;
        own_[i] = runs_in_programs(i);
    }
    for (std::uint32_t i = 0; i < ahead_.size(); i++) {
        const bool now = plan_.no_read_ahead[i] && is_brought(i) && advice_[i].is_good(now_ns_);
        changed = changed || now != ahead_[i];
        ahead_[i] = now;
    }
    if (!changed) return;
    Posts posts = posts_of(plan_, listens_);
    for (std::uint32_t i = 0; i < own_.size(); i++)
        if (own_[i]) posts.sockets[plan_.chains[i].source] |= shim::kRunsItself;
    for (std::uint32_t i = 0; i < posts.classes.size(); i++) {
        if (!ahead_[i]) posts.classes[i] &= ~shim::kNoReadAhead;
        region_.class_posts[i].store(posts.classes[i], std::memory_order_relaxed);
    }
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
        if (too_late_[i] != 0)
            notes.back() += "; " + std::to_string(too_late_[i]) + (too_late_[i] == 1 ? " request" : " requests") +
                            " came when the program had read that itself";
    }
    return notes;
}

std::vector<std::string> Score::own_notes() const {
    constexpr const char* kWhy[] = {
        "the chain's code could not be loaded into the program",
        "the program has several threads, or record locks",
        "the chain asked for more than one range, or for one whose name is not in plain text in the request",
        "nothing was known of the file's disk",
        "the file's name was not in memory, or leads to no file that may be read",
        "the range is longer than what the kernel reads ahead",
        "as many were under way as may be",
    };
    static_assert(std::size(kWhy) == static_cast<std::size_t>(shim::Left::count));
    std::vector<std::string> notes;
    std::uint64_t own = 0;
    for (std::uint32_t i = 0; i < plan_.chains.size(); i++) own += region_.stats.chains[i].own;
    if (own != 0)
        notes.push_back(std::to_string(own) + (own == 1 ? " fetch was" : " fetches were") +
                        " begun by the program's own threads");
    for (std::size_t i = 0; i < std::size(kWhy); i++) {
        const std::uint64_t left = region_.stats.left[i];
        if (left != 0)
            notes.push_back(std::to_string(left) + (left == 1 ? " request was" : " requests were") +
                            " left to the server: " + kWhy[i]);
    }
    return notes;
}

}  // namespace chainio::shadow
