// Whether a shadow chain pays, and so whether it runs.
//
// A fetched range costs c (a share of the device, the server's time) whether it is read or not; one that is read saves
// b (the program's wait). A chain with hit rate h gains h·b − c a fetch, so it pays from h = c/b on: the break-even,
// measured near 0.35.
//
// The rate is that of the last `window` outcomes. Of n outcomes at a true rate p the measured rate scatters by
// s(n) = sqrt(p·(1−p)/n). The chain goes off when the rate is below break_even − 2·s(n), and n is at least `least`: a
// chain that just breaks even goes off by chance about once in forty windows, one at twice the break-even never, and
// one that is of no use at all after 32 outcomes (0.35 − 2·0.084 = 0.18). With n = 128 the line stands at 0.27.
//
// Outcomes may come by the hundred, of one event that was an exception. So a chain whose latest events together have a
// share of break_even or more stays on, whatever the latest outcomes are.
//
// A request whose bytes are in memory already costs little but brings nothing. A chain that in `use_window` requests
// has not had at least `least_fetched` of them fetched goes off too. The share is small because one fetch saves a
// hundred times what a needless request costs, and because many requests may want one page (rows that share a leaf):
// those are told apart as duplicates by the caller, who counts them neither as requests nor as fetches. A chain that
// has never had anything fetched goes off after `least_in_memory` such requests, and its pauses grow by four: a program
// that starts over warm data, or that waits only for what no chain names, is to pay for no more.
//
// A request that came too late, for what the program had by then waited for itself, says that the server did not get
// the processor in time, not that the data is warm: on a busy machine that is so of many requests in a row of a chain
// that names all that will be read. Only one in `late_requests` of them counts as a request, and one in
// `late_in_memory` as one whose bytes were in memory, so that a chain which always comes too late goes off as well.
//
// Off lasts `first_pause`, doubled at each failure up to `longest_pause`. Then the chain is probed: `probe_requests`
// requests go out, and it comes back on when at least `probe_outcomes` of them (or all that were fetched) have a rate
// of break_even. A success halves the next pause; so a chain that alternates between good and bad settles between the
// two ends.
//
// A chain that went off because all was in memory is probed after a quarter of its pause when the program waits for the
// disk (waited). Not at once: on a busy machine a read from memory may look as if it had waited. After `first_waits` of
// them it is probed without that pause, since a program that has begun on cold data may have ended by then; each probe
// for waits that finds all in memory doubles how many that takes, up to `most_waits`.
//
// While off, a chain that would gain G a second loses at most longest_pause·G until it is noticed. While on in vain, at
// most 32 outcomes or `use_window` requests a pause are lost.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

namespace chainio::policy {

struct GateOptions {
    double break_even = 0.35;
    unsigned window = 128;  // outcomes, at most 128
    unsigned least = 32;
    unsigned use_window = 256;  // requests
    unsigned least_in_memory = 16;
    double least_fetched = 0.01;
    unsigned late_requests = 4, late_in_memory = 16;
    unsigned probe_requests = 64;
    unsigned probe_outcomes = 16;
    std::uint64_t least_pause_ns = 10'000'000;  // with waited()
    unsigned first_waits = 4, most_waits = 1024;
    std::uint64_t first_pause_ns = 50'000'000;
    std::uint64_t longest_pause_ns = 2'000'000'000;
    std::uint64_t longest_probe_ns = 1'000'000'000;  // from the first request of a probe to its verdict
};

class Gate {
  public:
    enum class State : std::uint8_t { on, off, probing };
    enum class Reason : std::uint8_t { none, wasted, no_use };

    explicit Gate(const GateOptions& options = {}) : options_(options), pause_ns_(options.first_pause_ns) {}

    State state() const { return state_; }
    Reason reason() const { return reason_; }  // of the last time that it went off
    // A probe of which nothing has been fetched yet.
    bool probes_nothing() const { return state_ == State::probing && fetched_ == 0; }
    bool wants_events() const { return state_ != State::off; }
    // Whether one more request may go out; a request that may is counted.
    bool admit();
    // One that was admitted turned out to be wanted already: it says nothing.
    void take_back();
    void fetched(unsigned ranges = 1) {
        fetched_ += ranges;
        any_fetched_ = true;
    }
    // Of these nothing comes, and they are tried again.
    void take_back_fetched(unsigned ranges) { fetched_ -= std::min<std::uint64_t>(fetched_, ranges); }
    // What a request was for was in memory.
    void in_memory() { in_memory_++; }
    // The program has read it itself, and has waited. `told`: in_memory() was called for it.
    void too_late(bool told);
    // What a request was for is not there at all, which says as little: chains may try where they cannot know.
    void led_nowhere() { too_late(false); }
    void useful() { outcome(true); }
    void wasted() { outcome(false); }
    // The program has waited for the disk. There may be something to fetch again: one that went off for want of that is
    // probed soon.
    void waited(std::uint64_t now_ns);
    // Whether waited() may have it probed; quietly: only many waits would, of which it need not hear at once.
    enum class Hears : std::uint8_t { nothing, quietly, aloud };
    Hears hears_waits(std::uint64_t now_ns) const;
    // Draws the conclusions; true when the state has changed. `share`: how much was useful of what the latest events
    // had fetched, 0 where that is not known.
    bool update(std::uint64_t now_ns, double share = 0);
    // Whether update() would switch it off since all was in memory: what is known of that had better be complete.
    bool would_be_of_no_use(std::uint64_t now_ns, double share = 0) const;

    double rate() const;  // of the outcomes in the window; 0 without any
    unsigned outcomes() const { return count_; }
    std::uint64_t pause_ns() const { return pause_ns_; }

  private:
    void outcome(bool good);
    void clear();
    bool update_on(std::uint64_t now_ns, double share);
    bool update_probe(std::uint64_t now_ns);
    void go_off(std::uint64_t now_ns, Reason reason);
    std::uint64_t shortest_until() const;
    unsigned waits_wanted() const;
    bool was_never_needed() const { return !any_fetched_ && in_memory_ >= options_.least_in_memory; }

    GateOptions options_;
    State state_ = State::on;
    Reason reason_ = Reason::none;
    bool any_fetched_ = false;                // ever
    std::array<std::uint64_t, 2> history_{};  // one bit an outcome, the newest lowest in [0]
    unsigned count_ = 0;                      // outcomes in it
    std::uint64_t requests_ = 0, in_memory_ = 0, fetched_ = 0, resolved_ = 0, late_ = 0;
    std::uint64_t pause_ns_;        // the next one
    std::uint64_t running_ns_ = 0;  // that of the time that it is off
    std::uint64_t off_ns_ = 0, until_ns_ = 0, probe_since_ns_ = 0;
    unsigned waits_ = 0;      // since it went off
    bool for_waits_ = false;  // they end the pause
    unsigned vain_ = 0;       // probes in a row for waits that found all in memory
};

}  // namespace chainio::policy
