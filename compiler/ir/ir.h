// Chain IR: what every engine runs. A program is a tree of structured statements over 64-bit virtual registers.
// Registers hold raw 64-bit values; signedness, width and byte order are in the operations. Arithmetic wraps.
// Invariants (checked by validate()): every block access is dominated by a CheckRange that covers it, or is proven in
// range by constants; every Loop has a constant bound; every register is written before it is read.
#pragma once
#include <cstdint>
#include <string>
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

enum class Space : std::uint8_t { block, args, state, literal };  // as cio_space

struct Slice {  // bytes of a space
    Space space = Space::block;
    Operand offset, length;
    bool operator==(const Slice&) const = default;
};

enum class UnOp : std::uint8_t { neg, bit_not, logical_not, sext8, sext16, sext32, zext8, zext16, zext32, bswap16, bswap32, bswap64 };
// Division and modulo are unsigned; the lowering puts a Check for zero before them. Shift counts are taken modulo 64.
enum class BinOp : std::uint8_t { add, sub, mul, udiv, umod, bit_and, bit_or, bit_xor, shl, lshr, ashr, eq, ne, ult, ule, slt, sle, umin, umax };
enum class VarintKind : std::uint8_t { leb128, zigzag, sqlite };
enum class HashAlgo : std::uint8_t { crc32c, xxh64, fnv1a };
enum class Input : std::uint8_t { block_offset, block_length, block_tag, out_length };
enum class ResultKind : std::uint8_t { none, scalar, slice };  // as cio_result_kind
enum class PrefetchKind : std::uint8_t { same, sibling, path, chain };

struct Stmt;
using Body = std::vector<Stmt>;

struct Move { Reg dst; Operand src; };
struct Unary { Reg dst; UnOp op; Operand a; };
struct Binary { Reg dst; BinOp op; Operand a, b; };
struct GetInput { Reg dst; Input input; };
struct GetArg { Reg dst; std::uint16_t index; };             // cio_io.args[index]
// dst = `width` bytes (1..8) at `offset`, sign-extended when `is_signed`. In range by the invariant above.
struct Load { Reg dst; Space space; Operand offset; std::uint8_t width; bool big_endian, is_signed; };
struct StoreState { Operand offset; std::uint8_t width; Operand src; };  // little-endian; offset is a constant slot
// Fails with `outcome` when cond is zero.
struct Check { Operand cond; std::uint32_t outcome; };
// Fails with `outcome` unless offset + length <= the size of the space, computed without wrapping.
struct CheckRange { Space space; Operand offset, length; std::uint32_t outcome; };
// Reads a varint at `offset`, at most `limit` (exclusive end) into the space; fails with `outcome` when it does not end.
struct Varint { Reg value, length; VarintKind kind; Space space; Operand offset, limit; std::uint32_t outcome; };
struct IntOfBytes { Reg dst; Slice bytes; bool big_endian, is_signed; };  // length 0..8, checked before; 0 bytes are 0
struct Compare { Reg dst; Slice a, b; std::uint32_t max; };   // memcmp order, then length: -1 (as u64), 0 or 1; `max` bounds both lengths
struct Hash { Reg dst; HashAlgo algo; Slice bytes; Operand seed; std::uint32_t max; };
struct FindByte { Reg dst; Slice bytes; Operand byte; std::uint32_t max; };  // index of the first such byte, or the length
struct ParseDecimal { Reg dst; Slice bytes; std::uint32_t outcome; };       // 1..20 ASCII digits that fit 64 bits, else fails
// state[dst_offset ..] = bytes; the lowering has checked that they fit. `max` bounds the length.
struct CopyToState { Operand dst_offset; Slice src; std::uint32_t max; };
struct EmitInt { Operand value; std::uint8_t width; };        // little-endian; fails CIO_OVERFLOW past the out area
struct EmitBytes { Slice bytes; std::uint32_t max; };
struct Next { std::uint16_t step, file; Operand offset, length, tag; };     // fails CIO_FANOUT past 16, CIO_MALFORMED on a length of 0 or > 64 KiB
struct Return { ResultKind kind; Operand scalar; Slice slice; };            // ends the chain
struct Fail { std::uint32_t outcome; };                       // ends the chain
struct End {};                                                // ends the step (the tail of `goto`)
struct Prefetch { PrefetchKind kind; std::uint32_t target; Slice name; Operand offset, length; std::vector<Operand> args; };
// Service handlers only: runs a chain; ok is 1 or 0; a scalar result in `scalar`, a bytes result as slice `result` (an index
// into the handler's results).
struct CallChain { Reg ok, scalar; std::uint16_t chain, result; std::vector<Operand> args; std::vector<Slice> bytes_args; };
enum class Format : std::uint8_t { bytes, dec, hex, u8, u16le, u16be, u32le, u32be, u64le, u64be };
struct ReplyPart { Format format; Operand value; Slice bytes; bool from_result = false; std::uint16_t result = 0; };
struct Reply { std::vector<ReplyPart> parts; };
struct If { Operand cond; Body yes, no; };
// for (counter = 0; counter < count && counter < max; counter++) body. A count above max fails with `outcome` first.
struct Loop { Reg counter; Operand count; std::uint32_t max; std::uint32_t outcome; Body body; };
struct Break {};
struct Continue {};

struct Line {  // of the canonical form
    std::uint16_t file = 0;  // index into Program::files' owner, the module's source list
    std::uint32_t line = 0;
};

struct Stmt {
    Line line;
    std::variant<Move, Unary, Binary, GetInput, GetArg, Load, StoreState, Check, CheckRange, Varint, IntOfBytes, Compare, Hash, FindByte,
                 ParseDecimal, CopyToState, EmitInt, EmitBytes, Next, Return, Fail, End, Prefetch, CallChain, Reply, If, Loop, Break,
                 Continue>
        node;
};

enum class ProgramKind : std::uint8_t {
    entry,    // no block: queues the first read(s) of a chain
    step,     // one block of a chain
    done,     // no block: after the last read, when the chain declares `done`
    header,   // the first bytes of a file: emits the header record's scalar fields as 8-byte integers
    shadow,   // a block that an unmodified program read: fills the prefetch list
    handler,  // a service's request: not lowered to C; kept in the configuration
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
    bool direct = false, immutable = false;
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
struct ServiceCache { std::uint32_t entries = 0; std::uint64_t ttl_ns = 0; };
struct Service {
    std::string name;
    std::vector<Endpoint> endpoints;
    std::int32_t priority_class = -1;
    ServiceCache cache;
    std::int32_t on_request_udp = -1, on_request_tcp = -1, on_malformed = -1;  // handler programs
};
struct ProbeArg { std::string name; std::uint8_t bits = 64; bool is_signed = false, cstr = false; };
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
