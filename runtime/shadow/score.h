// What the shadow chains were good for: the counters in the region, the gates, and what programs are asked to post.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "runtime/policy/gate.h"
#include "runtime/shadow/advice.h"
#include "runtime/shadow/failures.h"
#include "runtime/shadow/lengths.h"
#include "runtime/shadow/plan.h"
#include "runtime/shadow/ranges.h"
#include "runtime/shadow/silence.h"
#include "runtime/shadow/turns.h"
#include "runtime/shadow/waits.h"
#include "runtime/shim/protocol.h"

namespace chainio::shadow {

class Score final : public RangeSink {
  public:
    // `use_gates` off: chains run whatever they bring.
    Score(const ir::Module& module, const SpecPlan& plan, shim::Region& region, bool use_gates);

    void on_range(std::uint32_t chain, std::uint64_t turn, RangeEnd end) override;

    bool wants_events(std::uint32_t chain) const { return !use_gates_ || gates_[chain].wants_events(); }
    // Has had nothing to ask for lately.
    bool is_quiet(std::uint32_t chain) const {
        return listens_[chain] == Listens::to_slow_reads || listens_[chain] == Listens::in_its_sleep;
    }
    // One range or walk more may go out; refused by the gate it counts as dropped.
    bool admit(std::uint32_t chain);
    void take_back(std::uint32_t chain) { gates_[chain].take_back(); }  // an admitted one has to wait
    void duplicate(std::uint32_t chain);                                // an admitted one was wanted already
    void cached(std::uint32_t chain);                                   // what it was for was in memory
    // Or is since the program has read it itself, and has waited for the disk. `told`: as cached(), before that was
    // known.
    void too_late(std::uint32_t chain, bool told);
    // A walk has ended on its way, as one behind the last row does: what it was for is neither in memory nor to be had.
    void led_nowhere(std::uint32_t chain);
    // Admitted ones cannot be begun, which says nothing of whether what the chain asks for is of use.
    void refused(std::uint32_t chain, unsigned admitted = 1);
    void dropped(std::uint32_t chain, std::uint64_t times = 1) { add(stats(chain).dropped, times); }
    void fetched(std::uint32_t chain, std::uint64_t bytes, bool by_program = false);
    // So many ranges of what fetched() was told of did not come, are in no outcome, and will be told of again.
    void take_back_fetched(std::uint32_t chain, std::uint32_t ranges, std::uint64_t bytes);
    // A read on that disk was begun that needs nobody's help: programs may do the same, so many bytes at a time.
    void has_begun(std::uint64_t device, std::uint64_t longest);
    bool knows_disk(std::uint64_t device) const;
    // Whether programs may begin reads at all, as far as memory goes.
    void let_programs_begin(bool may);
    void walked(std::uint32_t chain) { add(stats(chain).walks); }
    void ran(std::uint32_t chain, bool well, bool asked);
    // The chain has had nothing to ask for, but something to remember.
    void marked(std::uint32_t chain) { add(stats(chain).events); }
    // An event was not shown to the chain, since its file is left alone: the chain has nothing to say of it.
    void left_alone(std::uint32_t chain);
    // The chain's program has run well for a read of `total` bytes; whether it asked for anything, whatever came of it.
    void learn_length(std::uint32_t chain, bool asked, std::uint32_t total);
    // A read of a watched class has waited for the device: chains that were of no use for want of cold data may be now,
    // unless such short reads never are of any.
    void waited(std::uint32_t file_class, std::uint64_t now_ns, std::uint32_t length);
    // Events of each chain so far that have made it ask for something.
    const std::vector<std::uint64_t>& turns() const { return turns_; }

    // A program's read; `touched`: of a range that was fetched ahead.
    void program_read(std::uint32_t file_class, std::uint64_t bytes, std::uint64_t took_ns, bool touched);
    // Of a `no_read_ahead` class: how a read went that tells whether the kernel had better read ahead (advice.h).
    void saw_read_ahead(std::uint32_t file_class, bool left_alone, std::uint64_t now_ns);
    // Whether the kernel reads ahead in what programs open of the class now.
    bool kernel_reads_ahead(std::uint32_t file_class) const { return !ahead_[file_class]; }
    // What a hit of the program's next read would save. `served`: it came from served memory. `there_anyway`: as far as
    // is known it would have been in memory without us, as what the kernel reads ahead is in most cases.
    void expect_saving(std::uint32_t file_class, std::uint64_t took_ns, bool served, bool there_anyway);
    void fetch_took(std::uint64_t ns);
    bool knows_fetches() const { return fetches_.tell(); }

    // Ranges that on_range() was told of: why they have failed, or 0.
    void could_not_read(std::uint32_t ranges, int error, std::uint64_t file) { failures_.add(ranges, error, file); }
    const Failures& failures() const { return failures_; }

    void update_gates(std::uint64_t now_ns);
    // Whether that would switch a chain off as what it asks for is in memory.
    bool would_be_of_no_use(std::uint64_t now_ns) const;
    const policy::Gate& gate(std::uint32_t chain) const { return gates_[chain]; }
    std::vector<std::string> gate_notes() const;
    // What programs began themselves, and why they left the rest.
    std::vector<std::string> own_notes() const;

  private:
    static void add(shim::Counter& counter, std::uint64_t n = 1) { counter.fetch_add(n, std::memory_order_relaxed); }
    shim::ChainStats& stats(std::uint32_t chain) { return region_.stats.chains[chain]; }
    void tell_programs();
    void update_gates(std::uint64_t now_ns, bool only_off);
    void useful(std::uint32_t chain, std::uint64_t turn);
    double share(std::uint32_t chain) const { return fetched_at_[chain].shares().useful(); }
    Listens listens(std::uint32_t chain) const;
    bool runs_in_programs(std::uint32_t chain) const;
    bool is_brought(std::uint32_t file_class) const;
    std::uint32_t least_read(std::uint32_t file_class) const;

    const ir::Module& module_;
    const SpecPlan& plan_;
    shim::Region& region_;
    const bool use_gates_;
    bool programs_may_begin_ = false;
    std::vector<policy::Gate> gates_;
    std::vector<std::uint64_t> turns_, times_off_, too_late_;
    std::vector<Turns> fetched_at_;  // by chain
    std::vector<Silence> silence_;
    std::vector<Listens> listens_;           // what programs were told by
    std::vector<bool> own_;                  // and whether they run the chain themselves
    std::vector<Lengths> lengths_;           // of chains that see no byte
    std::vector<Advice> advice_;             // by watched class
    std::vector<bool> ahead_;                // by watched class: chains read ahead there, and the kernel need not
    std::uint64_t now_ns_ = 0;               // of the latest update_gates()
    std::vector<std::uint64_t> first_turn_;  // of the gate's state: what was begun before it says nothing about it
    std::vector<Waits> misses_;              // by watched class: reads that waited and that no range was there for
    Waits fetches_;
    Failures failures_;
    std::uint64_t saving_ = 0;  // of the next hit
    bool served_ = false;       // whether it is served
};

}  // namespace chainio::shadow
