// One chain's life: arguments, programs, the reads that they queue, the result.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/engine/engine.h"
#include "runtime/engine/owners.h"
#include "runtime/engine/wrong_call.h"

namespace chainio::engine {
namespace {

std::uint8_t* bytes_of(cio_io& io) { return reinterpret_cast<std::uint8_t*>(&io); }

bool fits(std::uint64_t value, const ir::Param& param) {
    if (param.bits >= 64) return true;
    if (!param.is_signed) return value >> param.bits == 0;
    const auto shift = 64u - param.bits;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift) == value;
}

std::unexpected<SubmitError> bad_argument(const ir::Chain& chain, const ir::Param& param, const std::string& why) {
    return std::unexpected(SubmitError{SubmitError::Kind::bad_argument,
                                       "argument '" + param.name + "' of chain '" + chain.name + "': " + why});
}

}  // namespace

std::uint64_t Engine::now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

void Engine::append(List& list, std::uint32_t flight) {
    flights_[flight].link.next = kNoIndex;
    (list.tail == kNoIndex ? list.head : flights_[list.tail].link.next) = flight;
    list.tail = flight;
}

std::uint32_t Engine::take_first(List& list) {
    const std::uint32_t flight = list.head;
    if (flight == kNoIndex) return kNoIndex;
    list.head = flights_[flight].link.next;
    if (list.head == kNoIndex) list.tail = kNoIndex;
    return flight;
}

std::expected<void, SubmitError> Engine::submit(std::uint32_t chain_index, std::span<const Argument> args,
                                                std::uint64_t user_data) {
    if (auto wrong = wrong_call(module_, chain_index, args.size())) return std::unexpected(std::move(*wrong));
    if (live_ >= options_.in_flight || free_flights_.head == kNoIndex) {
        return std::unexpected(
            SubmitError{SubmitError::Kind::full,
                        std::to_string(options_.in_flight) + " chains are in flight already; reap some first"});
    }
    const Spent spent(*this);
    if (choosing()) look_at_round();
    const ir::Chain& chain = module_.chains[chain_index];
    const std::uint32_t index = free_flights_.head;
    if (choice_) flights_[index].io = io_of(index);
    if (auto bound = bind_arguments(index, chain, args); !bound) return bound;
    take_first(free_flights_);
    Flight& flight = flights_[index];
    flight.chain = chain_index;
    flight.rank = rank_of_chain_[chain_index];
    flight.head = flight.tail = kNoIndex;
    flight.hops = 0;
    flight.result = nullptr;
    flight.result_length = 0;
    flight.user_data = user_data;
    flight.started_ns = now_ns();
    flight.running = true;
    for (std::uint32_t i = 0; i < flight.file_count; i++) files_[flight_files_[index * files_per_flight_ + i]].chains++;
    live_++;
    running_++;

    cio_io& io = *flight.io;
    const ir::IoLayout& layout = spec_->artifact().layout;
    std::uint8_t* state = bytes_of(io) + layout.state_offset;
    const std::size_t given = std::min<std::size_t>(chain.initial_state.size(), layout.state_size);
    if (given != 0) std::memcpy(state, chain.initial_state.data(), given);
    // All of the area, not only this chain's part of it: another chain's bytes must never show.
    if (layout.state_size > given) std::memset(state + given, 0, layout.state_size - given);
    io.out_length = 0;
    io.result = 0;
    io.block_offset = io.block_tag = 0;
    io.block_length = io.block_file = 0;
    if (choosing() && choice_->due)
        defer(index);
    else
        start(index);
    return {};
}

// The step memory has the arguments and the state.
void Engine::start(std::uint32_t index) {
    const Flight& flight = flights_[index];
    if (choosing()) count_started(now_ns());
    if (inside_) {
        return kernel_->start(index, flight.chain, flight.rank,
                              {&flight_files_[index * files_per_flight_], flight.file_count});
    }
    prepare(*flight.io);
    spec_->run(static_cast<std::uint32_t>(module_.chains[flight.chain].entry), *flight.io,
               reinterpret_cast<const std::uint8_t*>(empty_block_.data()));
    after_program(index, kNoIndex);
}

std::expected<void, SubmitError> Engine::bind_arguments(std::uint32_t index, const ir::Chain& chain,
                                                        std::span<const Argument> args) {
    cio_io& io = *flights_[index].io;
    const ir::IoLayout& layout = spec_->artifact().layout;
    std::uint32_t* files = &flight_files_[index * files_per_flight_];
    std::uint32_t used = 0;
    std::uint16_t file_count = 0;
    for (std::size_t i = 0; i < args.size(); i++) {
        const ir::Param& param = chain.params[i];
        const Argument& arg = args[i];
        if (param.kind == ir::Param::Kind::file) {
            if (arg.kind != Argument::Kind::file || file(static_cast<FileHandle>(arg.value)) == nullptr) {
                return bad_argument(chain, param, "an open file is wanted");
            }
            const auto slot = static_cast<std::uint32_t>(arg.value & 0xffff);
            if (files_[slot].opened.file_class != param.file_class) {
                return bad_argument(chain, param,
                                    "the file '" + files_[slot].opened.path + "' was opened for class '" +
                                        module_.files[files_[slot].opened.file_class].name + "', not '" +
                                        module_.files[param.file_class].name + "'");
            }
            files[param.slot] = slot;
            file_count++;
        } else if (param.kind == ir::Param::Kind::scalar) {
            if (arg.kind != Argument::Kind::scalar) return bad_argument(chain, param, "an integer is wanted");
            if (!fits(arg.value, param)) {
                return bad_argument(
                    chain, param,
                    "the value does not fit " + std::string(param.is_signed ? "i" : "u") + std::to_string(param.bits));
            }
            io.args[param.slot] = arg.value;
        } else {
            if (arg.kind != Argument::Kind::bytes) return bad_argument(chain, param, "bytes are wanted");
            if (arg.bytes.size() > param.max || arg.bytes.size() > layout.arg_bytes_size - used) {
                return bad_argument(
                    chain, param,
                    std::to_string(arg.bytes.size()) + " bytes are more than its " + std::to_string(param.max));
            }
            if (!arg.bytes.empty()) {
                std::memcpy(bytes_of(io) + layout.arg_bytes_offset + used, arg.bytes.data(), arg.bytes.size());
            }
            io.args[param.slot] = used;
            io.args[param.slot + 1] = arg.bytes.size();
            used += static_cast<std::uint32_t>(arg.bytes.size());
        }
    }
    // Another chain's arguments must never show either.
    if (layout.arg_bytes_size > used) {
        std::memset(bytes_of(io) + layout.arg_bytes_offset + used, 0, layout.arg_bytes_size - used);
    }
    for (const ir::HeaderArg& header : chain.header_args) {
        const OpenedFile& opened = files_[files[header.file]].opened;
        io.args[header.slot] = header.field == ir::kFileSizeField ? opened.size : opened.header[header.field];
    }
    flights_[index].file_count = file_count;
    return {};
}

// Clears what a program writes, except what belongs to the whole chain.
void Engine::prepare(cio_io& io) const {
    io.outcome = CIO_OK;
    io.finished = 0;
    io.next_count = 0;
    io.result_kind = CIO_RESULT_NONE;
    io.slice_space = io.slice_offset = io.slice_length = 0;
    io.prefetch_count = 0;
}

void Engine::run_step(std::uint32_t index, bool may_block) {
    Flight& flight = flights_[index];
    const std::uint32_t ran = flight.head;
    const Read& read = reads_[ran];
    if (read.failure != 0) return finish(index, read.failure);
    const ir::Chain& chain = module_.chains[flight.chain];
    cio_io& io = *flight.io;
    for (GoOn next = GoOn::block_came; next == GoOn::block_came;) {
        io.block_offset = read.offset;
        io.block_tag = read.tag;
        io.block_length = read.length;
        io.block_file = read.param;
        prepare(io);
        spec_->run(chain.steps[read.step].program, io, block_of(read));
        next = go_on(index, may_block);
        if (next == GoOn::no) return after_program(index, ran);
    }
}

// `ran` is the read whose step just ran, or none.
void Engine::after_program(std::uint32_t index, std::uint32_t ran) {
    Flight& flight = flights_[index];
    const cio_io& io = *flight.io;
    if (io.outcome != CIO_OK) return finish(index, io.outcome);
    if (io.finished != 0) return finish(index, take_result(index, ran));
    const auto depth = static_cast<std::uint16_t>(ran == kNoIndex ? 0 : std::min(reads_[ran].depth + 1, 0xffff));
    if (const std::uint32_t failure = queue_reads(index, depth); failure != 0) return finish(index, failure);
    if (ran != kNoIndex) {
        flight.head = reads_[ran].next;
        if (flight.head == kNoIndex) flight.tail = kNoIndex;
        drop_read(ran, true);
    }
    if (flight.head == kNoIndex) return after_last_read(index);
    if (reads_[flight.head].state == ReadState::done) ready_.push(flight.rank, index);
}

void Engine::after_last_read(std::uint32_t index) {
    Flight& flight = flights_[index];
    const ir::Chain& chain = module_.chains[flight.chain];
    cio_io& io = *flight.io;
    if (chain.done >= 0) {
        io.block_offset = io.block_tag = 0;
        io.block_length = io.block_file = 0;
        prepare(io);
        spec_->run(static_cast<std::uint32_t>(chain.done), io,
                   reinterpret_cast<const std::uint8_t*>(empty_block_.data()));
        if (io.outcome != CIO_OK) return finish(index, io.outcome);
        if (io.finished != 0) return finish(index, take_result(index, kNoIndex));
        if (io.next_count != 0) return finish(index, CIO_UNSUPPORTED);
    }
    if (chain.result != ir::ResultKind::none) return finish(index, CIO_NO_RESULT);
    io.result_kind = CIO_RESULT_NONE;
    finish(index, take_result(index, kNoIndex));
}

// Native code is checked like data: a program that names a step which does not exist must not take the engine with it.
bool Engine::names_a_read(const cio_next& next, const Flight& flight, const ir::Chain& chain) {
    return next.step < chain.steps.size() && next.file < flight.file_count && next.length != 0 &&
           next.length <= CIO_MAX_BLOCK && next.offset >> 63 == 0;
}

// Queues what the program asked for. Returns the outcome that ends the chain, or 0.
std::uint32_t Engine::queue_reads(std::uint32_t index, std::uint16_t depth) {
    Flight& flight = flights_[index];
    const ir::Chain& chain = module_.chains[flight.chain];
    const cio_io& io = *flight.io;
    if (io.next_count > CIO_MAX_NEXT) return CIO_FANOUT;
    for (std::uint32_t i = 0; i < io.next_count; i++) {
        const cio_next& next = io.next[i];
        if (!names_a_read(next, flight, chain)) return CIO_MALFORMED;
        if (flight.hops >= chain.hops) return CIO_HOP_LIMIT;
        const std::uint32_t at = new_read();
        if (at == kNoIndex) return CIO_NO_MEMORY;
        flight.hops++;
        Read& read = reads_[at];
        read = Read{};
        read.offset = next.offset;
        read.tag = next.tag;
        read.length = next.length;
        read.slot = index;
        read.file = flight_files_[index * files_per_flight_ + next.file];
        read.step = next.step;
        read.param = next.file;
        read.depth = depth;
        read.rank = flight.rank;
        (flight.tail == kNoIndex ? flight.head : reads_[flight.tail].next) = at;
        flight.tail = at;
        waiting_.push(read.rank, at);
    }
    return 0;
}

std::uint32_t Engine::take_result(std::uint32_t index, std::uint32_t ran) {
    std::span<const std::uint8_t> block;
    if (ran != kNoIndex) block = {block_of(reads_[ran]), reads_[ran].length};
    const std::uint32_t outcome = result_of(index, block);
    const cio_io& io = *flights_[index].io;
    const bool in_block = io.result_kind == CIO_RESULT_SLICE && io.slice_space == CIO_SPACE_BLOCK;
    if (outcome == CIO_OK && in_block && ran != kNoIndex) hold_block(index, ran);
    return outcome;
}

// Where the result lies that the last program gave; `block` is what it ran on.
std::uint32_t Engine::result_of(std::uint32_t index, std::span<const std::uint8_t> block) {
    Flight& flight = flights_[index];
    cio_io& io = *flight.io;
    const ir::IoLayout& layout = spec_->artifact().layout;
    if (io.result_kind == CIO_RESULT_SCALAR) return CIO_OK;
    if (io.result_kind == CIO_RESULT_SLICE) return slice_of(index, block);
    if (io.out_length > layout.out_size) return CIO_MALFORMED;
    flight.result = bytes_of(io) + layout.out_offset;
    flight.result_length = io.out_length;
    return CIO_OK;
}

std::uint32_t Engine::slice_of(std::uint32_t index, std::span<const std::uint8_t> block) {
    Flight& flight = flights_[index];
    cio_io& io = *flight.io;
    const ir::IoLayout& layout = spec_->artifact().layout;
    if (block.empty()) block = {reinterpret_cast<const std::uint8_t*>(empty_block_.data()), 0};
    std::span<const std::uint8_t> space;
    switch (io.slice_space) {
        case CIO_SPACE_BLOCK: space = block; break;
        case CIO_SPACE_ARGS: space = {bytes_of(io) + layout.arg_bytes_offset, layout.arg_bytes_size}; break;
        case CIO_SPACE_STATE: space = {bytes_of(io) + layout.state_offset, layout.state_size}; break;
        case CIO_SPACE_LITERAL: space = module_.literals; break;
        default: return CIO_MALFORMED;
    }
    if (std::uint64_t{io.slice_offset} + io.slice_length > space.size()) return CIO_MALFORMED;
    flight.result = space.data() + io.slice_offset;
    flight.result_length = io.slice_length;
    return CIO_OK;
}

// The result is handed over where it lies; a block that it lies in stays until the completion is given back.
void Engine::hold_block(std::uint32_t index, std::uint32_t ran) {
    Flight& flight = flights_[index];
    Read& read = reads_[ran];
    cache_block(read, false);
    if (read.cache_entry != kNoIndex) {
        flight.held_entry = read.cache_entry;
        flight.held_file = files_[read.file].opened.file_class;
    } else {
        flight.held_frame = read.frame;
    }
    read.cache_entry = kNoIndex;
    read.frame = umem::kNoFrame;
}

unsigned Engine::cancel(std::uint64_t user_data) {
    unsigned count = 0;
    for (std::uint32_t index = 0; index < flights_.size(); index++) {
        const Flight& flight = flights_[index];
        if (!flight.running || flight.user_data != user_data) continue;
        const bool waits = drop_deferred(index);
        if (inside_ && !waits) {
            count += kernel_->cancel(index) ? 1 : 0;
            continue;
        }
        if (!waits && reads_[flight.head].state == ReadState::done) ready_.remove(flight.rank, index);
        finish(index, CIO_CANCELLED);
        count++;
    }
    return count;
}

void Engine::finish(std::uint32_t index, std::uint32_t outcome) {
    Flight& flight = flights_[index];
    flight.running = false;
    for (std::uint32_t at = flight.head; at != kNoIndex;) {
        const std::uint32_t next = reads_[at].next;
        drop_read(at);
        at = next;
    }
    flight.head = flight.tail = kNoIndex;
    metrics::ChainCounters& counters = chain_counters_[flight.chain];
    // A number that nobody declared can only come from code that is not what the spec says.
    const bool known = outcome <= CIO_UNSUPPORTED || (outcome >= CIO_USER && outcome < counters.outcomes.size());
    flight.outcome = known ? outcome : CIO_MALFORMED;
    const std::uint64_t now = now_ns();
    flight.elapsed_ns = now - flight.started_ns;
    counters.outcomes[flight.outcome]++;
    counters.finished++;
    counters.reads += flight.hops;
    counters.latency_ns.record(flight.elapsed_ns);
    for (std::uint32_t i = 0; i < flight.file_count; i++) files_[flight_files_[index * files_per_flight_ + i]].chains--;
    running_--;
    if (choosing()) count_ended(now);
    append(finished_, index);
}

unsigned Engine::hand_over(std::span<Completion> out, unsigned already) {
    unsigned count = already;
    while (count < out.size() && finished_.head != kNoIndex) {
        const std::uint32_t index = take_first(finished_);
        const Flight& flight = flights_[index];
        Completion& completion = out[count++];
        completion.user_data = flight.user_data;
        completion.chain = flight.chain;
        completion.outcome = flight.outcome;
        completion.kind = ir::ResultKind::none;
        completion.scalar = 0;
        completion.bytes = {};
        completion.hops = flight.hops;
        completion.ns = flight.elapsed_ns;
        completion.flight = index;
        if (flight.outcome == CIO_OK) {
            completion.kind = static_cast<ir::ResultKind>(flight.io->result_kind);
            if (completion.kind == ir::ResultKind::scalar) completion.scalar = flight.io->result;
            completion.bytes = {flight.result, flight.result_length};
        }
        append(held_, index);
        live_--;
    }
    return count;
}

std::optional<Stretch> Engine::keep(const Completion& completion) {
    if (completion.flight >= flights_.size() || completion.bytes.empty()) return std::nullopt;
    Flight& flight = flights_[completion.flight];
    if (flight.held_frame == umem::kNoFrame) return std::nullopt;
    // A block that was meant for a cache, which had it already, lies in a frame that only a cache has a use for.
    if (slab_.frame_bytes(flight.held_frame) < options_.least_frame) return std::nullopt;
    const umem::Frame frame = std::exchange(flight.held_frame, umem::kNoFrame);
    slab_.transfer(frame, owner_of(completion.flight), kHandedOut);
    return Stretch{frame, static_cast<std::uint32_t>(completion.bytes.data() - slab_.data(frame)),
                   static_cast<std::uint32_t>(completion.bytes.size())};
}

umem::Frame Engine::take_frame(std::uint32_t bytes) { return allocate(bytes, kHandedOut); }

void Engine::release_held() {
    while (held_.head != kNoIndex) {
        const std::uint32_t index = take_first(held_);
        Flight& flight = flights_[index];
        if (flight.held_frame != umem::kNoFrame) slab_.release(flight.held_frame, owner_of(index));
        if (flight.held_entry != kNoIndex) caches_[flight.held_file]->unpin(flight.held_entry);
        flight.held_frame = umem::kNoFrame;
        flight.held_entry = kNoIndex;
        // The flight that was used last is used first: its memory is warm.
        flight.link.next = free_flights_.head;
        if (free_flights_.head == kNoIndex) free_flights_.tail = index;
        free_flights_.head = index;
    }
}

}  // namespace chainio::engine
