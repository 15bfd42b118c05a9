// Walking the operands of statements. Every analysis and pass uses these, so that a new operation is described once.
#pragma once
#include <concepts>
#include <type_traits>

#include "compiler/ir/ir.h"

namespace chainio::ir {

template <class N, class... T>
concept AnyOf = (std::is_same_v<std::remove_cv_t<N>, T> || ...);

template <class... F>
struct Overloaded : F... {
    using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// Calls f(Reg&) for each register that the statement itself writes (not those inside nested bodies; a Loop writes its
// counter).
template <class S, class F>
void for_each_def(S& stmt, F&& f) {
    std::visit(Overloaded{
        [&](auto& n)
            requires requires { n.dst; }
        { f(n.dst); },
        [&]<AnyOf<Varint> N>(N& n) {
            f(n.value);
            f(n.length);
        },
        [&]<AnyOf<CallChain> N>(N& n) {
            f(n.ok);
            f(n.scalar);
        },
        [&]<AnyOf<Loop> N>(N& n) { f(n.counter); },
        [&](auto&) {},
        },
        stmt.node);
}

// Calls f(Operand&) for each operand that the statement itself reads, those of its slices included.
template <class S, class F>
void for_each_use(S& stmt, F&& f) {
    auto slice = [&](auto& s) {
        f(s.offset);
        f(s.length);
    };
    std::visit(Overloaded{
                   [](auto&) {},  // GetInput, GetArg, Fail, End, Break, Continue
                   [&]<AnyOf<Move> N>(N& n) { f(n.src); },
                   [&]<AnyOf<Unary> N>(N& n) { f(n.a); },
                   [&]<AnyOf<Binary> N>(N& n) {
                       f(n.a);
                       f(n.b);
                   },
                   [&]<AnyOf<Select> N>(N& n) {
                       f(n.cond);
                       f(n.a);
                       f(n.b);
                   },
                   [&]<AnyOf<Load> N>(N& n) { f(n.offset); },
                   [&]<AnyOf<StoreState> N>(N& n) {
                       f(n.offset);
                       f(n.src);
                   },
                   [&]<AnyOf<Check, If> N>(N& n) { f(n.cond); },
                   [&]<AnyOf<CheckRange> N>(N& n) {
                       f(n.offset);
                       f(n.length);
                   },
                   [&]<AnyOf<Varint> N>(N& n) {
                       f(n.offset);
                       f(n.limit);
                   },
                   [&]<AnyOf<IntOfBytes, ParseDecimal, EmitBytes> N>(N& n) { slice(n.bytes); },
                   [&]<AnyOf<Compare> N>(N& n) {
                       slice(n.a);
                       slice(n.b);
                   },
                   [&]<AnyOf<Hash> N>(N& n) {
                       slice(n.bytes);
                       f(n.seed);
                   },
                   [&]<AnyOf<FindByte> N>(N& n) {
                       slice(n.bytes);
                       f(n.byte);
                   },
                   [&]<AnyOf<CopyToState> N>(N& n) {
                       f(n.dst_offset);
                       slice(n.src);
                   },
                   [&]<AnyOf<EmitInt> N>(N& n) { f(n.value); },
                   [&]<AnyOf<Next> N>(N& n) {
                       f(n.offset);
                       f(n.length);
                       f(n.tag);
                   },
                   [&]<AnyOf<Return> N>(N& n) {
                       f(n.scalar);
                       slice(n.slice);
                   },
                   [&]<AnyOf<Prefetch> N>(N& n) {
                       slice(n.name);
                       f(n.offset);
                       f(n.length);
                       for (auto& arg : n.args) f(arg);
                   },
                   [&]<AnyOf<CallChain> N>(N& n) {
                       for (auto& arg : n.args) f(arg);
                       for (auto& s : n.bytes_args) slice(s);
                       for (auto& file : n.files) slice(file.name);
                   },
                   [&]<AnyOf<Reply> N>(N& n) {
                       for (auto& part : n.parts) {
                           f(part.value);
                           slice(part.bytes);
                       }
                   },
                   [&]<AnyOf<Skip> N>(N& n) { f(n.bytes); },
                   [&]<AnyOf<Loop> N>(N& n) { f(n.count); },
               },
               stmt.node);
}

// Calls f(Body&) for each nested body.
template <class S, class F>
void for_each_body(S& stmt, F&& f) {
    if (auto* branch = std::get_if<If>(&stmt.node)) {
        f(branch->yes);
        f(branch->no);
    } else if (auto* loop = std::get_if<Loop>(&stmt.node)) {
        f(loop->body);
    }
}

// Whether nothing after the statement in its body can run because of the statement itself.
inline bool is_terminator(const Stmt& stmt) {
    return std::holds_alternative<Return>(stmt.node) || std::holds_alternative<Fail>(stmt.node) ||
           std::holds_alternative<End>(stmt.node) || std::holds_alternative<Break>(stmt.node) ||
           std::holds_alternative<Continue>(stmt.node);
}
// Whether the statement is an If both of whose sides end the flow.
bool branches_end_flow(const Stmt&);
// Whether every path through the body ends in a terminator.
bool ends_flow(const Body&);

}  // namespace chainio::ir
