// What never runs: steps that nothing goes to, a `done` that no step leaves a way to, steps whose reads cannot hold
// their record, prefetches behind all files, handlers of requests that no datagram can hold, and replies that none can.
#include <algorithm>

#include "compiler/ir/datagram_heads.h"
#include "compiler/ir/size.h"
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Block;
using checked::Expr;
using checked::ExprKind;
using checked::Stmt;
using checked::StmtKind;

namespace {

constexpr std::uint64_t kFilesEnd = 1ULL << 63;

template <typename Visit>
void each(StmtKind kind, const Block& block, const Visit& visit) {
    for (const auto& stmt : block) {
        if (stmt->kind == kind) visit(*stmt);
        each(kind, stmt->body, visit);
        each(kind, stmt->otherwise, visit);
    }
}

std::vector<bool> steps_that_run(const checked::Chain& chain) {
    std::vector<bool> runs(chain.steps.size());
    std::vector<std::uint32_t> left{0};
    while (!left.empty()) {
        const std::uint32_t step = left.back();
        left.pop_back();
        if (runs[step]) continue;
        runs[step] = true;
        each(StmtKind::next, chain.steps[step].body.block, [&](const Stmt& read) { left.push_back(read.index); });
    }
    return runs;
}

// The most bytes that a read may have, as its length's value or type says.
std::uint64_t most(const Expr& length) {
    if (length.kind == ExprKind::int_const) return length.value;
    return length.type.bits >= 64 ? ~0ULL : (1ULL << length.type.bits) - 1;
}

// Up to which byte of its block a step's record reaches at least; 0 for one without a record.
std::uint64_t wanted(const checked::Step& step, const checked::Module& module) {
    if (!step.record) return 0;
    const bool is_placed = step.from && step.from->kind == ExprKind::int_const;
    return (is_placed ? std::min(step.from->value, kMaxBlock + 1) : 0) + fixed_prefix(module.records[*step.record]);
}

}  // namespace

void Checker::warn_unreached(const ChainScope& chain) {
    const std::vector<bool> runs = steps_that_run(*chain.out);
    bool reaches_done = false;
    for (std::uint32_t i = 0; i < runs.size(); i++) {
        reaches_done |= runs[i] && !chain.step_ends[i];
        if (runs[i]) continue;
        const ast::Name& name = chain.ast->steps[i].name;
        warn(unreachable_code, name.span, "step `" + name.text + "` never runs: no step that runs goes to it",
             "remove it, or go to it with `goto` or `next`");
    }
    if (chain.ast->done && !reaches_done)
        warn(unreachable_code, chain.ast->done->span, "`done` never runs: every step goes on or ends the chain",
             "remove it, or let a step end without `goto`, `return` and `fail`");
    warn_without_result(chain, runs);
}

// Where each step goes on to one other at most, nothing is left to read, and to give a result, behind one that does
// not.
void Checker::warn_without_result(const ChainScope& chain, const std::vector<bool>& runs) {
    const checked::Chain& out = *chain.out;
    if (out.returns.kind == checked::TypeKind::none || out.emits || out.done) return;
    bool queues = false;
    for (const checked::Step& step : out.steps)
        each(StmtKind::next, step.body.block, [&](const Stmt& read) { queues |= !read.ends; });
    if (queues) return;
    for (std::uint32_t i = 0; i < runs.size(); i++) {
        if (!runs[i] || chain.step_ends[i]) continue;
        const ast::Name& name = chain.ast->steps[i].name;
        warn(way_without_result, name.span,
             "step `" + name.text + "` has a way to its end without a result: the chain then fails with `no_result`",
             "end that way with `return`, `goto` or `fail`: `fail not_found`, say");
    }
}

void Checker::warn_read(const checked::Step& step, const Expr& at, const Expr& length) {
    if (at.kind == ExprKind::int_const && at.value >= kFilesEnd)
        warn(read_never_fits, at.span,
             "a read that begins at byte " + std::to_string(at.value) + " always fails with `malformed`",
             "read from before byte 2^63, where the longest file ends");
    const std::uint64_t needed = wanted(step, module_), most_bytes = most(length);
    if (most_bytes >= needed || needed > kMaxBlock) return;
    warn(read_never_fits, length.span,
         "a read of at most " + std::to_string(most_bytes) + " bytes, and the record of step `" + step.name +
             "` ends at byte " + std::to_string(needed) + " or later: the step always ends with `malformed`",
         "read at least " + std::to_string(needed) + " bytes", {{step.span, "the step is declared here"}});
}

void Checker::warn_reads(const ChainScope& chain) {
    const checked::Chain& out = *chain.out;
    for (const checked::Step& step : out.steps) {
        if (const std::uint64_t needed = wanted(step, module_); needed > kMaxBlock)
            warn(read_never_fits, step.from->span,
                 "the record of step `" + step.name + "` ends behind byte " + std::to_string(kMaxBlock) +
                     " of its block: the step always ends with `malformed`",
                 "a block has at most 64 KiB: read from nearer to the record");
        each(StmtKind::next, step.body.block, [&](const Stmt& read) {
            if (read.value && read.value2) warn_read(out.steps[read.index], *read.value, *read.value2);
        });
    }
    if (const checked::Step& first = out.steps.front(); first.at && first.length)
        warn_read(first, *first.at, *first.length);
}

// Of `on datagram`. What has another length for each request counts for nothing here.
void Checker::refuse_long_begin(const Block& block) {
    std::size_t length = 0;
    for (const auto& stmt : block) {
        if (stmt->kind != StmtKind::reply) continue;
        for (const checked::ReplyPart& part : stmt->parts) {
            const bool is_text = part.format == ir::Format::bytes;
            const bool is_constant = is_text && part.value->kind == ExprKind::bytes_const;
            length += is_constant ? part.value->bytes.size() : is_text ? 0 : ir::width_of(part.format);
        }
        if (length <= ir::kDatagramHead) continue;
        error(datagram_begin, stmt->span, "a datagram begins with at least " + std::to_string(length) + " bytes",
              "it may do with at most " + std::to_string(ir::kDatagramHead) + ", as each datagram of a reply has them");
        return;
    }
}

void Checker::warn_prefetches(const Block& block) {
    each(StmtKind::prefetch, block, [&](const Stmt& prefetch) {
        if (prefetch.prefetch_kind == ir::PrefetchKind::mark) return;
        if (!prefetch.value || prefetch.value->kind != ExprKind::int_const || prefetch.value->value < kFilesEnd) return;
        warn(read_never_fits, prefetch.value->span,
             "a prefetch that begins at byte " + std::to_string(prefetch.value->value) + " never reads anything",
             "prefetch from before byte 2^63, where the longest file ends");
    });
}

void Checker::warn_request(const ast::Service& n, const checked::Service& out) {
    const auto tcp = std::ranges::find(n.endpoints, true, &ast::Endpoint::tcp);
    const ir::Framing& stream = out.info.tcp_framing;
    if (!failed_ && tcp != n.endpoints.end() && out.tcp && !out.measured && stream.bytes == 0 && stream.end.empty())
        warn(request_no_end, tcp->span,
             "nothing shows where a request ends in a stream, and the runtime does not serve such requests over tcp",
             "give the request a fixed size, a length among its fields, or a text rule that ends it; over udp it may "
             "stay as it is");
    const auto udp = std::ranges::find(n.endpoints, false, &ast::Endpoint::tcp);
    if (failed_ || udp == n.endpoints.end() || !out.udp || out.udp->request_record < 0) return;
    const std::uint64_t bytes = fixed_prefix(module_.records[static_cast<std::size_t>(out.udp->request_record)]);
    if (bytes > ir::kLongestDatagram)
        warn(request_never_fits, udp->span,
             "a request has at least " + std::to_string(bytes) + " bytes, and longer datagrams than " +
                 std::to_string(ir::kLongestDatagram) + " bytes are answered by `on malformed`",
             "take such requests by tcp, or make the request shorter");
}

}  // namespace chainio::sema
