// Runs any number of call chains at once on one thread: the user engine over io_uring (or whatever its Backend is), or
// the kernel engine, whose steps run in the kernel (kernel_loop.h).
// Nothing is allocated after create() and open_file(). Not thread-safe; one thread submits and reaps.
#pragma once
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/backend.h"
#include "runtime/engine/block_cache.h"
#include "runtime/engine/files.h"
#include "runtime/engine/flight.h"
#include "runtime/engine/kernel_loop.h"
#include "runtime/engine/option_names.h"
#include "runtime/engine/trial.h"
#include "runtime/metrics/counters.h"
#include "runtime/metrics/fallbacks.h"
#include "runtime/spec/loaded.h"

namespace chainio::engine {

// Bounds of the options; wrong_options() names the one that does not hold.
constexpr std::size_t kLeastMemory = std::size_t{2} * umem::kSlabBytes;
constexpr unsigned kMostInFlight = 65536;
constexpr unsigned kMostFiles = 4096;

struct EngineOptions {
    unsigned in_flight = 64;       // chains
    std::size_t umem_bytes = 0;    // memory for blocks; 0: chosen by in_flight. Block caches come on top of it.
    std::size_t packet_bytes = 0;  // and so does this, for the packets of interfaces
    unsigned max_files = 64;
    bool use_ring = true;  // false: plain preads only
    // A ring that others use as well, and whose turns its owner takes: reads go out and come in with these. Without it
    // the engine has a ring of its own.
    ring::Shared* ring = nullptr;
    bool kernel = false;  // the kernel engine, or no engine
    // Begins with the user engine, and goes on with the kernel engine where a trial found it no worse.
    std::optional<TrialOptions> trial = {};
    // Looks for completions that long before it sleeps; a ring that it was given has its own time.
    unsigned spin_us = 0;
    bool huge_pages = true;
    // Of files that are not immutable, too: blocks from which a chain went on to another are kept for so long, and at
    // most so many bytes of each class. Chains then find their way by what the files said that long ago. 0: none are.
    std::uint64_t passed_ns = 0;
    std::size_t passed_bytes = 0;
    // Each buffered read is tried in the page cache first, however many were not there: for who counts what was.
    bool always_try_page_cache = false;
    bool all_memory_at_once = false;  // for a program that stays: in huge pages, where the kernel can make some
    // The smallest frame that a block is read into which no cache keeps; 4096 where AF_XDP sends from it. Then there is
    // room in front of a block that leaves its frame some.
    std::uint32_t least_frame = umem::kUnit;
    OptionNames names = {};
};

// Which bound does not hold, whatever is run with them; empty: all do.
std::string wrong_options(const EngineOptions& options);

using FileHandle = std::uint32_t;

struct Argument {
    enum class Kind : std::uint8_t { file, scalar, bytes } kind = Kind::scalar;
    std::uint64_t value = 0;  // a scalar, or a FileHandle
    std::span<const std::uint8_t> bytes;
    static Argument file(FileHandle handle) { return {Kind::file, handle, {}}; }
    static Argument scalar(std::uint64_t v) { return {Kind::scalar, v, {}}; }
    static Argument of_bytes(std::span<const std::uint8_t> b) { return {Kind::bytes, 0, b}; }
};

struct Completion {
    std::uint64_t user_data = 0;
    std::uint32_t chain = 0;
    std::uint32_t outcome = 0;
    ir::ResultKind kind = ir::ResultKind::none;  // scalar: `scalar`; else the bytes
    std::uint64_t scalar = 0;
    std::span<const std::uint8_t> bytes;  // valid until the next reap() or the engine's end
    std::uint32_t hops = 0;               // reads that the chain queued
    std::uint64_t ns = 0;                 // from submit to its end
    std::uint32_t flight = kNoIndex;      // the engine's own number, for keep()
};

// Where bytes lie in the engine's memory.
struct Stretch {
    umem::Frame frame = umem::kNoFrame;
    std::uint32_t offset = 0, length = 0;
};

struct SubmitError {
    enum class Kind : std::uint8_t { full, bad_argument, bad_chain } kind;
    std::string message;
};

class Engine {
  public:
    // Makes a back end of its own when none is given; `make_backend` gets the engine's slab and counters.
    using MakeBackend = std::unique_ptr<Backend> (*)(void* context, umem::Slab&, metrics::EngineCounters&);
    static std::expected<std::unique_ptr<Engine>, std::string> create(std::shared_ptr<const spec::Loaded> spec,
                                                                      const EngineOptions& options,
                                                                      MakeBackend make_backend = nullptr,
                                                                      void* context = nullptr);
    // What create() begins with, and what of it takes longest. It needs no ring, so that another thread may do it.
    struct Memory {
        umem::Slab slab;
        LazyMemory io, reads;
        std::uint32_t read_limit;
        std::size_t packet_bytes;
        std::string unread = {};  // why nobody knows whether there is room for it; empty: there is
    };
    static std::expected<Memory, std::string> make_memory(const spec::Loaded& spec, const EngineOptions& options);
    // In memory that was made with the same spec and options.
    static std::expected<std::unique_ptr<Engine>, std::string> create(std::shared_ptr<const spec::Loaded> spec,
                                                                      const EngineOptions& options, Memory memory);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    std::expected<FileHandle, FileError> open_file(std::uint32_t file_class, const std::string& path,
                                                   OpenMode mode = OpenMode::as_declared);
    // Takes over an opened file; for tests whose back end knows files that no kernel does.
    std::expected<FileHandle, FileError> add_file(OpenedFile file);
    std::expected<void, std::string> close_file(FileHandle handle);
    // The file of an open handle has another length by now: chains of the user engine that begin later are told that.
    void set_size(FileHandle handle, std::uint64_t size) { files_[handle & 0xffff].opened.size = size; }
    const OpenedFile* file(FileHandle handle) const;

    // Starts a chain; its first reads go out with the next reap(). An argument that does not fit is an error here.
    std::expected<void, SubmitError> submit(std::uint32_t chain, std::span<const Argument> args,
                                            std::uint64_t user_data);
    // Runs chains until at least `min` have ended (0: does not wait) and hands over at most out.size() of them. Fewer
    // than `min` only when fewer are in flight. The bytes of completions handed over before become invalid.
    std::expected<unsigned, std::string> reap(std::span<Completion> out, unsigned min);
    // The frame in which the bytes of a completion lie goes over to the caller (as kHandedOut of owners.h), who
    // releases it to memory(). Nothing when they lie elsewhere, as in a cache, in a frame below `least_frame` or in
    // what was emitted: then they have to be copied.
    std::optional<Stretch> keep(const Completion& completion);
    // A frame for the caller, likewise; blocks that are only kept for later yield to it. kNoFrame: there is none.
    umem::Frame take_frame(std::uint32_t bytes);
    umem::Slab& memory() { return slab_; }
    // What of it was taken for the packets of interfaces, whatever is in it now.
    std::size_t packet_bytes() const { return packet_bytes_; }
    // The registered buffer of the ring that it was given in which such bytes of memory() lie; -1: none.
    int buffer_of(const std::uint8_t* data, std::size_t length) const { return backend_->buffer_of(data, length); }
    // Once somebody has let go of locked memory: what of memory() could not be registered with the ring is tried again.
    void register_rest() { backend_->register_rest(); }
    // Ends the chains that were submitted with this number and have not ended: `cancelled`, handed over like the
    // others. Gives how many they were. Their reads that the device has already are left to arrive.
    unsigned cancel(std::uint64_t user_data);
    unsigned in_flight() const { return live_; }  // submitted and not handed over yet
    unsigned capacity() const { return options_.in_flight; }
    // Of the user engine: reads that the back end has, and those of which it has said nothing yet that they are done.
    unsigned reads_under_way() const { return on_device_; }
    // Whether chains run inside the kernel: then a reap() that waits for many ends them in one system call. May change
    // with a trial, as may poll_fd().
    bool in_kernel() const { return inside_; }
    // For event loops: readable when reap(out, 0) has something to do; -1 when only a waiting reap makes progress.
    int poll_fd() { return inside_ ? -1 : backend_->poll_fd(); }
    // Whether progress comes with the turns of the ring that it was given; then there is nothing to wait for here.
    bool by_turns() const { return !inside_ && backend_->by_turns(); }
    // Whether chains can go on without the device: a reap(out, 0) of an engine by turns leaves some to the next one, as
    // its caller has others to look after.
    bool has_ready() const { return !ready_.empty(); }

    const spec::Loaded& spec() const { return *spec_; }
    const metrics::EngineCounters& counters() const { return counters_; }
    const metrics::ChainCounters& chain_counters(std::uint32_t chain) const { return chain_counters_[chain]; }
    const metrics::Fallbacks& fallbacks() const { return fallbacks_; }
    metrics::Fallbacks& fallbacks() { return fallbacks_; }
    std::string describe() const;  // which engine runs, in one line
    // Of --engine=auto: whether its trial may still change the engine; and what came of it, or is to come.
    bool choosing() const { return choice_ != nullptr && choice_->open; }
    std::string choice() const { return choice_ ? choice_->trial.describe() : ""; }
    const umem::Slab& slab() const { return slab_; }
    // Frames that nothing accounts for; empty unless something has a defect. To be asked when no chain is in flight and
    // what was handed out has to be back.
    std::vector<std::string> leaks();

  private:
    struct File {
        OpenedFile opened;
        std::uint32_t id = 0;          // never used twice, the key of cached blocks
        std::uint32_t generation = 0;  // of the handle
        std::uint32_t chains = 0;      // in flight over it
        std::uint32_t orphans = 0;     // reads of chains that have ended, which the back end still has
        BlockCache* cache = nullptr;
        std::uint32_t cache_levels = 0;
        bool keep_passed = false;  // what is cached are blocks that chains have passed through
        bool try_page_cache = false;
        std::uint16_t page_cache_misses = 0, page_cache_pause = 0;
        bool used = false;  // open; one that was closed keeps its slot and descriptor while it has orphans
    };
    struct ReadLink {
        Read* reads;
        QueueLink& operator()(std::uint32_t i) const { return reads[i].link; }
    };
    struct FlightLink {
        Flight* flights;
        QueueLink& operator()(std::uint32_t i) const { return flights[i].link; }
    };
    struct List {
        std::uint32_t head = kNoIndex, tail = kNoIndex;
    };
    enum class Issued : std::uint8_t { yes, no_frame, no_room };

    Engine(std::shared_ptr<const spec::Loaded> spec, const EngineOptions& options, Memory memory,
           const std::vector<ClassRank>& ranks);
    static std::expected<std::unique_ptr<Engine>, std::string> create_in(std::shared_ptr<const spec::Loaded> spec,
                                                                         const EngineOptions& options, Memory memory,
                                                                         MakeBackend make_backend, void* context);

    std::uint32_t free_slot() const;
    bool await_orphans();
    void let_go(std::uint32_t slot);

    // engine_chain.cpp: one chain's life
    static std::uint64_t now_ns();
    void start(std::uint32_t index);
    std::expected<void, SubmitError> bind_arguments(std::uint32_t index, const ir::Chain& chain,
                                                    std::span<const Argument> args);
    void prepare(cio_io& io) const;
    static bool names_a_read(const cio_next& next, const Flight& flight, const ir::Chain& chain);
    void run_step(std::uint32_t index, bool may_block);
    void after_program(std::uint32_t index, std::uint32_t ran);
    void after_last_read(std::uint32_t index);
    std::uint32_t queue_reads(std::uint32_t index, std::uint16_t depth);
    std::uint32_t take_result(std::uint32_t index, std::uint32_t ran);
    std::uint32_t result_of(std::uint32_t index, std::span<const std::uint8_t> block);
    std::uint32_t slice_of(std::uint32_t index, std::span<const std::uint8_t> block);
    void hold_block(std::uint32_t index, std::uint32_t ran);
    void finish(std::uint32_t index, std::uint32_t outcome);
    void release_held();
    unsigned hand_over(std::span<Completion> out, unsigned already);
    // What has been handed over must reach the caller: the error comes again with the next call.
    static std::expected<unsigned, std::string> count_or(unsigned count, const std::string& error) {
        if (count != 0) return count;
        return std::unexpected(error);
    }

    // engine_io.cpp: one read's life
    std::uint32_t new_read();
    void free_read(std::uint32_t index);
    void cache_block(Read& read, bool passed);
    void drop_block(Read& read);
    void drop_read(std::uint32_t index, bool passed = false);
    void issue_waiting(bool may_block);
    Issued issue(std::uint32_t index, bool alone);
    // Whether the next read may be made on this thread. One that is looked for is the ring's: a plain one sleeps at
    // once.
    bool reads_alone() const { return running_ == 1 && on_device_ == 0 && options_.spin_us == 0; }
    umem::Frame allocate(std::uint32_t bytes, umem::Owner owner);
    bool read_cached_page(std::uint32_t index, const ReadOp& op, File& file);
    ReadOp op_of(std::uint32_t index) const;
    void push(std::uint32_t index, const ReadOp& op);
    enum class GoOn : std::uint8_t { no, block_came, under_way };
    GoOn go_on(std::uint32_t index, bool may_block);
    void try_again(std::uint32_t index);
    void arrived(std::uint32_t index, std::int32_t result);
    void fetch_into_cache(const Read& read) const;
    void mark_done(std::uint32_t index, std::uint32_t failure);
    std::expected<void, std::string> advance(bool may_block);
    std::expected<void, std::string> enter(unsigned wait_for);
    std::expected<unsigned, std::string> reap_here(std::span<Completion> out, unsigned min);
    std::expected<unsigned, std::string> reap_user(std::span<Completion> out, unsigned min);
    std::uint8_t* block_of(const Read& read) const { return slab_.data(read.frame) + read.front + read.skip; }
    umem::Owner owner_of(std::uint32_t flight) const { return flight + 1; }

    // engine_kernel.cpp: the kernel engine's side of the same
    std::expected<std::unique_ptr<KernelLoop>, std::string> make_loop(const std::vector<ClassRank>& ranks,
                                                                      metrics::Fallbacks& fallbacks);
    std::expected<void, std::string> use_kernel(const std::vector<ClassRank>& ranks);
    void collect_ended();
    std::expected<unsigned, std::string> reap_kernel(std::span<Completion> out, unsigned min);

    // engine_auto.cpp: both, until one is chosen
    struct Choice {
        Choice(const TrialOptions& options, std::vector<ClassRank> given) : trial(options), ranks(std::move(given)) {}
        Trial trial;
        std::vector<ClassRank> ranks;
        bool open = true;     // the choice is not made, or what it asks for is not done
        bool trying = false;  // the round's costs are measured
        bool due = false;     // the round takes no more chains
        bool retire = false;  // the kernel engine is not needed any more
        List deferred;        // chains of the next round
        unsigned deferred_count = 0;
        Cost cost;  // of the round
        std::uint64_t busy_since = 0, cpu_mark = 0;
        // Of the kernel engine, which may never be the one that runs.
        metrics::Fallbacks fallbacks;
    };
    // What the engine's thread spends in one call of the engine.
    class Spent {
      public:
        explicit Spent(Engine& engine);
        ~Spent();
        Spent(const Spent&) = delete;
        Spent& operator=(const Spent&) = delete;

      private:
        Choice* choice_;
    };
    void choose(const std::vector<ClassRank>& ranks);
    void load_kernel();
    void give_up(const std::string& why);
    cio_io* io_of(std::uint32_t flight) const;
    void look_at_round();
    void count_started(std::uint64_t now);
    void count_ended(std::uint64_t now);
    void defer(std::uint32_t flight);
    bool drop_deferred(std::uint32_t flight);
    bool change_over();
    void note(const metrics::Fallbacks& of_kernel);
    void retire();
    unsigned started() const { return choice_ != nullptr ? running_ - choice_->deferred_count : running_; }
    std::expected<unsigned, std::string> reap_choosing(std::span<Completion> out, unsigned min);

    void append(List& list, std::uint32_t flight);
    std::uint32_t take_first(List& list);

    std::shared_ptr<const spec::Loaded> spec_;
    const ir::Module& module_;
    EngineOptions options_;
    metrics::EngineCounters counters_;
    metrics::Fallbacks fallbacks_;
    std::vector<metrics::ChainCounters> chain_counters_;
    umem::Slab slab_;
    std::size_t packet_bytes_;
    std::unique_ptr<Backend> backend_;
    std::unique_ptr<KernelLoop> kernel_;               // null: only the user engine
    bool inside_ = false;                              // chains run by the kernel engine
    std::unique_ptr<Choice> choice_;                   // null: the engine that was asked for
    std::vector<std::unique_ptr<BlockCache>> caches_;  // by file class; null without one
    std::vector<File> files_;
    std::uint32_t next_file_id_ = 1;

    LazyMemory io_memory_, read_memory_;
    std::vector<Flight> flights_;
    std::vector<std::uint32_t> flight_files_;  // file indices by chain in flight and file parameter
    std::uint32_t files_per_flight_ = 1;
    Read* reads_;
    std::uint32_t read_limit_, reads_touched_ = 0, free_reads_ = kNoIndex;
    std::vector<std::uint16_t> rank_of_chain_;
    std::uint32_t io_stride_ = 0;
    PriorityQueue<ReadLink> waiting_;  // for a frame or for room on the device
    PriorityQueue<ReadLink> again_;    // read short or interrupted, with their frames
    PriorityQueue<FlightLink> ready_;
    List free_flights_, finished_, held_;
    unsigned live_ = 0;     // submitted and not handed over
    unsigned running_ = 0;  // of those, not ended
    unsigned on_device_ = 0;
    unsigned unsubmitted_ = 0;  // of those, pushed since the last enter()
    std::vector<ReadDone> done_;
    std::vector<std::uint64_t> empty_block_;
};

}  // namespace chainio::engine
