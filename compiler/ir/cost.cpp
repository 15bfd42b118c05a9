#include "compiler/ir/cost.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/flight.h"
#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 4;

std::uint64_t add(std::uint64_t a, std::uint64_t b) { return std::min(kMost, a + b); }
std::uint64_t mul(std::uint64_t a, std::uint64_t b) { return b != 0 && a > kMost / b ? kMost : std::min(kMost, a * b); }

// The cost table: BPF instructions an operation executes at most, calls of helper routines included. `each` is per
// byte.
struct Cost {
    std::uint64_t base, each = 0;
};
constexpr Cost kProgram{60}, kIf{8}, kLoop{20}, kIteration{20};
constexpr Cost cost_of(const Move&) { return {4}; }
constexpr Cost cost_of(const Unary&) { return {12}; }
constexpr Cost cost_of(const Binary&) { return {14}; }
constexpr Cost cost_of(const Select&) { return {14}; }
constexpr Cost cost_of(const GetInput&) { return {6}; }
constexpr Cost cost_of(const GetArg&) { return {6}; }
constexpr Cost cost_of(const Load&) { return {36}; }
constexpr Cost cost_of(const StoreState&) { return {24}; }
constexpr Cost cost_of(const Check&) { return {10}; }
constexpr Cost cost_of(const CheckRange&) { return {18}; }
constexpr Cost cost_of(const Varint& n) { return {n.kind == VarintKind::sqlite ? 240u : 270u}; }
constexpr Cost cost_of(const IntOfBytes&) { return {180}; }
constexpr Cost cost_of(const Compare&) { return {100, 3}; }  // eight bytes a round, as FindByte and the copies
constexpr Cost cost_of(const FindByte&) { return {190, 3}; }
constexpr Cost cost_of(const ParseDecimal&) { return {440}; }
// Bytes of the state that may overlap go one by one.
constexpr Cost cost_of(const CopyToState& n) { return {170, n.src.space == Space::state ? 16u : 3u}; }
constexpr Cost cost_of(const EmitInt&) { return {100}; }
constexpr Cost cost_of(const EmitBytes&) { return {180, 3}; }
constexpr Cost cost_of(const Next&) { return {50}; }
constexpr Cost cost_of(const Return&) { return {20}; }
constexpr Cost cost_of(const Fail&) { return {12}; }
constexpr Cost cost_of(const End&) { return {6}; }
constexpr Cost cost_of(const Prefetch&) { return {80}; }
constexpr Cost cost_of(const CallChain&) { return {1}; }  // handlers run outside of BPF
constexpr Cost cost_of(const Reply&) { return {1}; }
constexpr Cost cost_of(const Skip&) { return {1}; }
constexpr Cost cost_of(const Break&) { return {6}; }
constexpr Cost cost_of(const Continue&) { return {6}; }
constexpr Cost cost_of(const Hash& n) {
    switch (n.algo) {
        case HashAlgo::crc32c: return {100, 21};
        case HashAlgo::xxh64: return {500, 3};
        case HashAlgo::fnv1a: return {100, 17};
    }
    return {400, 80};
}

std::uint64_t longest(const Slice& slice, std::uint32_t max) {
    return slice.length.is_imm ? std::min<std::uint64_t>(slice.length.value, max) : max;
}
std::uint64_t bytes_of(const Compare& n) { return std::min(longest(n.a, n.max), longest(n.b, n.max)); }
std::uint64_t bytes_of(const Hash& n) { return longest(n.bytes, n.max); }
std::uint64_t bytes_of(const FindByte& n) { return longest(n.bytes, n.max); }
std::uint64_t bytes_of(const CopyToState& n) { return longest(n.src, n.max); }
// What is longer than the result is refused before it is copied.
std::uint64_t bytes_of(const EmitBytes& n) { return std::min<std::uint64_t>(longest(n.bytes, n.max), n.limit); }
template <class N>
std::uint64_t bytes_of(const N&) {
    return 0;
}

// Others get their turn at each call of a chain, so that a loop which makes one in each round counts once.
bool may_continue(const Body& body) {
    return std::ranges::any_of(body, [](const Stmt& stmt) {
        bool any = std::holds_alternative<Continue>(stmt.node);
        for_each_body(stmt, [&](const Body& nested) { any = any || may_continue(nested); });
        return any;
    });
}

bool stops_each_round(const Body& body) {
    for (const Stmt& stmt : body) {
        if (std::holds_alternative<CallChain>(stmt.node)) return true;
        bool passes = false;
        for_each_body(stmt, [&](const Body& nested) { passes = passes || may_continue(nested); });
        if (passes) return false;
    }
    return false;
}

std::uint64_t rounds_of(const Loop& n) {
    const std::uint64_t rounds = n.count.is_imm ? std::min<std::uint64_t>(n.count.value, n.max) : n.max;
    return stops_each_round(n.body) ? std::min<std::uint64_t>(rounds, 1) : rounds;
}

// The dearest of the ways through a body, by where they lead. One that is not there has a cost, too: optimized code
// looks at it before it asks, which valgrind would report in each program that is linked to the library.
struct Way {
    Way() = default;
    Way(std::uint64_t dearest) : is_there(true), cost(dearest) {}
    bool is_there = false;
    std::uint64_t cost = 0;
};
struct Ways {
    Way on{}, again{}, out{}, end{};  // to what follows, to the loop's next round, behind the loop, out of the program
};

Way dearer(Way a, Way b) { return a.is_there && b.is_there ? Way(std::max(a.cost, b.cost)) : a.is_there ? a : b; }
Way behind(std::uint64_t first, Way way) { return way.is_there ? Way(add(first, way.cost)) : way; }

Ways dearer(const Ways& a, const Ways& b) {
    return {dearer(a.on, b.on), dearer(a.again, b.again), dearer(a.out, b.out), dearer(a.end, b.end)};
}
Ways behind(std::uint64_t first, const Ways& ways) {
    return {behind(first, ways.on), behind(first, ways.again), behind(first, ways.out), behind(first, ways.end)};
}

// Whether an operation counts the bytes that it emits, or they are counted for the whole program.
enum class Emitted : std::uint8_t { by_each, together };

Ways ways(const Body& body, Emitted emitted);

// All rounds but the last one lead to a next one.
Ways ways_of(const Loop& n, Emitted emitted) {
    const Ways body = ways(n.body, emitted);
    const std::uint64_t rounds = rounds_of(n), round = add(kIteration.base, dearer(body.on, body.again).cost);
    const std::uint64_t before = add(add(kLoop.base, kIteration.base), mul(rounds == 0 ? 0 : rounds - 1, round));
    Ways found;
    found.on = dearer(add(kLoop.base, mul(rounds, round)), behind(before, body.out));
    found.end = behind(before, body.end);
    return found;
}
Ways ways_of(const If& n, Emitted emitted) {
    return behind(kIf.base, dearer(ways(n.yes, emitted), ways(n.no, emitted)));
}
Ways ways_of(const Return& n, Emitted) { return {.end = cost_of(n).base}; }
Ways ways_of(const Fail& n, Emitted) { return {.end = cost_of(n).base}; }
Ways ways_of(const End& n, Emitted) { return {.end = cost_of(n).base}; }
Ways ways_of(const Break& n, Emitted) { return {.out = cost_of(n).base}; }
Ways ways_of(const Continue& n, Emitted) { return {.again = cost_of(n).base}; }
// One that fails ends the program for no more than what it takes otherwise.
template <class N>
Ways ways_of(const N& n, Emitted emitted) {
    if (std::is_same_v<N, EmitBytes> && emitted == Emitted::together) return {.on = cost_of(n).base};
    return {.on = add(cost_of(n).base, mul(cost_of(n).each, bytes_of(n)))};
}

Ways ways(const Body& body, Emitted emitted) {
    Ways found{.on = 0};
    for (const Stmt& stmt : body) {
        if (!found.on.is_there) break;
        const Ways next =
            behind(found.on.cost, std::visit([&](const auto& node) { return ways_of(node, emitted); }, stmt.node));
        found.on = {};
        found = dearer(found, next);
    }
    return found;
}

std::uint64_t bound_of(const Program& program, Emitted emitted) {
    const Ways found = ways(program.body, emitted);
    return add(kProgram.base, dearer(found.on, found.end).cost);
}

std::uint64_t longest_result(const Body& body) {
    std::uint64_t most = 0;
    for (const Stmt& stmt : body) {
        if (const auto* emit = std::get_if<EmitBytes>(&stmt.node)) most = std::max<std::uint64_t>(most, emit->limit);
        for_each_body(stmt, [&](const Body& nested) { most = std::max(most, longest_result(nested)); });
    }
    return most;
}

std::uint64_t dearest(const Ways& found) {
    return dearer(dearer(found.on, found.again), dearer(found.out, found.end)).cost;
}

// The dearest statement of a body and of the bodies that are one way through it, that is of no loop's.
const Stmt* dearest_of(const Body& body) {
    const Stmt* found = nullptr;
    std::uint64_t most = 0;
    for (const Stmt& stmt : body) {
        const std::uint64_t cost =
            std::visit([](const auto& n) { return dearest(ways_of(n, Emitted::by_each)); }, stmt.node);
        if (found && cost <= most) continue;
        found = &stmt;
        most = cost;
    }
    const If* both = found ? std::get_if<If>(&found->node) : nullptr;
    if (!both) return found;
    const bool yes = dearest(ways(both->yes, Emitted::by_each)) >= dearest(ways(both->no, Emitted::by_each));
    return dearest_of(yes ? both->yes : both->no);
}

CostlyPart part_of(const Stmt& stmt) {
    if (const Loop* loop = std::get_if<Loop>(&stmt.node))
        return {stmt.line, rounds_of(*loop), add(kIteration.base, dearest(ways(loop->body, Emitted::by_each)))};
    return {stmt.line, 1, std::visit([](const auto& n) { return dearest(ways_of(n, Emitted::by_each)); }, stmt.node)};
}

}  // namespace

std::vector<CostlyPart> costly_parts(const Program& program) {
    std::vector<CostlyPart> parts;
    for (const Stmt* stmt = dearest_of(program.body); stmt;) {
        const CostlyPart part = part_of(*stmt);
        if (!parts.empty() && mul(part.rounds, part.each) < parts.back().each / 2) break;
        parts.push_back(part);
        const Loop* loop = std::get_if<Loop>(&stmt->node);
        stmt = loop ? dearest_of(loop->body) : nullptr;
    }
    return parts;
}

// What does not fit the result any more is not copied, so that all the emits of one run copy no more than it holds.
std::uint64_t instruction_bound(const Program& program) {
    const std::uint64_t copies = mul(cost_of(EmitBytes{}).each, longest_result(program.body));
    return std::min(bound_of(program, Emitted::by_each), add(bound_of(program, Emitted::together), copies));
}

ChainBounds chain_bounds(const Module& module, const IoLayout& layout, const Chain& chain) {
    ChainBounds bounds;
    bounds.hops = chain.hops;
    const auto use = [&](std::int32_t index) {
        if (index < 0) return;
        const Program& program = module.programs[static_cast<std::size_t>(index)];
        bounds.instructions = std::max(bounds.instructions, instruction_bound(program));
    };
    for (const std::int32_t index : {chain.entry, chain.done, chain.shadow}) use(index);
    for (const Step& step : chain.steps) use(step.program);
    const FlightBounds flight = flight_bounds(module, chain);
    bounds.in_flight = flight.in_flight;
    bounds.block_bytes = flight.largest_read;
    bounds.memory = add(layout.total, flight.block_memory);
    return bounds;
}

}  // namespace chainio::ir
