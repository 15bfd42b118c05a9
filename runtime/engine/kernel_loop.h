// The kernel engine: chains that run inside io_uring_enter, by a loop_step program that the artifact carries. What it
// shares with that program is bpf-templates/chainio_loop.h.
#pragma once
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bpf-templates/chainio_loop.h"
#include "bpf-templates/chainio_step.h"
#include "runtime/engine/files.h"
#include "runtime/engine/kernel_program.h"
#include "runtime/engine/option_names.h"
#include "runtime/engine/priority_queue.h"
#include "runtime/metrics/counters.h"
#include "runtime/metrics/fallbacks.h"
#include "runtime/ring/ring.h"
#include "runtime/spec/loaded.h"
#include "runtime/umem/region.h"

namespace chainio::engine {

// What a loop that answers services needs beside what chains need.
struct Serving {
    std::span<const std::uint8_t> object;
    std::uint64_t request_bytes = 0, reply_bytes = 0;  // room of one connection
    std::uint64_t registers = 0;                       // of a handler
    cio_serve_layout layout{};                         // its places are filled in when the memory is planned
};

class KernelLoop {
  public:
    struct Options {
        std::uint32_t flights = 0;     // chains in flight and results that are held
        std::size_t memory_bytes = 0;  // wish for blocks; 0: chosen
        unsigned file_slots = 64;
        std::uint32_t spin_us = 0;  // looks for completions that long before it sleeps
        bool huge_pages = true;
        Serving* serving = nullptr;
        OptionNames names = {};
    };
    struct Ended {
        std::uint32_t flight = 0, outcome = 0, hops = 0;
        std::span<const std::uint8_t> block;  // that the last step ran on
    };

    static std::expected<std::unique_ptr<KernelLoop>, std::string> create(const spec::Loaded& spec,
                                                                          const std::vector<ClassRank>& ranks,
                                                                          const Options& options,
                                                                          metrics::Fallbacks& fallbacks);
    ~KernelLoop();
    KernelLoop(const KernelLoop&) = delete;
    KernelLoop& operator=(const KernelLoop&) = delete;

    cio_io* io(std::uint32_t flight) const;
    std::expected<void, std::string> add_file(std::uint32_t slot, const OpenedFile& file);
    void remove_file(std::uint32_t slot);
    // The step memory has the arguments and the state; `files` are the slots of its file parameters.
    void start(std::uint32_t flight, std::uint32_t chain, std::uint16_t rank, std::span<const std::uint32_t> files);
    bool cancel(std::uint32_t flight);  // false: it has its outcome already
    // One io_uring_enter, until at least `wanted` more chains have ended (0: does not wait). 0 or -errno; what a
    // signal interrupts (-EINTR) goes on with the next call, as all of its state is in the region.
    int run(unsigned wanted);
    bool take_ended(Ended& ended);
    // For the one who serves: what the program keeps beside the chains lies in the region, and connections are made
    // ready as chains are.
    const umem::Region& region() const { return region_; }
    ring::Ring& ring() { return ring_; }
    std::uint32_t step_base(std::uint32_t chain) const { return step_base_[chain]; }
    std::uint32_t level(std::uint16_t rank) const { return level_[rank]; }
    cio_flight& flight(std::uint32_t index) const;
    void make_ready(std::uint32_t index);
    // Nothing is under way any more, whatever the program has counted.
    void forget_operations() { head_->on_device = 0; }
    bool busy() const { return head_->on_device != 0; }
    void count(metrics::EngineCounters& counters);  // adds what has come since the last time
    std::string describe() const;
    std::uint32_t instructions_processed() const { return program_->instructions_processed(); }  // by the verifier

  private:
    struct Plan;
    KernelLoop(const spec::Loaded& spec, const std::vector<ClassRank>& ranks, const Plan& plan, umem::Region region,
               ring::Ring ring);
    static std::expected<Plan, std::string> plan(const spec::Loaded& spec, const Options& options);
    std::expected<void, std::string> connect(std::span<const std::uint8_t> object, Serving* serving,
                                             const std::string& other_engine, metrics::Fallbacks& fallbacks);
    const std::uint8_t* frame(std::uint32_t flight, std::uint32_t slot) const;

    const ir::Module& module_;
    cio_loop_layout layout_;
    umem::Region region_;
    ring::Ring ring_;
    std::unique_ptr<KernelProgram> program_;  // ends before the ring and the memory that it works on
    cio_loop_head* head_;
    std::vector<std::uint32_t> step_base_;  // by chain
    std::vector<std::uint32_t> level_;      // by rank
    std::vector<std::uint32_t> align_;      // by file slot
    std::uint64_t enters_ = 0;
    metrics::EngineCounters counted_;
    bool registered_ = false;
};

}  // namespace chainio::engine
