// Runs a service's handler, by native code where there is some and else by the interpreter. It stops at each call of a
// chain and at each reply, and goes on when the one who runs it has the result, or has taken the reply.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/ir/interpret_ops.h"

namespace chainio::ir {

// Native code of a handler, and the statements at which it stops, by their numbers less one.
struct CompiledHandler {
    void (*run)(cio_io* io, const unsigned char* block) = nullptr;
    std::vector<const Stmt*> stops;
};
std::vector<const Stmt*> stops_of(const Program& program);
// How many results of called chains a handler of the module has at most.
std::size_t results_of(const Module& module);

class HandlerRun : Operations {
  public:
    enum class Stop : std::uint8_t { ended, call, reply };

    // Memory for any handler of the artifact, to be used for one run after the other.
    struct Memory {
        explicit Memory(const Artifact& artifact);
        struct Frame {
            const Body* body = nullptr;
            std::size_t next = 0;        // statement
            const Loop* loop = nullptr;  // whose round this is
            std::uint64_t round = 0, rounds = 0;
        };
        std::vector<std::uint64_t> regs;
        std::vector<Frame> frames;
        std::vector<Bytes> results;
        std::vector<cio_result> compiled_results;  // the same for native code
    };

    // `io` is followed by the artifact's areas, all zero, and `block` (the request) has io.block_length bytes.
    HandlerRun(const Artifact& artifact, std::uint32_t program, cio_io& io, const std::uint8_t* block, Memory& memory,
               const CompiledHandler* compiled = nullptr);

    // One that goes on from where `other` has stopped, in memory of its own.
    HandlerRun(const HandlerRun& other, cio_io& io, Memory& memory);

    Stop go_on();
    std::uint32_t outcome() const { return io_.outcome; }  // of a run that has ended
    // Bytes behind the request that are no requests, as far as the run has said.
    std::uint64_t skipped() const { return io_.result; }

    // After Stop::call and Stop::reply: the statement, and the values of its operands.
    const CallChain& call() const { return *call_; }
    const Reply& reply() const { return *reply_; }
    std::uint64_t value(const Operand& operand) const { return get(operand); }
    bool bytes(const Slice& from, Bytes& out) const { return slice(from, out); }

    // The result of the call at which the run stopped. `bytes` stay until another result has its number, or the end.
    void answer(std::uint64_t scalar, Bytes bytes);
    void answer_absent();
    // The bytes of a result lie elsewhere from now on, and are the same.
    void moved(std::size_t result, Bytes bytes);
    Bytes result(std::size_t number) const { return memory_.results[number]; }
    // Nobody could run the chain now: go_on() stops at this call once more.
    void call_again();
    // Ends the run with an outcome, as `fail` does.
    void give_up(std::uint32_t outcome);

  private:
    using Operations::exec;
    After exec(const CallChain& n);
    After exec(const Reply& n);
    After exec(const Skip& n);
    After exec(const If& n);
    After exec(const Loop& n);
    void unwind(After flow);
    Stop go_on_compiled();
    void use_memory(std::uint64_t at);

    Memory& memory_;
    const CompiledHandler* compiled_;
    bool again_ = false;  // native code stopped at a call that is to be made once more
    const CallChain* call_ = nullptr;
    const Reply* reply_ = nullptr;
};

}  // namespace chainio::ir
