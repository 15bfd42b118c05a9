// What semantic analysis keeps beside the checked tree: names, their meaning, and facts about values that later stages
// do not need (units, the names of choices, bit fields, where bytes live).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/sema/checked.h"

namespace chainio::sema {

__extension__ typedef __int128
    Wide;  // holds every i64 and every u64, and their sums and products before the range check

// Where the bytes of a value live. A value has one place; an expression that could give bytes of two places is refused,
// because a slice in the IR names its space.
enum class Place : std::uint8_t { none, block, args, state, literal, result };

struct Bit {
    std::string_view name;
    std::uint32_t low = 0, width = 0;
};
struct FieldFacts {
    std::vector<std::pair<std::string_view, Wide>> choices;
    std::vector<std::string> texts;  // the choices of a capture
    std::vector<Bit> bits;
};

struct Value {
    checked::ExprPtr expr;  // null: an error was reported
    ast::Unit unit = ast::Unit::none;
    bool flexible = false;  // an integer constant that takes the signedness of what it meets; signed only when negative
    // An unsigned constant that `~` made, and whose bits become those of a signed integer when it meets one: exact ones
    // above the highest bit cannot be told from a large number.
    bool mask = false;
    Place place = Place::none;
    std::optional<std::uint32_t> exact;  // bytes: the length when it is known
    std::optional<std::uint64_t> most;   // an unsigned integer: what it is at most, where its type says less
    const FieldFacts* facts = nullptr;
    bool chosen = false;  // it is one of the choices among `facts`, whatever the bytes are
    explicit operator bool() const { return expr != nullptr; }
};
// What an integer constant is, whichever its signedness.
Wide exact(const Value&);

enum class SymbolKind : std::uint8_t { constant, files, socket, record, text, fn, chain, service, probe, module };
struct Instance;
struct Symbol {
    SymbolKind kind;
    std::string_view name;
    Span span;
    Instance* owner = nullptr;
    std::uint32_t index = 0;  // into the table of its kind
    bool used = false;
};

enum class Progress : std::uint8_t { open, busy, done };

struct Constant {
    const ast::Name* name = nullptr;
    const ast::Expr* written = nullptr;  // null where the parser has reported it
    Instance* scope = nullptr;
    Progress progress = Progress::open;
    Value value;
    std::vector<std::string_view> defines;  // the parameters given with -D that the value depends on
};

struct FieldInfo {
    ast::Unit unit = ast::Unit::none;
    const FieldFacts* facts = nullptr;
    std::optional<std::uint32_t> exact;
    Place place = Place::none;
    bool chosen = true;
    bool always = false;              // every view of the record has the field
    std::uint32_t levels = 0;         // of expressions, that reading the field goes through
    std::uint32_t levels_to_end = 0;  // likewise, to know where it ends
    void tell(Value&) const;
};
struct RecordInfo {
    const std::vector<ast::Field>* fields = nullptr;         // of a declared record
    const std::vector<const ast::Field*>* picked = nullptr;  // of a request
    Instance* scope = nullptr;
    Progress progress = Progress::open;
    Span span;
    std::vector<FieldInfo> infos;
    std::unordered_map<std::string_view, std::uint32_t> by_name;
    bool failed = false;       // some field is wrong: unknown fields are not reported again
    std::uint32_t levels = 0;  // the most of its fields
};
struct FnInfo {
    const ast::Fn* fn = nullptr;
    Instance* scope = nullptr;
    bool active = false;
    bool called = false;
};
struct TextInfo {
    const ast::TextRule* rule = nullptr;
    Instance* scope = nullptr;
};
struct ChainInfo {
    const ast::Chain* chain = nullptr;
    Instance* scope = nullptr;
    bool failed = false;  // the signature is wrong
    bool exact = false;   // the result is bytes(N), not bytes(max N)
};
struct Choice {  // a name that some record's `in { … }` gives to a value
    std::string_view record;
    Instance* owner = nullptr;
    Wide number = 0;                        // of a literal
    std::optional<std::uint32_t> constant;  // of any other value: it is evaluated when it is wanted
};

struct ClassName {
    std::uint32_t index = 0;
    Instance* owner = nullptr;
};

// One file with one set of parameters.
struct Instance {
    const ast::File* file = nullptr;
    std::string name;    // canonical name of the file
    std::string prefix;  // "bt." in front of the names of its chains
    std::uint16_t source = 0;
    Instance* importer = nullptr;
    const ast::Import* import = nullptr;  // of the importer
    // The import of the file that is compiled by which this one has come in; null for that file itself.
    const ast::Import* root_import() const;
    bool is_broken(std::string_view word) const;
    bool serves = false;      // it has what needs no name, as `match exe`, or a name without a symbol is used
    bool incomplete = false;  // an import is missing: names that are not found are not reported
    std::unordered_map<std::string_view, Symbol*> names;
    std::unordered_map<std::string_view, ClassName> classes;            // priority classes
    std::unordered_map<std::string_view, std::vector<Choice>> choices;  // more than one: perhaps ambiguous
    struct Given {
        std::optional<Value> value;
        std::optional<std::uint32_t> files;
        std::optional<std::string> pattern;  // -D for a file class
        Span span;
        std::vector<std::string_view> defines;  // given with -D, that the value depends on
        bool wrong = false;                     // what was given is not known, and that is reported
        bool used = false;
    };
    std::map<std::string, Given, std::less<>> given;
};

// Whether two expressions are written alike and mean the same where nothing changes between them. What holds functions
// is never said to be. `of_two_imports` of one file: their records have numbers of their own.
bool same(const checked::Expr& a, const checked::Expr& b, bool of_two_imports = false);

// A name that is visible inside a chain, a record, a function or a lambda.
struct Binding {
    enum class Kind : std::uint8_t { error, value, file, event, event_file, request, datagram };
    Kind kind = Kind::error;
    std::string_view name;
    Span span;
    Value value;                         // cloned at each use
    std::uint32_t index = 0;             // file: the parameter
    std::optional<std::uint32_t> local;  // assignable local
    std::optional<std::uint32_t> state;  // assignable state variable
    int unused_code = 0;                 // the warning when nothing uses it
    bool used = false;
    bool has_else = false;       // which may be all that its `let` is for
    std::int32_t previous = -1;  // the binding of the same name that this one hides
};

// Where an expression or a statement stands.
enum class Site : std::uint8_t { constant, record, signature, step, done, shadow, handler };

// Whether an argument is a value alone: not `max N`, not a lambda, and no key behind it.
inline bool is_plain(const ast::Arg& arg) { return arg.value && !arg.is_max && !arg.by && !arg.lambda; }

checked::ExprPtr clone(const checked::Expr&);
Value clone(const Value&);
std::string type_name(const checked::Type&);

struct Scalar {
    std::uint8_t bits = 64;
    bool is_signed = false;
    enum class Order : std::uint8_t { none, little, big } order = Order::none;
};
std::optional<Scalar> parse_scalar(std::string_view name);
std::optional<std::string> foreign_word_hint(const std::string& name);

}  // namespace chainio::sema
