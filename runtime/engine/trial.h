// How --engine=auto decides: rounds of chains by the user engine and by the kernel engine in turns, their costs
// compared pair by pair.
#pragma once
#include <cstdint>
#include <string>

namespace chainio::engine {

enum class Side : std::uint8_t { user, kernel };

struct Cost {
    std::uint64_t chains = 0;
    std::uint64_t cpu_ns = 0;      // of the engine's thread, inside the engine's calls
    std::uint64_t elapsed_ns = 0;  // with a chain under way
};

struct TrialOptions {
    std::uint64_t after_ns = 1'000'000'000;  // of work by the user engine, before anything is tried
    bool load_first = false;                 // the kernel's program when the engine is made, not when the trial begins
    // A round takes no more chains when it has so many, or when it has lasted so long.
    unsigned round_chains = 1024;
    std::uint64_t round_ns = 20'000'000;
    unsigned pairs = 8;   // of rounds that count
    unsigned needed = 6;  // of them in which the kernel engine has to be no worse
    // For tests: what a round is said to have cost.
    Cost (*judged)(Side side, Cost measured) = nullptr;
};

class Trial {
  public:
    explicit Trial(const TrialOptions& options) : options_(options) {}

    bool decided() const { return decided_; }
    // Which engine's turn the round is; of a trial that has ended: the one that runs.
    Side side() const;
    void add(Cost cost);                   // of the round, which has ended
    void give_up(const std::string& why);  // the user engine, whatever was measured
    // Whether a round that has so many chains, and has lasted so long, takes no more.
    bool full(std::uint64_t chains, std::uint64_t elapsed_ns) const {
        return chains >= options_.round_chains || elapsed_ns >= options_.round_ns;
    }
    std::string describe() const;
    const TrialOptions& options() const { return options_; }

  private:
    void compare();
    std::string figures() const;

    TrialOptions options_;
    unsigned round_ = 0;       // the first two warm both engines up, and do not count
    Cost pair_[2], total_[2];  // by side
    unsigned pairs_ = 0, won_ = 0;
    bool decided_ = false;
    Side winner_ = Side::user;
    std::string why_;
};

}  // namespace chainio::engine
