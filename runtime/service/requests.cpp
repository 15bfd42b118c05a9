#include "runtime/service/requests.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>

#include "compiler/ir/ahead.h"
#include "compiler/ir/datagram_heads.h"
#include "runtime/engine/owners.h"

namespace chainio::service {
namespace {

std::size_t io_size(const ir::Artifact& artifact) {
    return (std::max<std::size_t>(artifact.layout.total, sizeof(cio_io)) + CIO_PAD + 63) / 64 * 64;
}

std::size_t longest_result(const ir::Module& module) {
    std::size_t longest = 0;
    for (const ir::Chain& chain : module.chains)
        if (chain.mode == ir::ChainMode::call) longest = std::max<std::size_t>(longest, chain.result_max);
    return (longest + 63) / 64 * 64;
}

// What `let … else` takes for absent. Any other outcome is a failure of the request: a block that could not be read is
// not an answer that does not exist.
bool is_absent(std::uint32_t outcome) {
    return outcome == CIO_NOT_FOUND || outcome == CIO_NO_RESULT || outcome >= CIO_USER;
}

std::uint64_t narrowed(std::uint64_t value, const ir::Param& param) {
    if (param.bits >= 64) return value;
    const std::uint64_t low = value & ((std::uint64_t{1} << param.bits) - 1);
    const std::uint64_t sign = std::uint64_t{1} << (param.bits - 1);
    return param.is_signed ? (low ^ sign) - sign : low;
}

std::vector<const ir::CallChain*> calls_ahead(const ir::Module& module) {
    std::vector<const ir::CallChain*> calls;
    for (const ir::Program& program : module.programs)
        if (program.kind == ir::ProgramKind::handler)
            std::ranges::copy(ir::calls_ahead(program), std::back_inserter(calls));
    std::ranges::sort(calls);
    return calls;
}

unsigned slots_for(const Places& places) { return places.run + places.shed + places.parked; }

constexpr std::size_t kDigits = 24;  // at most, of a formatted value

std::size_t format(ir::Format format, std::uint64_t value, std::span<std::uint8_t> out) {
    auto* text = reinterpret_cast<char*>(out.data());
    const auto number = [&](int base) {
        return static_cast<std::size_t>(std::to_chars(text, text + out.size(), value, base).ptr - text);
    };
    const auto bytes = [&](std::size_t width, bool big) {
        for (std::size_t i = 0; i < width; i++)
            out[big ? width - 1 - i : i] = static_cast<std::uint8_t>(value >> (8 * i));
        return width;
    };
    switch (format) {
        case ir::Format::dec: return number(10);
        case ir::Format::hex: return number(16);
        case ir::Format::u8: return bytes(1, false);
        case ir::Format::u16le: return bytes(2, false);
        case ir::Format::u16be: return bytes(2, true);
        case ir::Format::u32le: return bytes(4, false);
        case ir::Format::u32be: return bytes(4, true);
        case ir::Format::u64le: return bytes(8, false);
        case ir::Format::u64be: return bytes(8, true);
        case ir::Format::bytes: break;
    }
    return 0;
}

}  // namespace

Requests::Requests(engine::Engine& engine, const Files& files, const Places& places, std::uint64_t patience_ns)
    : engine_(engine),
      module_(engine.spec().module()),
      files_(files),
      io_stride_(io_size(engine.spec().artifact())),
      result_stride_(longest_result(module_)),
      results_stride_(result_stride_ * ir::results_of(module_)),
      io_memory_(io_stride_ * (slots_for(places) + 1)),  // the last one is the scout's
      result_memory_(std::max<std::size_t>(results_stride_ * slots_for(places), 1)),
      places_(places),
      patience_ns_(patience_ns),
      arguments_(CIO_MAX_ARGS),
      ahead_calls_(calls_ahead(module_)),
      aheads_(ahead_calls_.empty() ? 0 : engine.capacity() / 2),
      ahead_memory_(std::max<std::size_t>(result_stride_ * aheads_.size(), 1)),
      scout_memory_(engine.spec().artifact()) {
    const unsigned slots = slots_for(places);
    slots_.reserve(slots);
    for (unsigned i = 0; i < slots; i++) {
        Slot& slot = slots_.emplace_back(engine.spec().artifact());
        slot.io = reinterpret_cast<cio_io*>(io_memory_.base() + io_stride_ * i);
        slot.results = result_memory_.base() + results_stride_ * i;
        slot.kept.resize(slot.memory.results.size());
    }
    for (unsigned i = slots; i-- > 0;) free_.push_back(i);
    for (std::uint32_t i = 0; i < aheads_.size(); i++) {
        aheads_[i].arguments.reserve(CIO_MAX_ARGS);
        aheads_[i].next = std::exchange(free_aheads_, i);
    }
    const auto found = std::ranges::find(module_.reasons, "close");
    if (found != module_.reasons.end())
        close_outcome_ = CIO_USER + static_cast<std::uint32_t>(found - module_.reasons.begin());
    find_tellers();
    for (const ir::Service& each : module_.services)
        heads_alike_.push_back(each.on_datagram >= 0 &&
                               ir::heads_are_alike(module_.programs[static_cast<std::size_t>(each.on_datagram)]));
}

std::uint32_t Requests::take_slot(std::uint32_t service, std::span<const std::uint8_t> request, Sink& output,
                                  std::uint32_t connection, bool shed) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.shed = shed;
    in_places_of(slot)++;
    slot.service = service;
    slot.request = request;
    slot.output = &output;
    slot.connection = connection;
    slot.program = -1;
    slot.ending = Ending::answered;
    slot.copies = slot.skips = slot.io->result = slot.short_since_ns = 0;
    slot.is_short = slot.was_short = slot.hopeless = slot.moved = slot.anew = false;
    slot.times_short = 0;
    slot.replying = slot.closes = slot.torn = slot.in_engine = slot.on_malformed = slot.on_failure = false;
    slot.head_too_long = false;
    return index;
}

std::uint32_t Requests::start(std::uint32_t service, std::int32_t program, std::span<const std::uint8_t> request,
                              Sink& output, std::uint32_t connection) {
    const std::uint32_t index = take_slot(service, request, output, connection, false);
    slots_[index].program = program;
    begin(slots_[index], program);
    return index;
}

std::uint32_t Requests::start_failed(std::uint32_t service, const Unrun& unrun, std::span<const std::uint8_t> request,
                                     Sink& output, std::uint32_t connection) {
    const std::uint32_t index = take_slot(service, request, output, connection, unrun.shed);
    Slot& slot = slots_[index];
    slot.skips = unrun.skips;
    slot.closes = unrun.closes;
    slot.run.reset();
    if (!begin_handler_of(slot, unrun.ending)) slot.closes = true;
    return index;
}

void Requests::begin(Slot& slot, std::int32_t program) {
    drop_ahead(slot);
    slot.skips += slot.io->result;
    slot.run.emplace(run_in(*slot.io, slot.memory, program, slot.request));
    slot.replying = false;
}

ir::HandlerRun Requests::run_in(cio_io& io, ir::HandlerRun::Memory& memory, std::int32_t program,
                                std::span<const std::uint8_t> request) const {
    io.block_offset = io.block_tag = 0;
    io.block_length = static_cast<std::uint32_t>(request.size());
    io.outcome = CIO_OK;
    io.finished = io.next_count = io.out_length = io.prefetch_count = 0;
    io.result = 0;
    const auto number = static_cast<std::uint32_t>(program);
    return {engine_.spec().artifact(), number, io, request.data(), memory, engine_.spec().handler(number)};
}

// The handler that says what went wrong, unless it was that one which failed. False: there is none.
bool Requests::begin_handler_of(Slot& slot, Ending ending) {
    const ir::Service& service = module_.services[slot.service];
    slot.ending = ending;
    give_back_all(slot);  // what says so has none of the results, and may need the room
    if (ending == Ending::failed && service.on_failure >= 0 && !slot.on_failure) {
        slot.on_failure = slot.on_malformed = true;
        begin(slot, service.on_failure);
        return true;
    }
    if (service.on_malformed >= 0 && !slot.on_malformed) {
        slot.on_malformed = true;
        begin(slot, service.on_malformed);
        return true;
    }
    return false;
}

// After the end of a program: whether another one goes on with the request.
bool Requests::begin_next(Slot& slot) {
    const std::uint32_t outcome = slot.run->outcome();
    if (outcome == CIO_OK) return false;
    if (outcome == close_outcome_) {
        slot.closes = true;
        if (slot.torn) slot.ending = Ending::failed;
        return false;
    }
    const Ending ending = outcome == CIO_MALFORMED && !slot.on_malformed ? Ending::malformed : Ending::failed;
    if (begin_handler_of(slot, ending)) return true;
    slot.closes = true;
    return false;
}

RunState Requests::go_on(std::uint32_t index) {
    Slot& slot = slots_[index];
    unpark(slot);
    if (std::exchange(slot.is_short, false)) return RunState::short_;
    while (slot.run) {
        if (slot.replying) {
            if (!write_reply(slot)) return RunState::full;
            slot.replying = false;
        }
        switch (slot.run->go_on()) {
            case ir::HandlerRun::Stop::reply:
                slot.replying = true;
                slot.part = slot.within = 0;
                break;
            case ir::HandlerRun::Stop::call:
                if (auto state = submit(slot, index)) return *state;
                break;
            case ir::HandlerRun::Stop::ended:
                if (!begin_next(slot)) return RunState::ended;
                break;
        }
    }
    return RunState::ended;
}

// The values of a call's arguments in the order of the chain's parameters; the outcome when they cannot be had.
std::uint32_t Requests::bind(const ir::HandlerRun& run, const ir::CallChain& call) {
    const ir::Chain& chain = module_.chains[call.chain];
    std::size_t scalars = 0, byte_args = 0, files = 0;
    arguments_.clear();
    for (const ir::Param& param : chain.params) {
        ir::Bytes bytes;
        if (param.kind == ir::Param::Kind::scalar) {
            if (scalars == call.args.size()) return CIO_BAD_ARGUMENT;
            arguments_.push_back(engine::Argument::scalar(narrowed(run.value(call.args[scalars++]), param)));
        } else if (param.kind == ir::Param::Kind::bytes) {
            if (byte_args == call.bytes_args.size()) return CIO_BAD_ARGUMENT;
            if (!run.bytes(call.bytes_args[byte_args++], bytes)) return CIO_MALFORMED;
            if (bytes.size() > param.max) return CIO_OVERFLOW;
            arguments_.push_back(engine::Argument::of_bytes(bytes));
        } else {
            if (files == call.files.size()) return CIO_BAD_ARGUMENT;
            const ir::CallFile& file = call.files[files++];
            if (!run.bytes(file.name, bytes)) return CIO_MALFORMED;
            // Only the spec's own "" means whichever file there is; of a client it is the name of none.
            if (bytes.empty() && file.name.space != ir::Space::literal) return CIO_NOT_FOUND;
            const std::string_view name{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
            const auto handle = files_.find(file.file_class, name);
            if (!handle) return files_.count(file.file_class, name) == 0 ? CIO_NOT_FOUND : CIO_BAD_ARGUMENT;
            arguments_.push_back(engine::Argument::file(*handle));
        }
    }
    return CIO_OK;
}

// Nothing when the run goes on at once. A handler's calls are where others have their turn (ir::instruction_bound()),
// so that a call which no engine answers waits for the next one.
std::optional<RunState> Requests::submit(Slot& slot, std::uint32_t index) {
    const ir::CallChain& call = slot.run->call();
    if (const std::uint32_t wrong = bind(*slot.run, call); wrong != CIO_OK) {
        answer_failed(slot, wrong);
        return RunState::yields;
    }
    if (is_next(slot, call)) {
        slot.waits_ahead = !aheads_[slot.ahead].ended;
        if (slot.waits_ahead) return RunState::chain;
        answer_from_ahead(slot);
        return std::exchange(slot.is_short, false) ? std::optional(RunState::short_) : std::nullopt;
    }
    drop_ahead(slot);
    const auto submitted = engine_.submit(call.chain, arguments_, kOurs | index);
    if (submitted) {
        slot.in_engine = true;
        if (!slot.was_short) look_ahead(slot, index);
        return RunState::chain;
    }
    if (submitted.error().kind != engine::SubmitError::Kind::full) {
        answer_failed(slot, CIO_BAD_ARGUMENT);
        return RunState::yields;
    }
    slot.run->call_again();
    return RunState::starved;
}

std::optional<std::uint32_t> Requests::take(const engine::Completion& completion) {
    if ((completion.user_data & kAhead) != 0) return take_ahead(completion);
    const auto index = static_cast<std::uint32_t>(completion.user_data & ~kOurs);
    Slot& slot = slots_[index];
    slot.in_engine = false;
    if (slot.output == nullptr) {
        release(index);
        return std::nullopt;
    }
    if (completion.outcome == CIO_NO_MEMORY && waits_for_memory(slot)) return index;
    had_memory(slot);
    if (answer_plain(slot, completion.outcome, completion.kind, completion.scalar)) return index;
    // The engine takes the bytes back with its next turn, unless it is told to leave the frame: the reply may come
    // later.
    if (const auto kept = engine_.keep(completion))
        answer_kept(slot, *kept);
    else
        answer_copy(slot, completion.bytes);
    return index;
}

// False: the result is bytes.
bool Requests::answer_plain(Slot& slot, std::uint32_t outcome, ir::ResultKind kind, std::uint64_t scalar) {
    if (outcome == CIO_OK && kind == ir::ResultKind::scalar)
        slot.run->answer(scalar, {});
    else if (outcome != CIO_OK)
        // Bytes of a file that are malformed do not make a request of bad form out of the one that needed them.
        answer_failed(slot, outcome == CIO_MALFORMED ? std::uint32_t{CIO_IO_ERROR} : outcome);
    else
        return false;
    return true;
}

// Of a call that ended otherwise than well.
void Requests::answer_failed(Slot& slot, std::uint32_t outcome) {
    const bool closes = slot.run->call().closes;
    slot.torn = slot.torn || closes;
    if (closes || is_absent(outcome))
        slot.run->answer_absent();
    else
        slot.run->give_up(outcome);
}

void Requests::answer_kept(Slot& slot, const engine::Stretch& kept) {
    Kept& of_result = slot.kept[slot.run->call().result];
    give_back(slot, of_result);
    of_result = {kept, true};
    slot.run->answer(kept.length, {engine_.memory().data(kept.frame) + kept.offset, kept.length});
}

void Requests::answer_copy(Slot& slot, std::span<const std::uint8_t> bytes) {
    const std::uint16_t result = slot.run->call().result;
    give_back(slot, slot.kept[result]);
    const std::size_t length = std::min(bytes.size(), result_stride_);
    std::uint8_t* to = slot.results + result_stride_ * result;
    if (length != 0) std::memcpy(to, bytes.data(), length);
    slot.copies += length != 0 ? 1 : 0;
    slot.run->answer(length, {to, length});
}

void Requests::give_back(Slot& slot, Kept& kept) {
    if (kept.ours)
        engine_.memory().release(kept.at.frame, engine::kHandedOut);
    else if (kept.at.frame != umem::kNoFrame && slot.output != nullptr)
        slot.output->let_go(kept.at.frame);
    kept = {};
}

void Requests::give_back_all(Slot& slot) {
    for (Kept& kept : slot.kept) give_back(slot, kept);
}

// Whether a part of the reply goes out from the frame that the chain has read it into.
bool Requests::refer(Slot& slot, const ir::Slice& from, ir::Bytes bytes) {
    Kept& kept = slot.kept[slot.run->value(from.offset) >> 32];
    if (kept.at.frame == umem::kNoFrame || bytes.empty()) return false;
    const auto at = static_cast<std::uint32_t>(bytes.data() - engine_.memory().data(kept.at.frame));
    if (!slot.output->refer({kept.at.frame, at, static_cast<std::uint32_t>(bytes.size())})) return false;
    kept.ours = false;
    return true;
}

// Parts that need nothing but room, written side by side; it ends at the first other one, or where there is no room.
void Requests::write_plain(Slot& slot, const std::vector<ir::ReplyPart>& parts) {
    const std::span<std::uint8_t> space = slot.output->space();
    std::size_t at = 0;
    for (; slot.part < parts.size(); slot.part++) {
        const ir::ReplyPart& part = parts[slot.part];
        if (part.format != ir::Format::bytes) {
            if (space.size() - at < kDigits) break;
            at += format(part.format, slot.run->value(part.value), space.subspan(at));
            continue;
        }
        ir::Bytes bytes;
        if (part.bytes.space == ir::Space::result || !slot.run->bytes(part.bytes, bytes)) break;
        if (bytes.size() > space.size() - at) break;
        if (!bytes.empty()) std::memcpy(space.data() + at, bytes.data(), bytes.size());
        at += bytes.size();
    }
    slot.output->took(at);
}

// False when there was no room for all of it.
bool Requests::write_reply(Slot& slot) {
    const std::vector<ir::ReplyPart>& parts = slot.run->reply().parts;
    while (slot.part < parts.size()) {
        if (slot.within == 0) write_plain(slot, parts);
        if (slot.part == parts.size()) break;
        const ir::ReplyPart& part = parts[slot.part];
        std::array<std::uint8_t, kDigits> digits;
        ir::Bytes bytes;
        if (part.format != ir::Format::bytes) {
            bytes = {digits.data(), format(part.format, slot.run->value(part.value), digits)};
        } else if (!slot.run->bytes(part.bytes, bytes)) {
            slot.run->give_up(CIO_MALFORMED);
            return true;
        }
        const bool of_result = part.format == ir::Format::bytes && part.bytes.space == ir::Space::result;
        if (!of_result || slot.within != 0 || !refer(slot, part.bytes, bytes)) {
            slot.copies += of_result && slot.within == 0 && !bytes.empty() ? 1 : 0;
            slot.within += slot.output->add(bytes.subspan(slot.within));
            if (slot.within < bytes.size()) return false;
        }
        slot.within = 0;
        slot.part++;
    }
    return true;
}

void Requests::fail(std::uint32_t index) {
    Slot& slot = slots_[index];
    // A handler of failures that has found no room behind what the request had replied says all of it anew.
    if (slot.on_failure || (slot.on_malformed && module_.services[slot.service].on_failure < 0)) {
        slot.on_failure = slot.on_malformed = slot.replying = false;
        slot.io->result = 0;
    }
    // What it says behind the reply, of what is behind the request, holds even so.
    if (std::exchange(slot.replying, false)) {
        while (slot.run->go_on() == ir::HandlerRun::Stop::reply) {}
        const std::uint32_t outcome = slot.run->outcome();
        slot.closes = slot.closes || (outcome != CIO_OK && outcome == close_outcome_);
    }
    // Its end was that of the reply, which is thrown away; what follows in the datagram has nothing to do with it.
    if (std::exchange(slot.torn, false)) slot.closes = false;
    if (!begin_handler_of(slot, Ending::failed)) {
        slot.run.reset();
        slot.closes = true;
    }
}

std::optional<std::size_t> Requests::datagram_head(std::uint32_t index, std::int32_t program, std::uint64_t number,
                                                   std::uint64_t count, std::span<std::uint8_t> out) {
    Slot& slot = slots_[index];
    begin(slot, program);
    slot.io->block_offset = number;
    slot.io->block_tag = count;
    std::size_t length = 0;
    while (slot.run->go_on() == ir::HandlerRun::Stop::reply) {
        for (const ir::ReplyPart& part : slot.run->reply().parts) {
            std::array<std::uint8_t, kDigits> digits;
            ir::Bytes bytes;
            if (part.format != ir::Format::bytes)
                bytes = {digits.data(), format(part.format, slot.run->value(part.value), digits)};
            else if (!slot.run->bytes(part.bytes, bytes))
                return std::nullopt;
            if (bytes.size() > out.size() - length) {
                slot.head_too_long = true;
                return std::nullopt;
            }
            std::ranges::copy(bytes, out.begin() + static_cast<std::ptrdiff_t>(length));
            length += bytes.size();
        }
    }
    return slot.run->outcome() == CIO_OK ? std::optional(length) : std::nullopt;
}

std::optional<std::size_t> Requests::longest_head(std::uint32_t index, std::int32_t program, std::uint64_t count,
                                                  std::span<std::uint8_t> out) {
    std::size_t longest = 0;
    const std::uint64_t differing = heads_alike_[slots_[index].service] ? 1 : count;
    for (std::uint64_t number = 0; number < differing; number++) {
        const auto length = datagram_head(index, program, number, count, out);
        if (!length) return std::nullopt;
        longest = std::max(longest, *length);
    }
    return longest;
}

void Requests::release(std::uint32_t slot) {
    unpark(slots_[slot]);
    drop_ahead(slots_[slot]);
    give_back_all(slots_[slot]);
    slots_[slot].run.reset();
    slots_[slot].output = nullptr;
    if (std::exchange(slots_[slot].moved, false)) result_memory_.forget(results_stride_ * slot, results_stride_);
    in_places_of(slots_[slot])--;
    free_.push_back(slot);
}

void Requests::abandon(std::uint32_t slot) {
    if (!slots_[slot].in_engine) return release(slot);
    drop_ahead(slots_[slot]);
    slots_[slot].output = nullptr;
    engine_.cancel(kOurs | slot);
}

}  // namespace chainio::service
