// The checked AST: what semantic analysis makes of the syntax trees and lowering reads. Every name is an index, imports
// are instantiated, constants folded, functions expanded, sugar gone, and every expression has a type. A checked module
// has no error left that a user could make; lowering asserts instead of reporting.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/diag/span.h"
#include "compiler/ir/ir.h"

namespace chainio::checked {

// ---- types ----
enum class TypeKind : std::uint8_t {
    none,
    integer,  // bits (8..64) and is_signed; a value is always widened to 64 bits by that rule
    boolean,
    bytes,  // a run of bytes of a block, an argument, the state or a literal; at most `max` long
    view,   // a record at an offset of the block
    array,  // elements of type `element`, at most `max` of them
    text,   // the captures of a matched text rule
};
struct Type {
    TypeKind kind = TypeKind::none;
    std::uint8_t bits = 64;
    bool is_signed = false;
    std::uint32_t max = 0;
    std::uint32_t record = 0;  // view: record index; text: text rule index
    bool optional = false;     // may be absent: only `let … else`, `when` take such a value
    std::shared_ptr<const Type> element = nullptr;
    bool one_by_one = false;  // array: repetitions of a text rule, each of which says where the next one begins
};

// ---- expressions ----
// One node type; what the members mean depends on `kind` and is said beside it. "k0" is kids[0].
enum class ExprKind : std::uint8_t {
    int_const,     // value
    bool_const,    // value 0 or 1
    bytes_const,   // bytes
    local,         // index into Body::locals; any type
    param,         // index into Chain::params; integer or bytes
    header_field,  // field `index2` (data or derived, integer) of the header record of file parameter `index`;
                   // index2 == ir::kFileSizeField: `db.file_size`; kReadAheadField: `r.file.read_ahead`, kMarkField:
                   // `r.mark`, kLastMarkField: `r.last_mark`
    state,         // index into Chain::state; integer or bytes
    block_offset,  // bytes into the file
    block_length,
    block_tag,
    block_bytes,    // the whole block as bytes
    view,           // record type.record at byte k0 of the block
    field,          // field `index` of the view k0: integer, bytes, array, view; a derived field too
    bit_field,      // bits [index .. index + index2) (from the least significant) of the integer k0
    view_offset,    // the view k0's offset in the block
    view_end,       // one past the last byte of the view k0
    element,        // element k1 of array k0; k1 is checked against the length: else malformed
    array_slice,    // elements k1..k2 of array k0, checked (low <= high <= length, else malformed)
    array_length,   // of k0
    bytes_records,  // the records (type.element: view) that follow one another in the bytes k0; at most type.max; for
                    // loops and pipelines only
    bytes_split,    // the pieces (type.element: bytes) of the bytes k0 between the bytes `index`; at most type.max;
                    // likewise
    pipeline,       // array k0 with `filters`; only below aggregate, For and Project
    search,     // index = Search, k0 array, k1 key, `body` the key of an element (absent: the element itself); find:
                // optional
    aggregate,  // index = Aggregate over k0 (array or pipeline); `body` for sum, min, max; min and max: optional
    unary,      // index = Unary, k0
    binary,  // index = Binary, k0, k1; integers of the same signedness, booleans for and/or (short circuit, any number
             // of kids from two on), bytes for comparisons
    cond,    // k0 ? k1 : k2, only the taken side is evaluated
    cast,    // k0 to `type`: truncated or extended by k0's signedness
    let_in,  // the first of `locals` = k0, the next = k1 and so on, in the last kid (an expanded function)
    bytes_slice,       // bytes k0 [k1..k2], checked (else malformed)
    bytes_length,      // of k0
    bytes_offset,      // where in the block the bytes k0, which are part of it, begin
    byte_at,           // byte k1 of bytes k0, checked
    int_of_bytes,      // k0, 0..8 bytes (longer: malformed); value bit 0: big-endian, bit 1: signed
    decimal_of_bytes,  // k0: ASCII digits, else malformed
    bytes_find,        // index of the first byte k1 in bytes k0: optional
    number_bytes,      // the first type.max bytes of the integer state `index`, as it lies there: little-endian
    hash,              // index = ir::HashAlgo of bytes k0, seed k1
    text_match,        // text rule type.record on bytes k0: optional text
    capture,           // capture `index` of text k0: bytes, integer, or an array of bytes
    call_chain,  // service handlers: chain `index` with kids as arguments; optional; a file argument is a file_ref
    file_ref,    // arguments of call_chain: a file of class `index`, whose path below the class's root is the bytes k0
};
enum class Search : std::uint8_t { lower_bound, upper_bound, find };
enum class Aggregate : std::uint8_t { sum, count, min, max };
enum class Unary : std::uint8_t { negate, logical_not, bit_not };
enum class Binary : std::uint8_t {
    mul,
    div,
    mod,
    add,
    sub,
    shl,
    shr,
    bit_and,
    bit_xor,
    bit_or,
    lt,
    le,
    gt,
    ge,
    eq,
    ne,
    logical_and,
    logical_or
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Lambda {  // |local| body
    std::uint32_t local = 0;
    ExprPtr body;
    bool given = false;  // of a function: the variables that it names are arguments, which have one value for good
};
struct Expr {
    ExprKind kind;
    Type type;
    Span span;
    std::vector<ExprPtr> kids;
    std::uint64_t value = 0;
    std::uint32_t index = 0, index2 = 0;
    bool closes = false;  // of a call_chain: see ir::CallChain
    std::string bytes;
    std::vector<std::uint32_t> locals;  // of a let_in
    std::optional<Lambda> body;
    std::vector<Lambda> filters;
};

// ---- records and text rules ----
struct Field {
    enum class Kind : std::uint8_t {
        integer,  // width bytes, byte order, signedness
        varint,   // `varint`
        bytes,    // `length` bytes
        cstr,     // up to and without the byte `stop`, at most `max` bytes, the byte is skipped
        record,   // nested record `record`
        array,    // `count` elements of `element` (integer of fixed width, or a record of fixed size); at most `max`
        padding,  // `length` bytes, or up to `at` (is_gap)
        derived,  // takes no bytes: `value`
    };
    std::string name;  // empty for padding
    Span span;
    Kind kind = Kind::integer;
    Type type;               // of the value
    std::uint8_t width = 0;  // integer, or element width of an integer array
    bool big_endian = false, is_signed = false;
    ir::VarintKind varint = ir::VarintKind::leb128;
    std::uint32_t record = 0;  // record, array of records
    std::uint32_t max = 0;
    std::uint8_t stop = 0;  // of a cstr
    ExprPtr at;             // offset from the record's start; absent: after the field before
    bool compared = false;  // of `_: at N` with a constant N: the field before it may reach further, which is malformed
    ExprPtr length;         // bytes, padding
    ExprPtr count;          // array
    ExprPtr when;    // the field exists only when this holds; reading it otherwise is malformed; it then takes no bytes
    ExprPtr equals;  // checked when a view of the record is made: else malformed
    std::vector<std::uint64_t> choices;  // `in { … }`: checked likewise; empty: any value
    ExprPtr value;                       // derived
    std::int64_t fixed_offset = -1;      // when known at compile time
    std::int64_t fixed_size = -1;
};
// Whether it is `_: at N`, which has no bytes of its own: padding with a type has them, at a place of its own or not.
inline bool is_gap(const Field& field) { return field.kind == Field::Kind::padding && !field.length; }
// The expressions inside a record use local 0 of `locals` as the view of the record itself (ExprKind::field on it).
struct Local {
    std::string name;
    Type type;
    bool is_mutable = false;
};
struct Record {
    std::string name;
    std::vector<Field> fields;
    std::vector<Local> locals;
    std::int64_t fixed_size = -1;
};
// How many bytes from its start on every view of the record has.
inline std::uint64_t fixed_prefix(const Record& record) {
    std::int64_t prefix = std::max<std::int64_t>(record.fixed_size, 0);
    for (const Field& f : record.fields) {
        if (f.kind == Field::Kind::derived || f.kind == Field::Kind::padding) continue;
        if (!f.when && f.fixed_offset >= 0 && f.fixed_size >= 0)
            prefix = std::max(prefix, f.fixed_offset + f.fixed_size);
    }
    return static_cast<std::uint64_t>(prefix);
}
struct TextItem {
    enum class Kind : std::uint8_t { literal, token, word, integer, rest, choice } kind;
    std::string name;                   // captures
    std::vector<std::string> literals;  // literal: one; choice: several (the capture is the bytes matched)
    std::uint32_t max = 0;              // token, word, rest: longest
    std::uint32_t repeat_min = 1, repeat_max = 1;
    std::string separator;      // when repeat_max > 1
    std::int32_t capture = -1;  // number of the capture
};
struct TextRule {
    std::string name;
    std::vector<TextItem> items;
    std::vector<Type> captures;
    std::vector<std::string> capture_names;
};

// ---- statements ----
enum class StmtKind : std::uint8_t {
    let,  // local `index` = value; with `otherwise`: value is optional, and absent runs it (it does not fall through)
    assign,          // local `index` = value (mutable)
    assign_state,    // state `index` = value: integer, or bytes (too long: overflow)
    append_state,    // bytes state `index` += value bytes (too long: overflow)
    truncate_state,  // bytes state `index` shortened to value (longer than it is: malformed)
    if_,             // value, body, otherwise
    when,            // value boolean, or optional bound to local `index` inside body (index2 = 1)
    for_,  // local `index` over the array or pipeline `value` (at most `max`), or over the integers value..value2 (more
           // than max: malformed)
    next,  // read for step `index`, file parameter `index2`: at value, for value2, tag value3 (may be absent); ends:
           // goto
    return_,   // value may be absent
    emit,      // values
    fail,      // outcome `index`
    prefetch,  // `prefetch_kind`, target class `index`, value = at, value2 = length (absent: whole file), value3 = path
               // bytes; bytes = sibling suffix
               // `prefetch_kind` mark: the place value (absent: the file) is marked with value2
    prefetch_via,  // chain `index` with values; `prefetch_kind` mark_via: the place value is marked with its result
    reply,         // parts
    skip,          // value: how many bytes behind the request are no requests
    break_,
    continue_,
};
struct ReplyPart {
    ExprPtr value;
    ir::Format format = ir::Format::bytes;
};
struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Block = std::vector<StmtPtr>;
struct Stmt {
    StmtKind kind;
    Span span;
    ir::Line line;  // of the canonical form
    std::uint32_t index = 0, index2 = 0, max = 0;
    bool ends = false;
    ExprPtr value, value2, value3;
    std::vector<ExprPtr> values;
    Block body, otherwise;
    ir::PrefetchKind prefetch_kind = ir::PrefetchKind::same;
    std::string bytes;
    std::vector<ReplyPart> parts;
};

struct Body {  // of a step, a `done` block, a shadow chain or a handler
    std::vector<Local> locals;
    Block block;
};

// ---- declarations ----
struct StateVar {
    std::string name;
    Type type;             // integer or bytes(max)
    ExprPtr initial;       // constant or an expression over the parameters; absent: zero, empty
    bool scratch = false;  // a `var` of type bytes inside a step: cleared when the step starts
};
struct Step {
    std::string name;
    Span span;
    ir::Line line;
    std::uint32_t view_local = 0;  // the local that holds the view, or the block as bytes
    std::optional<std::uint32_t> record;
    ExprPtr from;            // where in the block the view begins; absent: 0
    ExprPtr at, length;      // defaults; the first step has both
    std::uint32_t file = 0;  // default file parameter
    Body body;
};
struct Param {
    ir::Param::Kind kind;
    std::string name;
    std::uint32_t file_class = 0;
    Type type;  // scalar and bytes
};
struct Chain {
    std::string name;
    Span span;
    ir::Line line;
    ir::ChainMode mode = ir::ChainMode::call;
    std::uint32_t source = 0;
    std::int32_t priority_class = -1;
    std::vector<Param> params;
    Type returns;        // none: nothing
    bool emits = false;  // the result is what `emit` wrote
    bool exact = false;  // a result of bytes is as long as `returns` says
    std::uint32_t hops = 1;
    std::vector<StateVar> state;
    std::vector<Step> steps;  // the first is the entry
    std::optional<Body> done;
    Body shadow;  // shadow chains; local 0 is the event's binding
};
struct FileClass {
    ir::FileClass info;  // header_* left for lowering
    std::int32_t header_record = -1;
    Span header_span;  // where the class names it
};
struct Handler {
    ir::Line line;
    Body body;                         // local 0: the request (a view, or a text value for a text request)
    std::int32_t request_record = -1;  // the request is this record at byte 0 of the datagram or line
};
struct Service {
    std::string name;
    Span span;
    ir::Service info;
    std::optional<Body> udp_key;  // the key of the cache, for what it names: its reply is the key
    std::optional<Handler> udp, tcp, malformed, failure, datagram;
    bool measured = false;  // how many bytes the fields of a request over tcp have is for them to say
};

struct Module {
    std::string app;
    std::vector<std::string> match_exe;
    std::vector<FileClass> files;
    std::vector<ir::Socket> sockets;
    std::vector<ir::PriorityClass> classes;
    ir::Batch batch;
    std::vector<Record> records;
    std::vector<TextRule> texts;
    std::vector<Chain> chains;
    std::vector<Service> services;
    std::vector<ir::Probe> probes;
    std::vector<std::string> reasons;
    std::vector<std::string> sources;
};

}  // namespace chainio::checked
