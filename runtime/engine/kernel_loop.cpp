#include "runtime/engine/kernel_loop.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "compiler/ir/kernel_handlers.h"
#include "compiler/ir/visit.h"

namespace chainio::engine {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20;  // that the verifier lets a program reach
constexpr std::uint64_t kAutomaticBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kQueueBytes = std::uint64_t{32} << 20;  // of reads that chains have asked for
constexpr std::uint64_t kBulkSteps = 8;                         // that an urgent chain's step may wait for
constexpr std::uint32_t kMostFlights = 32768;                   // half of the longest completion queue

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

void widest_read(const ir::Body& body, std::uint64_t& widest) {
    for (const ir::Stmt& stmt : body) {
        if (const auto* next = std::get_if<ir::Next>(&stmt.node)) {
            widest = std::max<std::uint64_t>(widest, next->length.is_imm ? next->length.value : CIO_MAX_BLOCK);
        }
        ir::for_each_body(stmt, [&](const ir::Body& nested) { widest_read(nested, widest); });
    }
}

// What lies behind the frames, in this order: the head, the connections, their requests, their replies.
std::uint64_t serving_bytes(Serving& serving, std::uint64_t flights) {
    cio_serve_layout& layout = serving.layout;
    layout.conn_stride = round_up(sizeof(cio_conn) + serving.registers * sizeof(std::uint64_t), 64);
    layout.in_stride = round_up(serving.request_bytes, 64);
    layout.in_mask = std::bit_ceil(serving.request_bytes) - 1;
    layout.out_stride = round_up(serving.reply_bytes + CIO_PAD, 64);
    return round_up(sizeof(cio_serve_head), 64) + 64 +
           flights * (layout.conn_stride + layout.in_stride + layout.out_stride) + CIO_SERVE_PAD;
}

void place_serving(cio_serve_layout& layout, std::uint64_t begin, std::uint64_t flights) {
    layout.head_offset = begin;
    layout.conns_offset = round_up(begin + sizeof(cio_serve_head), 64);
    layout.in_offset = layout.conns_offset + flights * layout.conn_stride;
    layout.out_offset = layout.in_offset + flights * layout.in_stride;
}

std::string check_chains(const ir::Module& module) {
    for (const auto& chain : module.chains) {
        if (chain.mode != ir::ChainMode::call) continue;
        const auto files = std::ranges::count_if(
            chain.params, [](const ir::Param& param) { return param.kind == ir::Param::Kind::file; });
        if (files > CIO_LOOP_FILES) {
            return "chain '" + chain.name + "' reads " + std::to_string(files) +
                   " files; the kernel engine can give a chain " + std::to_string(CIO_LOOP_FILES);
        }
    }
    return {};
}

}  // namespace

struct KernelLoop::Plan {
    cio_loop_layout layout{};
    std::uint32_t reads = 0;  // under way at most
    unsigned file_slots = 0;
    bool huge_pages = false;
};

std::expected<KernelLoop::Plan, std::string> KernelLoop::plan(const spec::Loaded& spec, const Options& options) {
    const ir::Module& module = spec.module();
    std::uint64_t hops = 0, widest = 1;
    for (const auto& chain : module.chains) {
        if (chain.mode == ir::ChainMode::call) hops = std::max<std::uint64_t>(hops, chain.hops);
    }
    for (const auto& program : module.programs) widest_read(program.body, widest);
    const std::uint64_t flights = std::bit_ceil(std::max(options.flights, 2u));
    Plan plan;
    plan.file_slots = options.file_slots;
    plan.huge_pages = options.huge_pages;
    cio_loop_layout& at = plan.layout;
    at.flight_mask = flights - 1;
    at.queue_mask = std::min(std::bit_ceil(hops + 1), std::bit_floor(kQueueBytes / flights / sizeof(cio_next))) - 1;
    at.frame_bytes = round_up(std::min<std::uint64_t>(widest, CIO_MAX_BLOCK), kPage) + kPage;
    at.spin_ns = std::uint64_t{options.spin_us} * 1000;
    at.bulk_steps = kBulkSteps;
    // The variables that do not fit cio_io.vars lie behind the areas; they are at most what a program's registers are.
    std::uint64_t registers = 0;
    for (const auto& program : module.programs) registers = std::max<std::uint64_t>(registers, program.reg_count);
    const std::uint64_t memory = spec.artifact().layout.total + registers * sizeof(std::uint64_t) + CIO_PAD;
    at.queue_offset = round_up(sizeof(cio_flight) + memory, 64);
    at.place_stride = round_up(at.queue_offset + (at.queue_mask + 1) * sizeof(cio_next), 64);
    at.ended_offset = round_up(sizeof(cio_loop_head), 64);
    at.places_offset = round_up(at.ended_offset + flights * sizeof(std::uint32_t), 64);
    at.frames_offset = round_up(at.places_offset + flights * at.place_stride, kPage);
    const std::uint64_t serving = options.serving != nullptr ? serving_bytes(*options.serving, flights) : 0;
    // A step may be given any place in the last frame as a block of full size.
    const auto bytes_with = [&](std::uint64_t window) {
        return at.frames_offset + flights * window * at.frame_bytes + CIO_MAX_BLOCK + 2 * kPage + serving;
    };
    if (bytes_with(1) > kMostBytes || flights > kMostFlights) {
        const bool serves = options.serving != nullptr;
        const std::string what = serves ? std::to_string(options.flights) + " connections"
                                        : std::to_string(options.flights / 2) + " chains in flight";
        return std::unexpected(what + " would take " + std::to_string(bytes_with(1) >> 20) +
                               " MiB, and the kernel engine can use " + std::to_string(kMostBytes >> 20) +
                               " MiB; ask for fewer (" + (serves ? "--connections" : options.names.in_flight) +
                               "), or for " + options.names.user_engine);
    }
    std::uint64_t window = CIO_LOOP_WINDOW;
    const std::uint64_t wish = options.memory_bytes != 0 ? options.memory_bytes : kAutomaticBytes;
    while (window > 1 && (bytes_with(window) > std::min(wish, kMostBytes) || flights * window > kMostFlights))
        window /= 2;
    at.window_mask = window - 1;
    at.frames_stride = window * at.frame_bytes;
    at.memory_bytes = bytes_with(window);
    if (options.serving != nullptr)
        place_serving(options.serving->layout, at.frames_offset + flights * window * at.frame_bytes, flights);
    plan.reads = static_cast<std::uint32_t>(flights * window);
    return plan;
}

std::expected<std::unique_ptr<KernelLoop>, std::string> KernelLoop::create(const spec::Loaded& spec,
                                                                           const std::vector<ClassRank>& ranks,
                                                                           const Options& options,
                                                                           metrics::Fallbacks& fallbacks) {
    const auto fail = [](const std::string& why) { return std::unexpected("no kernel engine: " + why); };
    const std::string user_engine = options.names.user_engine;
    const std::string other_engine = "; " + user_engine + " runs every call chain";
    if (const std::string wrong = kernel_engine_obstacle(); !wrong.empty()) return fail(wrong + other_engine);
    const auto object = options.serving != nullptr ? options.serving->object : spec.kernel_object();
    if (object.empty() && !ir::has_call_chain(spec.module()))
        return fail("the spec has no call chain, and without one nothing runs inside the kernel; take " + user_engine);
    if (object.empty()) {
        return fail("the artifact carries no program for it: an older chainc made it; compile the spec again");
    }
    if (const std::string wrong = check_chains(spec.module()); !wrong.empty()) return fail(wrong);
    auto planned = plan(spec, options);
    if (!planned) return fail(planned.error());
    auto region = umem::Region::create(round_up(planned->layout.memory_bytes, kPage), options.huge_pages);
    if (!region) return fail(region.error());
    ring::RingOptions ring_options;
    ring_options.entries = CIO_LOOP_SQES;
    ring_options.cq_entries = std::max<unsigned>(2 * planned->reads, CIO_LOOP_SQES);
    // A connection's operation, its time limit, what calls both back, and the notice of a send.
    if (options.serving != nullptr)
        ring_options.cq_entries += 5 * static_cast<unsigned>(planned->layout.flight_mask + 1);
    ring_options.file_slots = options.file_slots;
    ring_options.level = ring::RingOptions::Level::loop;
    auto ring = ring::Ring::create(ring_options, fallbacks);
    if (!ring) return fail(ring.error());
    std::unique_ptr<KernelLoop> loop(new KernelLoop(spec, ranks, *planned, std::move(*region), std::move(*ring)));
    if (auto connected = loop->connect(object, options.serving, other_engine, fallbacks); !connected)
        return fail(connected.error());
    return loop;
}

KernelLoop::KernelLoop(const spec::Loaded& spec, const std::vector<ClassRank>& ranks, const Plan& plan,
                       umem::Region region, ring::Ring ring)
    : module_(spec.module()),
      layout_(plan.layout),
      region_(std::move(region)),
      ring_(std::move(ring)),
      head_(reinterpret_cast<cio_loop_head*>(region_.base())),
      align_(plan.file_slots) {
    std::uint32_t steps = 0;
    for (const auto& chain : module_.chains) {
        step_base_.push_back(steps);
        steps += static_cast<std::uint32_t>(chain.steps.size());
    }
    std::vector<std::uint32_t> priorities;
    for (const ClassRank& rank : ranks) priorities.push_back(rank.priority);
    std::ranges::sort(priorities);
    priorities.erase(std::unique(priorities.begin(), priorities.end()), priorities.end());
    for (const ClassRank& rank : ranks) {
        const auto place = std::ranges::lower_bound(priorities, rank.priority) - priorities.begin();
        level_.push_back(std::min<std::uint32_t>(static_cast<std::uint32_t>(place), CIO_LOOP_LEVELS - 1));
    }
    for (auto& list : head_->ready) list.first = list.last = CIO_LOOP_NONE;
}

// Gives the kernel the memory and the program.
std::expected<void, std::string> KernelLoop::connect(std::span<const std::uint8_t> object, Serving* serving,
                                                     const std::string& other_engine, metrics::Fallbacks& fallbacks) {
    // Why not was noted when the ring was made.
    if (!ring_.has_file_table()) return std::unexpected(fallbacks.last_reason("unregistered-files"));
    if (const int error = ring_.share_region(region_.base(), region_.size(), fallbacks); error != 0) {
        return std::unexpected("the kernel does not take " + std::to_string(region_.size() >> 20) +
                               " MiB as the ring's memory region: " + std::strerror(error) +
                               (error == ENOMEM ? " (raise RLIMIT_MEMLOCK, or CAP_IPC_LOCK)" : ""));
    }
    // A part would be of no use: the program makes each read in the same way.
    registered_ = ring_.register_whole(region_.base(), region_.size(), fallbacks);
    const io_uring* ring = ring_.get();
    const auto offset = [&](const void* at) {
        return static_cast<std::uint64_t>(static_cast<const std::uint8_t*>(at) -
                                          static_cast<const std::uint8_t*>(ring->cq.ring_ptr));
    };
    layout_.read = (registered_ ? IORING_OP_READ_FIXED : IORING_OP_READ) | IOSQE_FIXED_FILE << 8;
    for (std::uint32_t i = 0; i <= layout_.flight_mask; i++)
        flight(i).frames = reinterpret_cast<std::uint64_t>(frame(i, 0));
    // What no read needs stays 0: the program writes the rest of each.
    std::memset(ring->sq.sqes, 0, std::size_t{ring->sq.ring_entries} * sizeof *ring->sq.sqes);
    layout_.cq_mask = ring->cq.ring_mask;
    layout_.cq_head_offset = offset(ring->cq.khead);
    layout_.cq_tail_offset = offset(ring->cq.ktail);
    layout_.cqes_offset = offset(ring->cq.cqes);
    layout_.rings_bytes = layout_.cqes_offset + std::uint64_t{ring->cq.ring_entries} * sizeof(io_uring_cqe);
    if (serving != nullptr) {
        serving->layout.base_address = reinterpret_cast<std::uint64_t>(region_.base());
        serving->layout.zero_copy_flags = IORING_SEND_ZC_REPORT_USAGE | (registered_ ? IORING_RECVSEND_FIXED_BUF : 0U);
    }
    auto program =
        KernelProgram::attach(object, layout_, serving != nullptr ? &serving->layout : nullptr, ring->ring_fd);
    if (!program) return std::unexpected(program.error() + other_engine);
    program_ = std::make_unique<KernelProgram>(std::move(*program));
    return {};
}

KernelLoop::~KernelLoop() {
    if (program_ == nullptr) return;
    // The region is the parent's as well: what a child wrote there would end chains that the parent has running.
    if (!ring_.is_own()) return;
    // The kernel may still write into frames; the memory stays until it has finished, and for good where it cannot be
    // waited for: in a thread that is not the ring's, or without the program.
    for (std::uint32_t i = 0; i <= layout_.flight_mask; i++) {
        if (flight(i).on_device != 0) cancel(i);
    }
    int result = 0;
    while (head_->on_device > 0 && (result >= 0 || result == -EINTR)) result = run(CIO_LOOP_NONE);
    if (head_->on_device > 0) region_.leave_mapped();
}

cio_flight& KernelLoop::flight(std::uint32_t index) const {
    return *reinterpret_cast<cio_flight*>(region_.base() + layout_.places_offset + index * layout_.place_stride);
}

cio_io* KernelLoop::io(std::uint32_t flight) const { return reinterpret_cast<cio_io*>(&this->flight(flight) + 1); }

const std::uint8_t* KernelLoop::frame(std::uint32_t flight, std::uint32_t slot) const {
    return region_.base() + layout_.frames_offset + flight * layout_.frames_stride + slot * layout_.frame_bytes;
}

std::expected<void, std::string> KernelLoop::add_file(std::uint32_t slot, const OpenedFile& file) {
    if (file.offset_align > CIO_LOOP_ALIGN) {
        return std::unexpected("its file system wants reads aligned to " + std::to_string(file.offset_align) +
                               " bytes; the kernel engine aligns to at most " + std::to_string(CIO_LOOP_ALIGN));
    }
    int fd = file.fd;
    const int result = io_uring_register_files_update(ring_.get(), slot, &fd, 1);
    if (result != 1) {
        return std::unexpected(std::string("the kernel refuses to register it with the ring: ") +
                               std::strerror(result < 0 ? -result : EINVAL) +
                               (result == -EEXIST ? " (an engine belongs to the thread that reaped first)" : ""));
    }
    align_[slot] = file.offset_align - 1;
    return {};
}

void KernelLoop::remove_file(std::uint32_t slot) { ring_.unregister_file(slot); }

void KernelLoop::start(std::uint32_t index, std::uint32_t chain_index, std::uint16_t rank,
                       std::span<const std::uint32_t> files) {
    const ir::Chain& chain = module_.chains[chain_index];
    cio_flight& entry = flight(index);
    entry.listed = 0;
    entry.level = level_[rank];
    head_->live[entry.level]++;
    entry.phase = CIO_LOOP_START;
    entry.outcome = CIO_OK;
    entry.ran = CIO_LOOP_NONE;
    entry.queued = entry.head = entry.issued = entry.on_device = 0;
    entry.entry = static_cast<std::uint32_t>(chain.entry);
    entry.done = chain.done < 0 ? CIO_LOOP_NONE : static_cast<std::uint32_t>(chain.done);
    entry.hops = chain.hops;
    entry.step_base = step_base_[chain_index];
    entry.step_count = static_cast<std::uint32_t>(chain.steps.size());
    entry.file_count = static_cast<std::uint32_t>(files.size());
    entry.wants_result = chain.result != ir::ResultKind::none;
    for (std::size_t i = 0; i < files.size(); i++) {
        entry.files[i].slot = files[i];
        entry.files[i].align_mask = align_[files[i]];
    }
    make_ready(index);
}

void KernelLoop::make_ready(std::uint32_t index) {
    cio_flight& entry = flight(index);
    auto& list = head_->ready[entry.level];
    entry.listed = 1;
    head_->waiting++;
    entry.next = CIO_LOOP_NONE;
    (list.first == CIO_LOOP_NONE ? list.first : flight(list.last).next) = index;
    list.last = index;
}

bool KernelLoop::cancel(std::uint32_t index) {
    cio_flight& entry = flight(index);
    if (entry.phase == CIO_LOOP_ENDING) return false;
    entry.phase = CIO_LOOP_ENDING;
    entry.outcome = CIO_CANCELLED;
    return true;
}

int KernelLoop::run(unsigned wanted) {
    if (const int bound = ring_.bind_to_thread(); bound < 0) return bound;
    head_->wanted = wanted;
    head_->polls = wanted == 0 ? 1 : 0;
    const std::uint64_t calls = head_->calls;
    enters_++;
    const int result =
        io_uring_enter(static_cast<unsigned>(ring_.get()->ring_fd), 0, 0, IORING_ENTER_GETEVENTS, nullptr);
    // Without the program the kernel would do as any ring does, and nothing would ever end.
    return result >= 0 && head_->calls == calls ? -EFAULT : result;
}

bool KernelLoop::take_ended(Ended& ended) {
    if (head_->ended_head == head_->ended_tail) return false;
    const auto* list = reinterpret_cast<const std::uint32_t*>(region_.base() + layout_.ended_offset);
    ended.flight = list[head_->ended_head++ & layout_.flight_mask];
    const cio_flight& entry = flight(ended.flight);
    ended.outcome = entry.outcome;
    ended.hops = entry.queued;
    ended.block = {};
    if (entry.ran <= layout_.window_mask) {
        const cio_loop_slot& slot = entry.slots[entry.ran];
        ended.block = {frame(ended.flight, entry.ran) + slot.skip, slot.length};
    }
    return true;
}

void KernelLoop::count(metrics::EngineCounters& counters) {
    const auto add = [](std::uint64_t& to, std::uint64_t now, std::uint64_t& before) {
        to += now - before;
        before = now;
    };
    if (registered_) counters.fixed_reads += head_->reads - counted_.ring_reads;
    add(counters.ring_reads, head_->reads, counted_.ring_reads);
    add(counters.bytes_read, head_->bytes, counted_.bytes_read);
    add(counters.syscalls, enters_, counted_.syscalls);
    add(counters.retries, head_->retries, counted_.retries);
    add(counters.continued_reads, head_->continued, counted_.continued_reads);
    add(counters.cancelled_reads, head_->cancelled, counted_.cancelled_reads);
}

std::string KernelLoop::describe() const {
    return "kernel engine: steps and reads inside io_uring_enter (" + ring_.flags() + ", " +
           std::to_string(layout_.memory_bytes >> 10) + " KiB of shared memory" +
           (region_.in_huge_pages() ? " in huge pages" : "") + ", " + (registered_ ? "registered" : "unregistered") +
           " buffers, up to " + std::to_string(layout_.window_mask + 1) + " reads of a chain at once" +
           (layout_.spin_ns != 0
                ? ", looks " + std::to_string(layout_.spin_ns / 1000) + " us for completions before it sleeps"
                : "") +
           ")";
}

}  // namespace chainio::engine
