#include "compiler/ir/handler_run.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

std::size_t most_results(const Body& body) {
    std::size_t most = 0;
    for (const Stmt& stmt : body) {
        if (const auto* call = std::get_if<CallChain>(&stmt.node)) most = std::max<std::size_t>(most, call->result + 1);
        for_each_body(stmt, [&](const Body& nested) { most = std::max(most, most_results(nested)); });
    }
    return most;
}

void add_stops(const Body& body, std::vector<const Stmt*>& stops) {
    for (const Stmt& stmt : body) {
        if (std::holds_alternative<CallChain>(stmt.node) || std::holds_alternative<Reply>(stmt.node))
            stops.push_back(&stmt);
        for_each_body(stmt, [&](const Body& nested) { add_stops(nested, stops); });
    }
}

}  // namespace

std::vector<const Stmt*> stops_of(const Program& program) {
    std::vector<const Stmt*> stops;
    add_stops(program.body, stops);
    return stops;
}

std::size_t results_of(const Module& module) {
    std::size_t most = 0;
    for (const Program& program : module.programs)
        if (program.kind == ProgramKind::handler) most = std::max(most, most_results(program.body));
    return most;
}

HandlerRun::Memory::Memory(const Artifact& artifact) {
    std::size_t most_regs = 0;
    for (const Program& program : artifact.module.programs)
        if (program.kind == ProgramKind::handler) most_regs = std::max<std::size_t>(most_regs, program.reg_count);
    regs.resize(most_regs);
    results.resize(results_of(artifact.module));
    compiled_results.resize(results.size());
    frames.reserve(kMaxDepth + 1);
}

HandlerRun::HandlerRun(const Artifact& artifact, std::uint32_t program, cio_io& io, const std::uint8_t* block,
                       Memory& memory, const CompiledHandler* compiled)
    : Operations(artifact, io, block, memory.regs.data()), memory_(memory), compiled_(compiled) {
    std::ranges::fill(memory.results, Bytes{});
    std::ranges::fill(memory.compiled_results, cio_result{});
    use_memory(0);
    memory.frames.clear();
    memory.frames.push_back({.body = &artifact.module.programs[program].body});
    if (io.block_length > CIO_MAX_BLOCK) give_up(CIO_MALFORMED);
}

HandlerRun::HandlerRun(const HandlerRun& other, cio_io& io, Memory& memory)
    : Operations(other.artifact_, io, other.block_, memory.regs.data()),
      memory_(memory),
      compiled_(other.compiled_),
      again_(other.again_),
      call_(other.call_),
      reply_(other.reply_) {
    memory = other.memory_;
    std::memcpy(&io, &other.io_, offsetof(cio_io, vars));
    use_memory(other.io_.vars[CIO_HANDLER_AT]);
}

void HandlerRun::use_memory(std::uint64_t at) {
    results_ = memory_.results;
    regs_ = memory_.regs.data();
    io_.vars[CIO_HANDLER_AT] = at;
    io_.vars[CIO_HANDLER_REGS] = reinterpret_cast<std::uintptr_t>(memory_.regs.data());
    io_.vars[CIO_HANDLER_RESULTS] = reinterpret_cast<std::uintptr_t>(memory_.compiled_results.data());
}

HandlerRun::Stop HandlerRun::go_on() {
    call_ = nullptr;
    reply_ = nullptr;
    if (compiled_ != nullptr) return go_on_compiled();
    while (!memory_.frames.empty()) {
        Memory::Frame& frame = memory_.frames.back();
        if (frame.next < frame.body->size()) {
            const Stmt& stmt = (*frame.body)[frame.next++];
            const After flow = std::visit([this](const auto& n) { return this->exec(n); }, stmt.node);
            if (call_ != nullptr) return Stop::call;
            if (reply_ != nullptr) return Stop::reply;
            if (flow != After::on) unwind(flow);
        } else if (frame.loop != nullptr && ++frame.round < frame.rounds) {
            frame.next = 0;
            regs_[frame.loop->counter] = frame.round;
        } else {
            memory_.frames.pop_back();
        }
    }
    return Stop::ended;
}

// The frames say only whether the run has ended.
HandlerRun::Stop HandlerRun::go_on_compiled() {
    if (memory_.frames.empty()) return Stop::ended;
    if (!std::exchange(again_, false)) compiled_->run(&io_, block_);
    const std::uint64_t at = io_.vars[CIO_HANDLER_AT];
    if (at > compiled_->stops.size()) fail(CIO_MALFORMED);
    if (at == 0 || at > compiled_->stops.size()) {
        memory_.frames.clear();
        return Stop::ended;
    }
    const Stmt& stmt = *compiled_->stops[at - 1];
    call_ = std::get_if<CallChain>(&stmt.node);
    if (call_ != nullptr) return Stop::call;
    reply_ = std::get_if<Reply>(&stmt.node);
    return Stop::reply;
}

// Leaves the frames that a `break`, `continue` or the end of the program ends.
void HandlerRun::unwind(After flow) {
    if (flow == After::stop) return memory_.frames.clear();
    while (memory_.frames.back().loop == nullptr) memory_.frames.pop_back();
    Memory::Frame& round = memory_.frames.back();
    round.next = round.body->size();
    if (flow == After::break_) round.round = round.rounds;
}

After HandlerRun::exec(const CallChain& n) {
    call_ = &n;
    return After::on;
}

After HandlerRun::exec(const Reply& n) {
    reply_ = &n;
    return After::on;
}

After HandlerRun::exec(const Skip& n) {
    io_.result += std::min(get(n.bytes), kMaxSkip + 1);
    return After::on;
}

After HandlerRun::exec(const If& n) {
    const Body& body = get(n.cond) != 0 ? n.yes : n.no;
    if (!body.empty()) memory_.frames.push_back({.body = &body});
    return After::on;
}

After HandlerRun::exec(const Loop& n) {
    const std::uint64_t rounds = get(n.count);
    if (rounds > n.max) return fail(n.outcome);
    if (rounds == 0) return After::on;
    regs_[n.counter] = 0;
    memory_.frames.push_back({.body = &n.body, .loop = &n, .rounds = rounds});
    return After::on;
}

void HandlerRun::answer(std::uint64_t scalar, Bytes bytes) {
    regs_[call_->ok] = 1;
    regs_[call_->scalar] = scalar;
    moved(call_->result, bytes);
}

void HandlerRun::answer_absent() {
    regs_[call_->ok] = 0;
    regs_[call_->scalar] = 0;
    moved(call_->result, {});
}

void HandlerRun::moved(std::size_t result, Bytes bytes) {
    memory_.results[result] = bytes;
    memory_.compiled_results[result] = {bytes.data(), bytes.size()};
}

void HandlerRun::call_again() {
    if (compiled_ != nullptr)
        again_ = true;
    else
        memory_.frames.back().next--;
}

void HandlerRun::give_up(std::uint32_t outcome) {
    fail(outcome);
    memory_.frames.clear();
}

}  // namespace chainio::ir
