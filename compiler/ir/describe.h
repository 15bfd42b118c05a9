// The one description of the serialised form: describe(archive, object) names the members in their order, for the
// writer and the reader alike. docs/artifact.md gives the same order in words; a change here needs a new
// kFormatVersion. So does one of which services and calls the kernel engine numbers (kernel_handlers.h), and how: the
// artifact's program was compiled for these numbers, and the runtime counts them out anew.
#pragma once
#include "compiler/ir/artifact.h"
#include "compiler/ir/visit.h"

namespace chainio::ir {

constexpr std::uint32_t kFormatVersion = 14;

// The last value of each enum; the reader refuses greater ones.
template <class E>
constexpr E kLast = E{};
template <>
inline constexpr Space kLast<Space> = Space::result;
template <>
inline constexpr UnOp kLast<UnOp> = UnOp::bswap64;
template <>
inline constexpr BinOp kLast<BinOp> = BinOp::umax;
template <>
inline constexpr VarintKind kLast<VarintKind> = VarintKind::sqlite;
template <>
inline constexpr HashAlgo kLast<HashAlgo> = HashAlgo::fnv1a;
template <>
inline constexpr Input kLast<Input> = Input::out_length;
template <>
inline constexpr ResultKind kLast<ResultKind> = ResultKind::slice;
template <>
inline constexpr PrefetchKind kLast<PrefetchKind> = PrefetchKind::mark_via;
template <>
inline constexpr Format kLast<Format> = Format::u64be;
template <>
inline constexpr ProgramKind kLast<ProgramKind> = ProgramKind::handler;
template <>
inline constexpr ChainMode kLast<ChainMode> = ChainMode::on_probe;
template <>
inline constexpr Param::Kind kLast<Param::Kind> = Param::Kind::bytes;

template <class A, AnyOf<Operand> N>
void describe(A& a, N& n) {
    a(n.is_imm, n.value);
}
template <class A, AnyOf<Slice> N>
void describe(A& a, N& n) {
    a(n.space, n.offset, n.length);
}
template <class A, AnyOf<Move> N>
void describe(A& a, N& n) {
    a(n.dst, n.src);
}
template <class A, AnyOf<Unary> N>
void describe(A& a, N& n) {
    a(n.dst, n.op, n.a);
}
template <class A, AnyOf<Binary> N>
void describe(A& a, N& n) {
    a(n.dst, n.op, n.a, n.b);
}
template <class A, AnyOf<Select> N>
void describe(A& a, N& n) {
    a(n.dst, n.cond, n.a, n.b);
}
template <class A, AnyOf<GetInput> N>
void describe(A& a, N& n) {
    a(n.dst, n.input);
}
template <class A, AnyOf<GetArg> N>
void describe(A& a, N& n) {
    a(n.dst, n.index);
}
template <class A, AnyOf<Load> N>
void describe(A& a, N& n) {
    a(n.dst, n.space, n.offset, n.width, n.big_endian, n.is_signed);
}
template <class A, AnyOf<StoreState> N>
void describe(A& a, N& n) {
    a(n.offset, n.width, n.src);
}
template <class A, AnyOf<Check> N>
void describe(A& a, N& n) {
    a(n.cond, n.outcome);
}
template <class A, AnyOf<CheckRange> N>
void describe(A& a, N& n) {
    a(n.space, n.offset, n.length, n.outcome);
}
template <class A, AnyOf<Varint> N>
void describe(A& a, N& n) {
    a(n.value, n.length, n.kind, n.space, n.offset, n.limit, n.outcome);
}
template <class A, AnyOf<IntOfBytes> N>
void describe(A& a, N& n) {
    a(n.dst, n.bytes, n.big_endian, n.is_signed);
}
template <class A, AnyOf<Compare> N>
void describe(A& a, N& n) {
    a(n.dst, n.a, n.b, n.max);
}
template <class A, AnyOf<Hash> N>
void describe(A& a, N& n) {
    a(n.dst, n.algo, n.bytes, n.seed, n.max);
}
template <class A, AnyOf<FindByte> N>
void describe(A& a, N& n) {
    a(n.dst, n.bytes, n.byte, n.max);
}
template <class A, AnyOf<ParseDecimal> N>
void describe(A& a, N& n) {
    a(n.dst, n.bytes, n.outcome);
}
template <class A, AnyOf<CopyToState> N>
void describe(A& a, N& n) {
    a(n.dst_offset, n.src, n.max);
}
template <class A, AnyOf<EmitInt> N>
void describe(A& a, N& n) {
    a(n.value, n.width, n.limit);
}
template <class A, AnyOf<EmitBytes> N>
void describe(A& a, N& n) {
    a(n.bytes, n.max, n.limit);
}
template <class A, AnyOf<Next> N>
void describe(A& a, N& n) {
    a(n.step, n.file, n.offset, n.length, n.tag);
}
template <class A, AnyOf<Return> N>
void describe(A& a, N& n) {
    a(n.kind, n.scalar, n.slice);
}
template <class A, AnyOf<Fail> N>
void describe(A& a, N& n) {
    a(n.outcome);
}
template <class A, AnyOf<End, Break, Continue> N>
void describe(A&, N&) {}
template <class A, AnyOf<Prefetch> N>
void describe(A& a, N& n) {
    a(n.kind, n.target, n.name, n.offset, n.length, n.args);
}
template <class A, AnyOf<CallFile> N>
void describe(A& a, N& n) {
    a(n.file_class, n.name);
}
template <class A, AnyOf<CallChain> N>
void describe(A& a, N& n) {
    a(n.ok, n.scalar, n.chain, n.result, n.args, n.bytes_args, n.files, n.closes);
}
template <class A, AnyOf<ReplyPart> N>
void describe(A& a, N& n) {
    a(n.format, n.value, n.bytes);
}
template <class A, AnyOf<Reply> N>
void describe(A& a, N& n) {
    a(n.parts);
}
template <class A, AnyOf<Skip> N>
void describe(A& a, N& n) {
    a(n.bytes);
}
template <class A, AnyOf<If> N>
void describe(A& a, N& n) {
    a(n.cond, n.yes, n.no);
}
template <class A, AnyOf<Loop> N>
void describe(A& a, N& n) {
    a(n.counter, n.count, n.max, n.outcome, n.body);
}
template <class A, AnyOf<Stmt> N>
void describe(A& a, N& n) {
    a(n.line.file, n.line.line, n.node);
}

template <class A, AnyOf<Program> N>
void describe(A& a, N& n) {
    a(n.name, n.kind, n.reg_count, n.reg_names, n.body, n.line_file);
}
template <class A, AnyOf<Param> N>
void describe(A& a, N& n) {
    a(n.kind, n.name, n.slot, n.file_class, n.bits, n.is_signed, n.max);
}
template <class A, AnyOf<HeaderArg> N>
void describe(A& a, N& n) {
    a(n.slot, n.file, n.field);
}
template <class A, AnyOf<Step> N>
void describe(A& a, N& n) {
    a(n.name, n.program);
}
template <class A, AnyOf<Chain> N>
void describe(A& a, N& n) {
    a(n.name, n.mode, n.source, n.priority_class, n.params, n.header_args, n.arg_slots, n.result, n.result_bits,
      n.result_signed, n.result_max, n.hops, n.state_bytes, n.initial_state, n.entry, n.done, n.shadow, n.steps);
}
template <class A, AnyOf<FileClass> N>
void describe(A& a, N& n) {
    a(n.name, n.pattern, n.root, n.index, n.direct, n.immutable, n.no_read_ahead, n.cache_bytes, n.cache_levels,
      n.header_program, n.header_bytes, n.header_fields);
}
template <class A, AnyOf<Socket> N>
void describe(A& a, N& n) {
    a(n.name, n.tcp, n.port);
}
template <class A, AnyOf<Slo> N>
void describe(A& a, N& n) {
    a(n.percentile_x1000, n.ns);
}
template <class A, AnyOf<PriorityClass> N>
void describe(A& a, N& n) {
    a(n.name, n.priority, n.weight, n.slos);
}
template <class A, AnyOf<Batch> N>
void describe(A& a, N& n) {
    a(n.min, n.max, n.adapt);
}
template <class A, AnyOf<Endpoint> N>
void describe(A& a, N& n) {
    a(n.tcp, n.port, n.via);
}
template <class A, AnyOf<ServiceCache> N>
void describe(A& a, N& n) {
    a(n.entries, n.ttl_ns, n.compared, n.head);
}
template <class A, AnyOf<Framing> N>
void describe(A& a, N& n) {
    a(n.bytes, n.end, n.length);
}
template <class A, AnyOf<Service> N>
void describe(A& a, N& n) {
    a(n.name, n.endpoints, n.priority_class, n.cache, n.tcp_framing, n.udp_framing, n.on_request_udp, n.on_request_tcp,
      n.on_malformed, n.on_failure, n.on_datagram);
}
template <class A, AnyOf<ProbeArg> N>
void describe(A& a, N& n) {
    a(n.name, n.bits, n.is_signed, n.cstr, n.max);
}
template <class A, AnyOf<Probe> N>
void describe(A& a, N& n) {
    a(n.name, n.kind, n.site, n.args);
}
template <class A, AnyOf<Module> N>
void describe(A& a, N& n) {
    a(n.app, n.match_exe, n.files, n.sockets, n.classes, n.batch, n.programs, n.chains, n.services, n.probes, n.reasons,
      n.literals, n.sources);
}
template <class A, AnyOf<IoLayout> N>
void describe(A& a, N& n) {
    a(n.state_offset, n.state_size, n.arg_bytes_offset, n.arg_bytes_size, n.out_offset, n.out_size, n.prefetch_offset,
      n.prefetch_count, n.total);
}
template <class A, AnyOf<ProgramBounds> N>
void describe(A& a, N& n) {
    a(n.instructions, n.stack);
}
template <class A, AnyOf<Artifact> N>
void describe(A& a, N& n) {
    a(n.module, n.layout, n.bounds);
}

}  // namespace chainio::ir
