// The syntax tree of one source text, as written: no name is resolved and nothing is desugared here.
// Both front ends (the .chain grammar and the YAML form) build it; nothing after it knows which of the two was read.
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/diag/span.h"

namespace chainio::ast {

struct Name {
    std::string text;
    Span span;
};
struct QualifiedName {  // `name` or `module.name`
    Name module;        // empty text when there is none
    Name name;
};

// Among lines of comments, none of which can hold it: an empty line.
inline constexpr std::string_view empty_line = "\n";

struct Comments {  // kept for --fmt; without the leading '#'
    std::vector<std::string> leading;
    std::string trailing;
    bool blank_before = false;  // an empty line stood before it; kept by --fmt
};

// ---- expressions ----
struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class UnaryOp { negate, logical_not, bit_not };
enum class BinaryOp {
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
enum class Unit { none, bytes, time };  // sizes are in bytes, times in nanoseconds

struct IntLit {
    std::uint64_t value = 0;
    Unit unit = Unit::none;
    std::string spelling;  // as written, for --fmt: `64KiB`, `0x10`
};
struct StringLit {
    std::string value;  // escapes resolved: \n \r \t \0 \\ \" \xHH
};
struct BoolLit {
    bool value = false;
};
struct BlockLit {};  // `block`: the bytes of the step's read
struct NameRef {
    Name
        name;  // empty text: could not be read, the error is reported already and nothing about it should be said again
};
struct Lambda {
    Name param;
    ExprPtr body;
};
struct Arg {                       // one of: value [by lambda | by expr], max value, lambda
    ExprPtr value;                 // absent for a lambda argument
    bool is_max = false;           // `max value`
    std::optional<Lambda> lambda;  // the argument itself when `value` is absent, else what follows `by`
    ExprPtr by;                    // `by Record.field`
};
struct Call {          // name(args) or receiver.name(args)
    ExprPtr receiver;  // absent for a plain call
    Name callee;
    std::vector<Arg> args;
};
struct FieldAccess {
    ExprPtr base;
    Name field;
};
struct Index {
    ExprPtr base;
    ExprPtr index;
};
struct Slice {
    ExprPtr base;
    ExprPtr low;   // absent: from the start
    ExprPtr high;  // absent: to the end
};
struct Unary {
    UnaryOp op;
    ExprPtr operand;
};
struct Binary {
    BinaryOp op;
    Span op_span;
    ExprPtr left, right;
};
struct Cond {
    ExprPtr condition, yes, no;
};
struct InSet {
    ExprPtr value;
    std::vector<ExprPtr> choices;
};
struct Cast {
    ExprPtr value;
    Name type;
};

struct Expr {
    Span span;
    std::variant<IntLit, StringLit, BoolLit, BlockLit, NameRef, Call, FieldAccess, Index, Slice, Unary, Binary, Cond,
                 InSet, Cast>
        node;
    bool parenthesised = false;  // written in parentheses; kept so that --fmt does not drop them
};

// ---- types ----
struct BytesType {
    bool is_max = false;  // bytes(max N) against bytes(N)
    ExprPtr length;
};
struct CstrType {
    ExprPtr max;
    ExprPtr stop;  // the byte behind it; absent: a NUL
};
struct BitField {
    Name name;  // "_" is padding
    ExprPtr width;
};
struct BitsType {
    Name base;
    std::vector<BitField> fields;
};
struct NamedType {       // a scalar (u16le), a varint, a record or a text rule
    QualifiedName name;  // empty text: could not be read, as with NameRef
};
using BaseType = std::variant<BytesType, CstrType, BitsType, NamedType>;
struct Type {
    Span span;
    BaseType base;
    ExprPtr count;  // array length; absent: not an array
    ExprPtr max;    // the array's bound, when given
};

// ---- records and text rules ----
struct EnumItem {
    ExprPtr value;
    Name name;
};
struct Field {
    Span span;
    Comments comments;
    enum class Kind { data, derived, skip } kind = Kind::data;
    Name name;   // "_" is padding; empty for skip
    Type type;   // data only
    ExprPtr at;  // `at`: data and skip
    ExprPtr when;
    ExprPtr equals;
    std::vector<EnumItem> choices;
    ExprPtr value;  // derived only
};
struct Record {
    Name name;
    std::vector<Field> fields;
    std::vector<std::string> closing_comments;
};
struct TextItem {
    Span span;
    enum class Kind { literal, capture, choice } kind = Kind::literal;
    std::string literal;              // literal
    Name name;                        // capture and choice
    Name rule;                        // capture: token, int, word, rest
    ExprPtr max;                      // capture
    ExprPtr repeat_low, repeat_high;  // capture, when repeated
    std::string separator;
    std::vector<std::string> choices;  // choice
};
struct TextRule {
    Name name;
    std::vector<TextItem> items;
    Comments comments;  // of a rule inside a service; elsewhere its Item has them
};

// ---- statements ----
struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
struct Block {
    Span span;
    std::vector<StmtPtr> stmts;
    std::vector<std::string> closing_comments;  // comments before the closing brace
};

struct Let {
    Name name;
    ExprPtr value;
    StmtPtr otherwise;                     // `else STMT`: one simple statement
    std::optional<Block> otherwise_block;  // `else { … }`; at most one of the two is present
};
struct Var {
    Name name;
    std::optional<Type> type;
    ExprPtr value;
};
struct Assign {
    Name name;
    ExprPtr value;
};
struct If {
    ExprPtr condition;
    Block yes;
    std::optional<Block> no;  // `else if` is a block that holds one If and has else_if set
    bool else_if = false;
};
struct When {
    ExprPtr condition;
    std::optional<Name> bind;
    Block body;
};
struct MatchArm {
    Span span;
    Comments comments;
    std::vector<ExprPtr> patterns;
    Block body;
};
struct Match {
    ExprPtr value;
    std::vector<MatchArm> arms;
    std::optional<Block> otherwise;
};
struct For {
    Name name;
    ExprPtr range;  // an array, or a Slice with no base is written `lo..hi` inside brackets of an array
    ExprPtr max;
    Block body;
};
struct Goto {
    bool ends_step = true;  // `goto`; false is `next`, which queues one more read and carries on
    Name step;
    ExprPtr at;
    ExprPtr length;
    std::optional<Name> file;
    ExprPtr tag;
};
struct Return {
    ExprPtr value;
};
struct Emit {
    std::vector<ExprPtr> values;
};
struct Fail {
    Name reason;
};
struct PrefetchVia {
    ExprPtr call;
};
struct Prefetch {
    ExprPtr target;
    ExprPtr at, length;  // both or neither
};
struct Mark {
    ExprPtr target, at;   // without a place: all that have no mark of their own
    ExprPtr value, call;  // one of them
};
struct ReplyPart {
    ExprPtr value;
    std::optional<Name> format;  // dec, hex, u32be …
};
struct Reply {
    std::vector<ReplyPart> parts;
};
struct Skip {
    ExprPtr bytes;
};
struct Break {};
struct Continue {};
struct CallStmt {
    ExprPtr call;
};

struct Stmt {
    Span span;
    Comments comments;
    std::uint32_t canonical_line = 0;  // set by the printer: the line in the canonical form
    std::variant<Let, Var, Assign, If, When, Match, For, Goto, Return, Emit, Fail, PrefetchVia, Prefetch, Mark, Reply,
                 Skip, Break, Continue, CallStmt>
        node;
};
// Those that hold other ones, or declare a name; what is not named here is a `leaf` of the grammar.
template <typename Node>
concept Compound = std::same_as<Node, Let> || std::same_as<Node, Var> || std::same_as<Node, If> ||
                   std::same_as<Node, When> || std::same_as<Node, Match> || std::same_as<Node, For>;

// ---- declarations ----
struct Binding {
    Name name;
    ExprPtr value;
};
struct Import {
    std::string path;
    Span path_span;
    std::optional<Name> alias;
    std::vector<Binding> bindings;
};
struct FileClass {
    Name name;
    std::string pattern;
    Span pattern_span;
    bool direct = false, immutable = false, no_read_ahead = false;
    std::optional<Name> header;
    std::optional<std::string> root;
    ExprPtr index, cache_bytes, cache_levels;
};
struct Param {  // exactly one of the two
    std::optional<FileClass> files;
    Binding constant;
};
struct Const {
    Binding binding;
};
struct MatchExe {
    std::string pattern;
    Span span;
};
struct Socket {
    Name name;
    bool tcp = true;
    ExprPtr port;
};
struct ClassAttr {
    enum class Kind { priority, weight, slo } kind;
    Name percentile;  // slo only: p50, p99, p999 …
    ExprPtr value;
};
struct PriorityClass {
    Name name;
    std::vector<ClassAttr> attrs;
};
struct Batch {
    Span span;
    ExprPtr min, max;
    bool adapt = false;
};
struct AppItem {
    Span span;
    Comments comments;
    std::variant<MatchExe, FileClass, Socket, PriorityClass, Batch> node;
};
struct App {
    Name name;
    std::vector<AppItem> items;
    std::vector<std::string> closing_comments;
};
struct Fn {
    Name name;
    std::vector<Name> params;
    std::vector<Binding> lets;
    ExprPtr body;
    bool braces = false;
};
struct ChainParam {
    Name name;
    std::optional<QualifiedName> file;  // `file CLASS`
    Type type;                          // otherwise
};
struct StateVar {
    Span span;
    Comments comments;
    Name name;
    Type type;
    ExprPtr value;
};
struct Step {
    Span span;
    Comments comments;
    std::uint32_t canonical_line = 0;
    Name name;
    Name param;
    std::optional<QualifiedName> record;  // absent: `block`
    ExprPtr from, at, length;
    std::optional<Name> file;
    Block body;
};
enum class EventKind { read, open, ready, probe };
struct Event {
    EventKind kind;
    QualifiedName source;
    Name bind;
};
struct Chain {
    std::uint32_t canonical_line = 0;
    Name name;
    std::vector<ChainParam> params;
    std::optional<Event> event;  // present: a shadow chain
    std::optional<Name> priority_class;
    std::optional<Type> returns;
    ExprPtr hops;
    std::vector<StateVar> state;
    std::vector<Step> steps;
    bool steps_unread = false;  // what stands for them is no list, and that is reported
    std::optional<Block> done;
    Comments done_comments;
    Block body;  // shadow chains
};
struct Endpoint {
    Span span;
    bool tcp = false;
    ExprPtr port;
    Name via;
};
struct Request {
    Span span;
    Comments comments;
    enum class Transport { any, udp, tcp } transport = Transport::any;
    std::vector<Field> fields;
};
struct Cache {
    Span span;
    Comments comments;
    ExprPtr entries, ttl, key;
};
struct Handler {
    Span span;
    Comments comments;
    std::uint32_t canonical_line = 0;
    enum class Event { request, malformed, failure, datagram } event = Event::request;
    Block body;
};
constexpr const char* event_word(Handler::Event event) {
    switch (event) {
        case Handler::Event::malformed: return "malformed";
        case Handler::Event::failure: return "failure";
        case Handler::Event::datagram: return "datagram";
        case Handler::Event::request: break;
    }
    return "request";
}
struct Service {
    Name name;
    std::vector<Endpoint> endpoints;
    std::optional<Name> priority_class;
    std::vector<Request> requests;
    std::vector<TextRule> texts;
    std::optional<Cache> cache;
    std::vector<Handler> handlers;
    std::vector<std::string> closing_comments;
};
struct Probe {
    Name name;
    Name kind;  // usdt, uprobe, syscall
    std::string site;
    Span site_span;
    std::vector<std::pair<Name, Type>> args;
};

struct Item {
    Span span;
    Comments comments;
    bool blank_before = false;  // an empty line stood before it; kept by --fmt
    std::variant<Import, Param, Const, App, AppItem, Record, TextRule, Fn, Chain, Service, Probe> node;
};

struct File {
    FileId id = 0;
    std::vector<Item> items;
    std::vector<std::string> closing_comments;
    std::vector<std::string> broken_names;  // declared in text that was not read, or not all: no error is due to them
};

}  // namespace chainio::ast
