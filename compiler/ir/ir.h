// Chain IR: what every engine runs. A program is a tree of structured statements over 64-bit virtual registers.
// Registers hold raw 64-bit values; signedness, width and byte order are in the operations. Arithmetic wraps.
//
// Invariants, checked by validate():
// - Every register is written before it is read on every path; a register written only inside a loop body is not readable
//   after the loop. At most kMaxVars registers have more than one static assignment (the counter of a Loop is one assignment).
// - Every Load and every Slice is in range: its offset is an immediate inside a space of fixed size (args, state, literal), or a
//   CheckRange of the same space dominates it and covers it. The two offsets may differ by constants added (`add r, imm`);
//   a register as length needs a CheckRange with that very value. Varint needs none, it stops by itself.
// - Nothing stands after a statement that ends the flow (Return, Fail, End, Break, Continue) in its body.
// - Loops have constant bounds and the whole program's static cost (cost.h) is at most kMaxCost.
//
// How a program runs, the same in the interpreter, native code and BPF:
// - At the start, block_length > CIO_MAX_BLOCK fails with CIO_MALFORMED.
// - Statements run in order. What `fails with X` does: outcome = X, next_count = 0, prefetch_count = 0, out_length = 0,
//   finished = 0, and the program ends. Stores to the state that ran before stay.
// - Falling off the end of the program is End: outcome stays CIO_OK, finished stays 0.
// - The sizes of the spaces: block is io.block_length; args and state are the sizes of the IoLayout; literal is
//   Module::literals.size(). A Slice longer than the `max` of its operation makes that operation fail with CIO_OVERFLOW.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace chainio::ir {

using Reg = std::uint16_t;

struct Operand {
    bool is_imm = true;
    std::uint64_t value = 0;  // the immediate, or the register's number
    static Operand imm(std::uint64_t v) { return {true, v}; }
    static Operand reg(Reg r) { return {false, r}; }
    bool operator==(const Operand&) const = default;
};

// Limits that validate() enforces.
constexpr std::uint32_t kMaxRegs = 8192, kMaxVars = 128, kMaxDepth = 200, kMaxStmts = 65536, kMaxPrograms = 1024, kMaxReplyParts = 64;
constexpr std::uint32_t kMaxLiterals = 1 << 20;  // bytes
constexpr Reg kMostBuiltRegs = 65535;  // of a program that the passes have not seen yet
constexpr std::uint64_t kMaxCost = 16'000'000;
constexpr std::uint64_t kMaxSkip = (std::uint64_t{1} << 31) - 1;  // bytes behind a request

// As cio_space. `result` occurs in handlers only: a called chain's bytes result; the offset's upper 32 bits are the number of
// the result (CallChain::result), the lower ones the byte.
enum class Space : std::uint8_t { block, args, state, literal, result };

struct Slice {  // bytes of a space
    Space space = Space::block;
    Operand offset, length;
    bool operator==(const Slice&) const = default;
};

enum class UnOp : std::uint8_t { neg, bit_not, logical_not, sext8, sext16, sext32, zext8, zext16, zext32, bswap16, bswap32, bswap64 };
// logical_not: 1 for zero, else 0. bswapN swaps the low N bits and clears the rest; zextN and sextN look at the low N bits only.
// Division and modulo are unsigned: x / 0 is 0 and x % 0 is x (as BPF does; the lowering puts a Check before them). Shift
// counts are taken modulo 64. Comparisons give 1 or 0.
enum class BinOp : std::uint8_t { add, sub, mul, udiv, umod, bit_and, bit_or, bit_xor, shl, lshr, ashr, eq, ne, ult, ule, slt, sle, umin, umax };
enum class VarintKind : std::uint8_t { leb128, zigzag, sqlite };
enum class HashAlgo : std::uint8_t { crc32c, xxh64, fnv1a };
enum class Input : std::uint8_t { block_offset, block_length, block_tag, out_length };
enum class ResultKind : std::uint8_t { none, scalar, slice };  // as cio_result_kind
enum class PrefetchKind : std::uint8_t { same, sibling, path, chain, mark, mark_via };
constexpr bool is_call(PrefetchKind kind) { return kind == PrefetchKind::chain || kind == PrefetchKind::mark_via; }
constexpr bool is_mark(PrefetchKind kind) { return kind == PrefetchKind::mark || kind == PrefetchKind::mark_via; }

struct Stmt;
using Body = std::vector<Stmt>;

struct Move { Reg dst; Operand src; };
struct Unary { Reg dst; UnOp op; Operand a; };
struct Binary { Reg dst; BinOp op; Operand a, b; };
struct Select { Reg dst; Operand cond, a, b; };              // dst = cond != 0 ? a : b
struct GetInput { Reg dst; Input input; };
struct GetArg { Reg dst; std::uint16_t index; };             // cio_io.args[index]
// dst = `width` bytes (1..8) at `offset`, sign-extended when `is_signed`. In range by the invariant above.
struct Load { Reg dst; Space space; Operand offset; std::uint8_t width; bool big_endian, is_signed; };
struct StoreState { Operand offset; std::uint8_t width; Operand src; };  // the low `width` bytes (1..8), little-endian; offset is an immediate
// Fails with `outcome` when cond is zero.
struct Check { Operand cond; std::uint32_t outcome; };
// Fails with `outcome` unless offset + length <= the size of the space, computed without wrapping.
struct CheckRange { Space space; Operand offset, length; std::uint32_t outcome; };
// Reads the varint at `offset`; `length` is the number of its bytes. Bytes at or past `limit` (an offset in the space, exclusive
// end) or past the size of the space do not exist; fails with `outcome` when the varint needs one.
// leb128: 7 bits a byte from the least significant, bit 7 says that another follows, at most 10 bytes; fails when the tenth byte
// is above 1. zigzag: leb128 v, then (v >> 1) ^ -(v & 1). sqlite: 7 bits a byte, the most significant first, bit 7 says that
// another follows; a ninth byte counts with all of its 8 bits and is the last.
struct Varint { Reg value, length; VarintKind kind; Space space; Operand offset, limit; std::uint32_t outcome; };
struct IntOfBytes { Reg dst; Slice bytes; bool big_endian, is_signed; };  // 0 bytes are 0; longer than 8: fails with CIO_MALFORMED
struct Compare { Reg dst; Slice a, b; std::uint32_t max; };   // memcmp order, then length: -1 (as u64), 0 or 1; fails with CIO_OVERFLOW when the shorter is longer than `max`
// crc32c: Castagnoli, reflected; starts at ~seed (32 bits) and ends with ~, so crc32c(b, crc32c(a)) is crc32c(ab). xxh64: XXH64 with
// the seed. fnv1a: 64 bits, starts at (0xcbf29ce484222325 ^ seed).
struct Hash { Reg dst; HashAlgo algo; Slice bytes; Operand seed; std::uint32_t max; };
struct FindByte { Reg dst; Slice bytes; Operand byte; std::uint32_t max; };  // index of the first byte == (byte & 255), or the length
struct ParseDecimal { Reg dst; Slice bytes; std::uint32_t outcome; };       // 1..20 ASCII digits whose value fits 64 bits, else fails
// state[dst_offset ..] = bytes, copied in ascending order; the destination is in range like any slice of the state.
struct CopyToState { Operand dst_offset; Slice src; std::uint32_t max; };
// Appends to the out area, little-endian, and adds to out_length; fails with CIO_OVERFLOW when out_length + width > limit
// (limit <= IoLayout::out_size; computed without wrapping, before anything is written).
struct EmitInt { Operand value; std::uint8_t width; std::uint32_t limit; };
struct EmitBytes { Slice bytes; std::uint32_t max, limit; };
// Appends to io.next. In this order: fails with CIO_MALFORMED on a length of 0 or above CIO_MAX_BLOCK, with CIO_FANOUT when
// next_count is CIO_MAX_NEXT already.
struct Next { std::uint16_t step, file; Operand offset, length, tag; };
// Ends the chain: finished = 1, next_count = 0, result_kind = kind; scalar sets result, slice sets slice_space, slice_offset and
// slice_length; the fields of the other kinds are not touched.
struct Return { ResultKind kind; Operand scalar; Slice slice; };
struct Fail { std::uint32_t outcome; };                       // fails with `outcome`, which is not CIO_OK
struct End {};                                                // ends the step (the tail of `goto`)
// Appends to the prefetch list; when that holds IoLayout::prefetch_count entries already, nothing happens. Fields that a kind
// does not use are written as 0. `name` is used by sibling (literal space) and path; at most 4 args, missing ones are 0.
// Marks fetch nothing: the place `offset` of the event's file gets `length` as its mark, or what chain `target` returns; with
// CIO_MARK_FILE all places that have none.
struct Prefetch { PrefetchKind kind; std::uint32_t target; Slice name; Operand offset, length; std::vector<Operand> args; };
// Service handlers only: runs a chain; ok is 1 or 0; `scalar` is a scalar result or the length of a bytes result, whose bytes
// are number `result` of Space::result. `args` are the chain's scalars in order, `bytes_args` its bytes; `files` gives each file
// parameter: a file class and the literal that names the file in it (empty: the class's only file). With `closes` a chain that
// fails is as absent as one that finds nothing, and the reply is not whole: what follows ends the connection.
struct CallFile { std::uint16_t file_class; Slice name; };
struct CallChain { Reg ok, scalar; std::uint16_t chain, result; std::vector<Operand> args; std::vector<Slice> bytes_args; std::vector<CallFile> files; bool closes = false; };
enum class Format : std::uint8_t { bytes, dec, hex, u8, u16le, u16be, u32le, u32be, u64le, u64be };
struct ReplyPart { Format format; Operand value; Slice bytes; };  // `bytes` for Format::bytes, else `value`
struct Reply { std::vector<ReplyPart> parts; };               // appends to the reply
// Service handlers only: adds min(bytes, kMaxSkip + 1) to io.result. So many bytes behind the request are no requests; more than
// kMaxSkip: nothing behind it is one.
struct Skip { Operand bytes; };
struct If { Operand cond; Body yes, no; };
// for (counter = 0; counter < count && counter < max; counter++) body. A count above max fails with `outcome` first. The body writes
// neither the counter nor the count, which engines read in each round; the counter is not readable after the loop.
struct Loop { Reg counter; Operand count; std::uint32_t max; std::uint32_t outcome; Body body; };
struct Break {};
struct Continue {};

struct Line {  // of the canonical form
    std::uint16_t file = 0;  // index into Module::sources
    std::uint32_t line = 0;
};

struct Stmt {
    Line line;
    std::variant<Move, Unary, Binary, Select, GetInput, GetArg, Load, StoreState, Check, CheckRange, Varint, IntOfBytes, Compare, Hash, FindByte,
                 ParseDecimal, CopyToState, EmitInt, EmitBytes, Next, Return, Fail, End, Prefetch, CallChain, Reply, If, Loop, Break,
                 Continue, Skip>
        node;
};

enum class ProgramKind : std::uint8_t {
    entry,    // no block: queues the first read(s) of a chain
    step,     // one block of a chain
    done,     // no block: after the last read, when the chain declares `done`
    header,   // the first bytes of a file: emits the header record's scalar fields as 8-byte integers
    shadow,   // a block that an unmodified program read: fills the prefetch list
    handler,  // a service's request: lowered to native code, and to BPF that runs in the kernel engine only
};

struct Program {
    std::string name;  // "lookup.walk", "lookup.entry", "header.Header"
    ProgramKind kind = ProgramKind::step;
    std::uint16_t reg_count = 0;
    std::vector<std::string> reg_names;  // for dumps; empty name: a temporary
    Body body;
    std::uint32_t line_file = 0;
};

struct Param {
    enum class Kind : std::uint8_t { file, scalar, bytes } kind;
    std::string name;
    std::uint16_t slot = 0;         // file: index among the files; otherwise first slot in cio_io.args
    std::uint16_t file_class = 0;   // file
    std::uint8_t bits = 64;         // scalar
    bool is_signed = false;
    std::uint32_t max = 0;          // bytes
};
// args[slot] of a chain is field `field` of the header of file parameter `file`, filled in by the runtime.
// HeaderArg::field: not a field of the header but the file's length; in shadow chains, how far the kernel reads ahead on its device,
// the mark of the place where the read begins, and that of the place where the chain has last said something at a read of the
// thread. Fields have lower numbers than all of these.
inline constexpr std::uint16_t kFileSizeField = 0xffff, kReadAheadField = 0xfffe, kMarkField = 0xfffd, kLastMarkField = 0xfffc;
// A header's field of this name is how long the file has to be.
inline constexpr std::string_view kFileSizeName = "file_size";
struct HeaderArg { std::uint16_t slot, file, field; };

struct Step { std::string name; std::uint16_t program; };

enum class ChainMode : std::uint8_t { call, on_read, on_open, on_ready, on_probe };
struct Chain {
    std::string name;
    ChainMode mode = ChainMode::call;
    std::uint16_t source = 0;        // on_*: file class, socket or probe
    std::int32_t priority_class = -1;
    std::vector<Param> params;
    std::vector<HeaderArg> header_args;
    std::uint16_t arg_slots = 0;
    ResultKind result = ResultKind::none;   // none: emitted bytes
    std::uint8_t result_bits = 64;
    bool result_signed = false;
    std::uint32_t result_max = 0;
    std::uint32_t hops = 0;          // reads one run may do
    std::uint32_t state_bytes = 0;
    std::vector<std::uint8_t> initial_state;
    std::int32_t entry = -1, done = -1, shadow = -1;  // program indices
    std::vector<Step> steps;
};

struct FileClass {
    std::string name, pattern, root;
    std::string index;           // the file that a path of a folder below the root means; empty: none
    bool direct = false, immutable = false;
    bool no_read_ahead = false;  // the kernel is to read what a program asks for, and no more
    std::uint64_t cache_bytes = 0;
    std::uint32_t cache_levels = 0;
    std::int32_t header_program = -1;
    std::uint32_t header_bytes = 0;  // how much of the file the header program wants
    std::vector<std::string> header_fields;
};
struct Socket { std::string name; bool tcp = true; std::uint16_t port = 0; };
struct Slo { std::uint32_t percentile_x1000 = 0; std::uint64_t ns = 0; };  // p99 is 99000
struct PriorityClass { std::string name; std::uint32_t priority = 0, weight = 1; std::vector<Slo> slos; };
struct Batch { std::uint32_t min = 1, max = 64; bool adapt = false; };
struct Endpoint { bool tcp = false; std::uint16_t port = 0; std::string via; };
inline constexpr std::uint32_t kLongestDatagram = 9216;  // of a request, in bytes: a jumbo frame's
// What the driver keeps of a service's replies by `udp … via xdp`.
inline constexpr std::uint32_t kMostKeptRequest = 256, kKeptFixed = 64, kMostKeptHead = 32, kHeadConstant = 256;
struct ServiceCache {
    std::uint32_t entries = 0;
    std::uint64_t ttl_ns = 0;
    std::vector<std::uint8_t> compared;  // of each of a request's first bytes: 0 where replies do not depend on it; behind them all count
    std::vector<std::uint16_t> head;     // of each byte that a datagram begins with: the request's byte that it repeats, or kHeadConstant + byte
};
// Where a request ends in a stream: behind `bytes` bytes (or as many as `length` replies, a handler program that ends with short_read
// while those that say so have not come) and, when `end` is not empty, its first occurrence from there on. None: nothing shows it.
struct Framing { std::uint32_t bytes = 0; std::string end; std::int32_t length = -1; };
struct Service {
    std::string name;
    std::vector<Endpoint> endpoints;
    std::int32_t priority_class = -1;
    ServiceCache cache;
    Framing tcp_framing;
    Framing udp_framing;  // behind `bytes` bytes, a datagram's requests follow one another, each with its end; no end: it is one
    std::int32_t on_request_udp = -1, on_request_tcp = -1, on_malformed = -1, on_failure = -1;  // handler programs
    std::int32_t on_datagram = -1;        // the begin of each datagram of a reply; block_offset: its number, block_tag: how many there are
};
struct ProbeArg { std::string name; std::uint8_t bits = 64; bool is_signed = false, cstr = false; std::uint32_t max = 0; };  // max: bytes of a cstr
struct Probe { std::string name, kind, site; std::vector<ProbeArg> args; };

struct Module {
    std::string app;
    std::vector<std::string> match_exe;
    std::vector<FileClass> files;
    std::vector<Socket> sockets;
    std::vector<PriorityClass> classes;
    Batch batch;
    std::vector<Program> programs;
    std::vector<Chain> chains;
    std::vector<Service> services;
    std::vector<Probe> probes;
    std::vector<std::string> reasons;   // user outcomes: reasons[i] is outcome CIO_USER + i
    std::vector<std::uint8_t> literals; // Space::literal
    std::vector<std::string> sources;   // names of the canonical texts that Line::file indexes
};

}  // namespace chainio::ir
