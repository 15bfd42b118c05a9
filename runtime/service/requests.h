// Requests that run: each has a slot with its handler's registers and the results of the chains that it called.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compiler/ir/handler_run.h"
#include "runtime/engine/engine.h"
#include "runtime/service/files.h"
#include "runtime/service/framing.h"
#include "runtime/service/sink.h"

namespace chainio::service {

// Completions of the engine whose user_data has this bit are ours.
inline constexpr std::uint64_t kOurs = std::uint64_t{1} << 63;

enum class RunState : std::uint8_t {
    chain,    // a chain runs for it
    starved,  // the engine takes no chain now: to be gone on with after the next completions
    yields,   // its call had its answer at once: to be gone on with once others have had their turn
    short_,   // no frame was free for its chain: to be gone on with a little later
    full,     // the output has no room: to be gone on with once something was sent
    ended,
};
enum class Ending : std::uint8_t { answered, malformed, failed };

struct Places {
    unsigned run = 1;     // requests that run
    unsigned shed = 1;    // beside them those that do not, while their clients are told so
    unsigned parked = 0;  // either kind, that waits for its client and leaves its place to others
};

class Requests {
  public:
    // A request whose chain finds no frame for so many ns fails.
    Requests(engine::Engine& engine, const Files& files, const Places& places, std::uint64_t patience_ns = 0);
    // False: nothing may be started.
    bool has_memory() const {
        return io_memory_.base() != nullptr && result_memory_.base() != nullptr && ahead_memory_.base() != nullptr;
    }

    // For a request that runs, and for telling a client that its request is not run: neither kind takes places of the
    // other, so that slow answers to the ones hold up none of the others.
    bool any_free() const { return running_ < places_.run && !free_.empty(); }
    bool any_spare() const { return shed_ < places_.shed && !free_.empty(); }
    unsigned in_places() const { return running_; }
    // Whatever is still to end, chains that were begun ahead included.
    unsigned running() const { return static_cast<unsigned>(slots_.size() - free_.size()) + aheads_used_; }
    // Where the fields of a request end that begins with these bytes, of which more may come.
    Request fields_of(const ir::Framing& framing, std::span<const std::uint8_t> bytes);
    // Starts a service's handler over a request that stays where it is until the end; replies go to `output`.
    std::uint32_t start(std::uint32_t service, std::int32_t program, std::span<const std::uint8_t> request,
                        Sink& output, std::uint32_t connection);
    // Of a request that is not run: what its handler says before it calls anything, of what is behind the request.
    struct Unrun {
        Ending ending = Ending::failed;  // or it is of bad form
        std::uint64_t skips = 0;
        bool closes = false;
        bool shed = false;  // for want of a place: what answers it has one of those that are kept for that
    };
    Unrun unrun(std::uint32_t service, std::int32_t program, std::span<const std::uint8_t> request);
    // The same with what would have answered it, where not even that is run.
    Unrun unanswered(std::uint32_t service, std::int32_t program, std::span<const std::uint8_t> request);
    // Starts what answers a request that is not run: `on failure`, or `on malformed`.
    std::uint32_t start_failed(std::uint32_t service, const Unrun& unrun, std::span<const std::uint8_t> request,
                               Sink& output, std::uint32_t connection);
    RunState go_on(std::uint32_t slot);
    // Begins a request anew whose reply is thrown away for the memory that it lies in; it is short then, and to be gone
    // on with a little later. False: it has waited long enough, or what answers a request that failed runs already.
    bool start_again(std::uint32_t slot);
    // How often in a row there was no frame for its chain.
    unsigned times_short(std::uint32_t slot) const { return slots_[slot].times_short; }
    // It waits for memory no longer: where there is none the next time, it fails.
    void lose_patience(std::uint32_t slot) { slots_[slot].hopeless = true; }
    bool has_begun_anew(std::uint32_t slot) const { return slots_[slot].anew; }
    // Whether a result of it lies in that frame of the engine's memory.
    bool has(std::uint32_t slot, umem::Frame frame) const {
        return std::ranges::any_of(slots_[slot].kept, [=](const Kept& kept) { return kept.at.frame == frame; });
    }
    // A request whose reply waits for room leaves its place, and what it holds of the engine's memory, to others until
    // it is gone on with; unless as many as may have done so.
    void park(std::uint32_t slot);
    bool is_shed(std::uint32_t slot) const { return slots_[slot].shed; }
    // Takes the result of a chain; the slot that waits for it, if one does, is to be gone on with.
    std::optional<std::uint32_t> take(const engine::Completion& completion);
    std::uint32_t connection(std::uint32_t slot) const { return slots_[slot].connection; }

    // Of a slot that has ended. With `closes`, the connection is to be ended.
    Ending ending(std::uint32_t slot) const { return slots_[slot].ending; }
    bool head_too_long(std::uint32_t slot) const { return slots_[slot].head_too_long; }
    bool closes(std::uint32_t slot) const { return slots_[slot].closes || skips(slot) > ir::kMaxSkip; }
    // What it has replied is not whole: a chain that its reply needs has failed (ir::CallChain::closes).
    bool is_torn(std::uint32_t slot) const { return slots_[slot].torn; }
    // Bytes behind the request that are no requests.
    std::uint64_t skips(std::uint32_t slot) const { return slots_[slot].skips + slots_[slot].io->result; }
    // Bytes of chains' results that were copied since the last call.
    std::uint64_t take_copies(std::uint32_t slot) { return std::exchange(slots_[slot].copies, 0); }
    // The reply found no room at all, or was thrown away: the slot goes on with what answers a request that failed.
    void fail(std::uint32_t slot);
    // What `program` puts at the begin of a datagram of the reply; nothing when it fails or `out` is too small for it.
    std::optional<std::size_t> datagram_head(std::uint32_t slot, std::int32_t program, std::uint64_t number,
                                             std::uint64_t count, std::span<std::uint8_t> out);
    // How long the longest of `count` of them is; nothing when there is one that cannot be had.
    std::optional<std::size_t> longest_head(std::uint32_t slot, std::int32_t program, std::uint64_t count,
                                            std::span<std::uint8_t> out);
    void release(std::uint32_t slot);
    // The connection is gone: the slot comes free at once, or when its chain has ended.
    void abandon(std::uint32_t slot);

  private:
    static constexpr std::uint32_t kNone = engine::kNoIndex;
    static constexpr unsigned kMostAhead = 16;                       // of a request
    static constexpr std::uint64_t kAhead = std::uint64_t{1} << 32;  // user_data of a chain that is started ahead
    struct Kept {
        engine::Stretch at;
        bool ours = false;  // to be given back by us; else a sink has it, or there is none
    };
    struct Slot {
        explicit Slot(const ir::Artifact& artifact) : memory(artifact) {}
        ir::HandlerRun::Memory memory;
        std::optional<ir::HandlerRun> run;
        cio_io* io = nullptr;
        std::uint8_t* results = nullptr;
        std::vector<Kept> kept;  // by result: the frame in which it lies
        std::span<const std::uint8_t> request;
        Sink* output = nullptr;
        std::uint32_t service = 0, connection = 0;
        std::int32_t program = -1;  // that runs the request; none: it is not run
        std::uint64_t copies = 0;
        std::uint64_t skips = 0;           // of the programs before the one that runs
        std::size_t part = 0, within = 0;  // of the reply that is being written
        std::uint64_t short_since_ns = 0;  // no frame has been free for its chain; 0: one was
        unsigned times_short = 0;          // in a row
        bool anew = false;                 // it has begun anew for that, so that the time is not counted from 0 again
        Ending ending = Ending::answered;
        bool replying = false, closes = false, torn = false, in_engine = false, parked = false;
        bool head_too_long = false;                       // `on datagram` wrote more than a datagram may begin with
        bool shed = false;                                // it has a place of those that are kept for such
        bool is_short = false;                            // no frame was free
        bool hopeless = false;                            // nor will be, whatever others give back
        bool was_short = false;                           // once, so that it takes memory for one chain at a time
        bool moved = false;                               // results from the engine's memory to its own
        bool on_malformed = false, on_failure = false;    // has run, or need not
        std::uint32_t ahead = kNone, last_ahead = kNone;  // chains that run for calls which the handler will make
        bool waits_ahead = false;                         // for the first of them
    };
    // A chain that was started before the handler came to its call, and what came of it.
    struct Ahead {
        std::uint32_t next = kNone;  // of the same slot, or free
        std::uint32_t slot = kNone;  // that will want it, if one still will
        const ir::CallChain* call = nullptr;
        std::vector<engine::Argument> arguments;
        bool ended = false;
        std::uint32_t outcome = 0;
        ir::ResultKind kind = ir::ResultKind::none;
        std::uint64_t scalar = 0;
        engine::Stretch kept;                 // where its bytes are,
        std::span<const std::uint8_t> bytes;  // or a copy of them
    };
    std::uint32_t take_slot(std::uint32_t service, std::span<const std::uint8_t> request, Sink& output,
                            std::uint32_t connection, bool shed);
    unsigned& in_places_of(const Slot& slot) { return slot.shed ? shed_ : running_; }
    void unpark(Slot& slot);
    void vacate(Slot& slot);
    bool is_patient(Slot& slot) const;
    bool waits_for_memory(Slot& slot);
    static void had_memory(Slot& slot);
    void begin(Slot& slot, std::int32_t program);
    void find_tellers();
    ir::HandlerRun run_in(cio_io& io, ir::HandlerRun::Memory& memory, std::int32_t program,
                          std::span<const std::uint8_t> request) const;
    bool begin_next(Slot& slot);
    bool begin_handler_of(Slot& slot, Ending ending);
    std::optional<RunState> submit(Slot& slot, std::uint32_t index);
    std::uint32_t bind(const ir::HandlerRun& run, const ir::CallChain& call);
    bool answer_plain(Slot& slot, std::uint32_t outcome, ir::ResultKind kind, std::uint64_t scalar);
    void answer_failed(Slot& slot, std::uint32_t outcome);
    void answer_kept(Slot& slot, const engine::Stretch& kept);
    void answer_copy(Slot& slot, std::span<const std::uint8_t> bytes);

    // requests_ahead.cpp
    void look_ahead(Slot& slot, std::uint32_t index);
    bool is_next(const Slot& slot, const ir::CallChain& call) const;
    void answer_from_ahead(Slot& slot);
    std::optional<std::uint32_t> take_ahead(const engine::Completion& completion);
    void drop_ahead(Slot& slot);
    void free_ahead(std::uint32_t index);
    bool write_reply(Slot& slot);
    static void write_plain(Slot& slot, const std::vector<ir::ReplyPart>& parts);
    bool refer(Slot& slot, const ir::Slice& from, ir::Bytes bytes);
    void give_back(Slot& slot, Kept& kept);
    void give_back_all(Slot& slot);

    engine::Engine& engine_;
    const ir::Module& module_;
    const Files& files_;
    std::size_t io_stride_, result_stride_, results_stride_;
    engine::LazyMemory io_memory_, result_memory_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
    Places places_;
    unsigned running_ = 0, shed_ = 0, parked_ = 0;  // slots of each kind
    std::uint64_t patience_ns_;
    std::vector<engine::Argument> arguments_;
    std::uint32_t close_outcome_ = 0;
    std::vector<bool> tells_;        // by service: its handlers skip, or close
    std::vector<bool> heads_alike_;  // by service: the beginnings of a reply's datagrams have one length

    std::vector<const ir::CallChain*> ahead_calls_;  // in ascending order
    std::vector<Ahead> aheads_;
    engine::LazyMemory ahead_memory_;
    std::uint32_t free_aheads_ = kNone;
    unsigned aheads_used_ = 0;
    ir::HandlerRun::Memory scout_memory_;
};

}  // namespace chainio::service
