// The checker: one object for one compilation. Its members are implemented by subject, one file each.
#pragma once
#include <deque>
#include <set>

#include "compiler/sema/check.h"
#include "compiler/sema/codes.h"
#include "compiler/sema/internal.h"

namespace chainio::sema {

inline constexpr std::uint64_t kMaxBlock = 65536;
inline constexpr std::uint32_t kMaxHops = 65536;
inline constexpr std::uint32_t kMaxLoop = 65536;
inline constexpr std::uint32_t kMaxImplicitLoop = 4096;
inline constexpr std::uint32_t kMaxState = 4096;
inline constexpr std::uint32_t kMaxArgSlots = 32;
inline constexpr std::uint32_t kMaxArgBytes = 4096;
inline constexpr std::uint32_t kMaxClasses = 65536;  // of files, and sockets
inline constexpr std::uint32_t kMaxProbes = 32, kMaxProbeArgs = 12, kMaxSyscallArgs = 6;
inline constexpr std::uint32_t kMaxNext = 16;
inline constexpr std::uint32_t kMaxArms = 128;  // each nests an `if` in the one before; the IR nests 200 deep
// Statements in one another, an arm in all that stand before it in its `match`: what looks at the checked tree recurses
// along them, and so does the lowering. Without `match` the parser's bounds come first.
inline constexpr std::uint32_t kMaxNested = 1024;
inline constexpr std::uint32_t kMaxReplyParts = 64;  // as the IR
inline constexpr std::uint32_t kMaxPrefetch = 512;
inline constexpr std::uint32_t kMaxExpansions = 20000;
inline constexpr std::uint32_t kMaxExpansionDepth = 32;
inline constexpr std::uint32_t kMaxImportDepth = 16, kMaxImports = 4096;
// Levels of expressions, through the constants, functions, records and fields that they name: the checker and the
// lowering recurse along them. A constant of a sum, and a record in a record, are two levels.
inline constexpr std::uint32_t kMaxLevels = 512;

class Checker {
  public:
    Checker(ast::File& root, std::string root_name, const Loader& loader, const CheckOptions& options,
            diag::Diagnostics& diags)
        : root_(root), root_name_(std::move(root_name)), loader_(loader), options_(options), diags_(diags) {}
    std::optional<checked::Module> run();

  private:
    // What a chain's statements and expressions need to know about the chain.
    struct ChainScope {
        const ast::Chain* ast = nullptr;
        checked::Chain* out = nullptr;
        std::unordered_map<std::string_view, std::uint32_t> steps;
        std::set<std::pair<std::uint32_t, std::uint32_t>> header_fields;
        std::vector<std::optional<std::uint32_t>> step_files;  // the default file of each step
        std::vector<bool> step_ends;                           // whether every way through a step goes on or ends
        struct StepName {
            std::size_t step;
            Span span;
        };
        std::unordered_map<std::string_view, StepName> step_names;  // which the bodies of the steps so far declare
        struct Read {                                               // of a `goto` or `next`
            std::size_t from;
            std::uint32_t to, file;
            bool assumed;  // the file is that of the declaration of the step it stands in
            Span span;
        };
        std::vector<Read> reads;
        Instance* scope = nullptr;
        std::size_t mark = 0;  // bindings before it are the parameters and the state
        bool exact_result = false;
        bool reads_more = false, returns_value = false, emits = false, returns_nothing = false;
        bool no_file = false;                         // reported once
        bool bad_returns = false, bad_emits = false;  // reported once
        Span first_emit, first_return, first_bare_return;
    };
    // What a service's handler knows of its request.
    struct RequestScope {
        std::int32_t record = -1;
        std::unordered_map<std::string_view, Binding> texts;  // fields that are text rules: locals
        const std::vector<ast::Field>* fields = nullptr;
        bool datagram = false;  // of `on datagram`, which has no text rules
    };
    struct Env {
        Instance* scope = nullptr;
        Site site = Site::constant;
        bool block = false;  // `block` may be used
        std::vector<checked::Local>* locals = nullptr;
        std::size_t base = 0;                        // bindings below are not visible
        std::size_t hidden_from = 0, hidden_to = 0;  // nor are these
        ChainScope* chain = nullptr;
        RequestScope* request = nullptr;
        const RecordInfo* record = nullptr;
        std::optional<std::uint32_t> file = std::nullopt;  // what the step reads, as its declaration says
        std::uint32_t loops = 0;
    };
    class EnvScope {  // another place for a while; bindings made inside go away with it
      public:
        EnvScope(Checker& checker, Env env) : checker_(checker), saved_(checker.env_), mark_(checker.bindings_.size()) {
            checker.env_ = env;
        }
        ~EnvScope() {
            checker_.pop_bindings(mark_);
            checker_.env_ = saved_;
        }
        EnvScope(const EnvScope&) = delete;
        EnvScope& operator=(const EnvScope&) = delete;

      private:
        Checker& checker_;
        Env saved_;
        std::size_t mark_;
    };
    friend class EnvScope;
    class Level {  // of the expressions, or of the statements, that are being checked
      public:
        explicit Level(std::uint32_t& levels, std::uint32_t more = 1) : levels_(levels), more_(more) {
            levels_ += more_;
        }
        ~Level() { levels_ -= more_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

      private:
        std::uint32_t& levels_;
        std::uint32_t more_;
    };

    // ---- reporting (report.cpp) ----
    void error(Code, Span, std::string message, std::string hint, std::vector<diag::Note> notes = {});
    void note_given(Span, std::vector<diag::Note>&) const;
    void note_defines(Span, std::vector<diag::Note>&) const;
    void begin_expression(Span);
    void reads_defines(const std::vector<std::string_view>&);
    void warn(Code, Span, std::string message, std::string hint, std::vector<diag::Note> notes = {});
    static std::string listed(const char* before, std::vector<std::string> names);
    bool in_root(Span span) const { return span.file == root_.id; }
    // Whether an error reported now is only counted: looking for what the user may have meant would be for nothing, and
    // in a large file it would take time in proportion to the square of its size.
    bool unseen() const { return diags_.dropped() != 0; }
    std::string suggestion(std::string_view word, const std::vector<std::string>& candidates,
                           std::string otherwise) const;

    // ---- how deep expressions go (levels.cpp) ----
    bool too_deep(std::uint32_t levels, const std::string& what, Span use, Span declared, const char* hint);
    std::uint32_t levels(const checked::Expr&, const RecordInfo&) const;
    void field_levels(const checked::Field&, FieldInfo&, const RecordInfo&) const;

    // ---- modules and imports (modules.cpp, imports.cpp) ----
    Instance* new_instance(const ast::File&, std::string name, std::string prefix, Instance* importer);
    void declare_file(Instance&);
    void declare_item(Instance&, const ast::Item&);
    void declare_app_item(Instance&, const ast::AppItem&);
    void declare_choices(Instance&, const ast::Record&);
    void add_choice(Instance&, std::string_view name, const Choice&);
    std::optional<std::uint32_t> constant_of(const ast::EnumItem&) const;
    std::uint32_t add_constant(Instance&, const ast::Name&, const ast::ExprPtr& written);
    Symbol* declare(Instance&, SymbolKind, const ast::Name&, std::uint32_t index);
    void declare_param(Instance&, const ast::Param&);
    void import_files(Instance&);
    void import_file(Instance&, const ast::Import&, Span);
    std::uint32_t make_instance(Instance& scope, const ast::File&, const std::string& name, std::string prefix,
                                const ast::Import&);
    bool is_one_import_too_many(Instance&, const ast::Import&);
    bool is_import_cycle(Instance&, const ast::File&, const ast::Import&);
    void missing_import(Instance&, const ast::Import&, const Loaded&);
    void add_files(Instance&, const ast::FileClass&);
    void bind_import(Instance& importer, Instance& made, const ast::Import&);
    void merge_names(Instance& into, Instance& from, const ast::Import&);
    void apply_defines(Instance&);
    void check_given(Instance&);
    Symbol* find(Instance&, std::string_view name);
    Symbol* find_member(const ast::Expr&, bool quiet);
    Symbol* find_qualified(const ast::QualifiedName&, Code missing, const char* what);
    std::vector<std::string> names_of(Instance&, std::optional<SymbolKind>);
    Symbol* symbol_of(const ast::QualifiedName&, SymbolKind, Code missing, const char* what);
    void warn_nothing();
    void warn_unused();

    // alike.cpp
    std::optional<std::uint32_t> same_instance(const ast::File&, const std::string& prefix, const ast::Import&) const;
    void check_artifact_names();
    void join_sockets();
    void join_classes();
    void check_merged_classes();
    void check_batches();

    // ---- constants (constants.cpp) ----
    Value constant(std::uint32_t index, Span use);
    Value constant_expr(const ast::Expr&, Instance*);
    std::optional<std::uint64_t> constant_uint(const ast::Expr&, Instance*, const std::string& what, std::uint64_t low,
                                               std::uint64_t high, Code code, ast::Unit unit = ast::Unit::none);
    // The byte of a string of one; `right` shows how it is written.
    std::optional<std::uint8_t> one_byte(const ast::Expr&, const std::string& what, const std::string& right);
    std::optional<std::uint64_t> here_uint(const ast::Expr&, const std::string& what, std::uint64_t low,
                                           std::uint64_t high, Code code, ast::Unit unit = ast::Unit::none);
    std::optional<std::uint64_t> in_range(Value, Span, const std::string& what, std::uint64_t low, std::uint64_t high,
                                          Code code, ast::Unit unit);
    std::optional<Value> define_value(const Define&);
    Value fold_binary(checked::Binary, Value left, Value right, Span);
    Value fold_exact(checked::Binary, const Value&, const Value&, Span);
    Value fold_unary(checked::Unary, Value, Span);
    Value exact_constant(Wide, Span, ast::Unit);
    bool adapt(Value& constant, bool to_signed);
    static void meet(Value& mask, const checked::Type& other);
    bool adapt_inside(checked::Expr&, bool to_signed);
    bool fits(const Value& constant, const checked::Type&, Span, const std::string& what);

    // ---- types (types.cpp) ----
    std::optional<checked::Type> value_type(const ast::Type&, const std::string& what, bool allow_bool,
                                            bool* is_exact = nullptr);
    std::optional<checked::Type> scalar_type(const ast::Name&, const std::string& what, bool allow_bool);
    std::vector<std::string> type_words() const;

    // ---- records (records.cpp, fields.cpp) ----
    const RecordInfo* record(std::uint32_t index, Span use);
    void resolve_record(std::uint32_t index);
    struct Layout;
    void add_field(checked::Record&, RecordInfo&, Layout&, const ast::Field&);
    void field_base(checked::Field&, FieldInfo&, RecordInfo&, const ast::Field&);
    void scalar_field(checked::Field&, const ast::Name&, bool& known);
    void named_field(checked::Field&, FieldInfo&, RecordInfo&, const ast::Field&, const ast::NamedType&);
    void bits_field(checked::Field&, FieldInfo&, RecordInfo&, const ast::BitsType&);
    void bytes_field(checked::Field&, FieldInfo&, RecordInfo&, const ast::Field&, const ast::BytesType&);
    void array_field(checked::Field&, RecordInfo&, const ast::Field&);
    void field_modifiers(checked::Field&, FieldInfo&, RecordInfo&, const ast::Field&);
    void expected_value(checked::Field&, const FieldInfo&, RecordInfo&, const ast::Field&);
    Value constant_in_place(const ast::Expr&);
    void choices_of_field(checked::Field&, FieldInfo&, RecordInfo&, const ast::Field&);
    void place_field(checked::Field&, Layout&, const ast::Field&, RecordInfo&);
    std::uint64_t most_bytes(const checked::Field&) const;
    std::uint64_t largest(const Value&) const;
    std::optional<std::uint32_t> record_named(const ast::Expr&);
    std::optional<std::uint32_t> record_named(const ast::QualifiedName&);

    // ---- text rules (text.cpp) ----
    void resolve_text(std::uint32_t index);
    void text_repeat_of(checked::TextItem&, checked::Type&, const ast::TextItem&);
    std::optional<std::uint32_t> text_named(const ast::Expr&);
    void text_behind(const ast::TextItem& before, const ast::TextItem&);
    bool text_item(checked::TextRule&, const ast::TextItem&, std::set<std::string_view>& names);

    // ---- scopes (scope.cpp) ----
    Binding* lookup(std::string_view name);
    std::vector<std::string> visible_names();
    bool bind(Binding);
    void bind_error(const ast::Name&);
    void pop_bindings(std::size_t mark);
    std::uint32_t new_local(std::string_view name, const checked::Type&, bool is_mutable);
    Value local_value(std::uint32_t local, const Value& like, Span);
    Value name_local(Value, std::string_view name, checked::ExprPtr* wrap_first);

    // ---- expressions (expr.cpp, operators.cpp, access.cpp, methods.cpp, arrays.cpp, functions.cpp) ----
    Value any(const ast::Expr&);    // may be optional or a pipeline
    Value value(const ast::Expr&);  // a value that is there
    const char* absent_hint() const;
    Value integer(const ast::Expr&, const std::string& what);
    Value boolean(const ast::Expr&, const std::string& what);
    Value bytes(const ast::Expr&, const std::string& what);
    Value unsigned_integer(const ast::Expr&, const std::string& what);
    Value count_value(const ast::Expr&, const std::string& what);   // unsigned, not a time
    Value offset_value(const ast::Expr&, const std::string& what);  // likewise, in bytes
    Value near_choices(const ast::Expr&, const FieldFacts*);
    bool is_sequence(const Value&) const;
    std::string describe(const checked::Type&) const;
    std::string article(const Value&) const;
    Value wrong(const Value&, Span, const std::string& wanted, const std::string& what, const std::string& hint = {});
    Value make(checked::ExprKind, checked::Type, Span);
    Value int_constant(std::uint64_t, Span);
    Value bool_constant(bool, Span);
    bool string_fits(std::string_view text, Span);
    Value bytes_constant(std::string, Span);
    void settle(Value&);  // an integer constant gets its type
    bool store_as(Value&, const checked::Type&, Span, const std::string& what);

    Value literal(const ast::Expr&, const ast::IntLit&);
    Value name_value(const ast::Expr&, const ast::Name&);
    Value symbol_value(Symbol&, Span);
    std::optional<Wide> choice_number(const Choice&, Span use);
    Value choice_value(Instance&, const ast::Name&, bool* found);
    Value unknown(const ast::Name&);

    Value unary(const ast::Expr&, const ast::Unary&);
    Value binary(const ast::Expr&, const ast::Binary&);
    Value logical(const ast::Expr&, const ast::Binary&, checked::Binary);
    Value join(Value left, Value right, checked::Binary, Span);
    Value compare(const ast::Expr&, const ast::Binary&, checked::Binary);
    Value compare_values(Value, Value, checked::Binary, Span, Span);
    Value arithmetic(const ast::Expr&, const ast::Binary&, checked::Binary);
    Value shift(const ast::Expr&, const ast::Binary&, checked::Binary);
    Value arithmetic_values(Value, Value, checked::Binary, Span at, Span op);
    bool unify(Value&, Value&, Span);
    bool join_units(const Value&, const Value&, checked::Binary, Span, ast::Unit&);
    void warn_constant_compare(const Value&, const Value&, checked::Binary, const ast::Expr&, Span);
    Value conditional(const ast::Expr&, const ast::Cond&);
    Value widened(Value, const checked::Type&);
    Value in_set(const ast::Expr&, const ast::InSet&);
    Value cast(const ast::Expr&, const ast::Cast&);
    Value min_max(const ast::Expr&, const ast::Call&, bool is_max);

    Value field_access(const ast::Expr&, const ast::FieldAccess&);
    Value member_access(const ast::Expr&, const ast::FieldAccess&, bool* handled);
    Value view_size(Value view, Span);
    bool is_there(const checked::Expr& e) const;
    Value bytes_place(Value bytes, bool end, Span);
    Value imported_value(Symbol& module, const ast::Expr&, const ast::FieldAccess&);
    Value imported_call(Symbol& module, const ast::Expr&, const ast::Call&);
    Value record_choice(std::uint32_t record, const ast::Name&, bool* found);
    using Lets = std::vector<std::pair<std::uint32_t, checked::ExprPtr>>;  // locals, and what they are set to
    Value wrap(Value body, const Value& named, checked::ExprPtr first);
    Value wrap(Value body, Lets lets);
    Value view_field(Value view, const ast::Name&, Span);
    Value file_fact(std::uint32_t file, std::uint16_t which, Span);
    Value header_field(std::uint32_t file, const ast::Name&, Span);
    Value block_member(const ast::Name&, Span, const Binding* event);
    const char* what_event_has() const;
    const FieldFacts* facts_of_capture(const checked::TextRule&, std::uint32_t capture);
    Value text_capture(Value, const ast::Name&, Span);
    Value bit_field(Value, const ast::Name&, Span);
    bool is_request_field(const ast::Name&) const;
    Value request_field(const ast::Name&, Span);
    Value datagram_field(const ast::Name&, Span);
    Value index_access(const ast::Expr&, const ast::Index&);
    Value slice_access(const ast::Expr&, const ast::Slice&);
    Value block_bytes(Span);
    const Binding* event_of(const ast::Expr&);
    bool need_block(Span);

    Value call(const ast::Expr&, const ast::Call&);
    Value plain_call(const ast::Expr&, const ast::Call&);
    Value method_call(const ast::Expr&, const ast::Call&);
    Value integer_method(Value, const ast::Expr&, const ast::Call&);
    Value bytes_method(Value, const ast::Expr&, const ast::Call&);
    Value array_method(Value, const ast::Expr&, const ast::Call&);
    Value block_method(const ast::Expr&, const ast::Call&, bool* handled);
    Value view_at(Value offset, std::uint32_t record, Span);
    Value byte_found(Value bytes, const ast::Call&, Span);
    Value records_of(Value bytes, const ast::Call&, Span);
    Value split(Value bytes, const ast::Call&, Span);
    bool sequence_bound(const ast::Call&, std::size_t before, std::uint32_t& bound, bool& given);
    Value hash_call(const ast::Expr&, const ast::Call&, ir::HashAlgo);
    Value int_of_bytes(Value, const ast::Call&, Span, bool big, bool is_signed);
    Value search(Value, const ast::Expr&, const ast::Call&, checked::Search);
    Value aggregate(Value, const ast::Expr&, const ast::Call&, checked::Aggregate);
    Value filter(Value, const ast::Expr&, const ast::Call&);
    Value as_pipeline(Value);
    Value text_match(Value, const ast::Call&, Span);
    Value unknown_method_of(const Value&, const ast::Call&);
    static bool has_method(const Value&, const std::string& name);
    bool counted(const ast::Call&, std::size_t low, std::size_t high, const std::string& form);
    bool arguments(const ast::Call&, std::size_t low, std::size_t high, const std::string& form);
    Value element_of(const Value& array, std::uint32_t local, std::string_view name, Span);
    struct LambdaResult {
        checked::Lambda lambda;
        Value result;  // its `expr` moved into the lambda; type and unit stay in `type`
        checked::Type type;
        bool ok = false;
    };
    LambdaResult lambda(const Value& array, const ast::Lambda&, const std::string& what);
    LambdaResult key_of(const Value& array, const ast::Arg&);
    LambdaResult key_by_record(const Value& array, const ast::Expr&);

    Value call_fn(std::uint32_t fn, const ast::Call&, Span);
    Value expand(FnInfo&, const ast::Call&, Span);
    bool bind_argument(const ast::Name& param, const ast::Arg&, Binding& out, Lets& lets);
    void check_unused_fns();
    Value call_chain(std::uint32_t chain, const ast::Call&, Span);
    bool only_closes(const checked::Block&) const;
    Value chain_file_argument(const ast::Expr&, std::uint32_t file_class, const std::string& param);

    // ---- statements (stmts.cpp, control.cpp, reads.cpp) ----
    bool block(const ast::Block&, checked::Block&);  // true: it does not fall through
    bool statement(const ast::Stmt&, checked::Block&);
    checked::Stmt& add(checked::Block&, checked::StmtKind, const ast::Stmt&);
    bool let_stmt(const ast::Stmt&, const ast::Let&, checked::Block&);
    bool var_stmt(const ast::Stmt&, const ast::Var&, checked::Block&);
    void bytes_var(const ast::Stmt&, const ast::Var&, checked::Block&);
    bool assign_stmt(const ast::Stmt&, const ast::Assign&, checked::Block&);
    void assign_bytes(const ast::Stmt&, checked::StmtKind, std::uint32_t state, Value, checked::Block&);
    Binding* assignable(const ast::Name&, Span);
    bool if_stmt(const ast::Stmt&, const ast::If&, checked::Block&);
    bool when_stmt(const ast::Stmt&, const ast::When&, checked::Block&);
    bool match_stmt(const ast::Stmt&, const ast::Match&, checked::Block&);
    struct Arms;
    bool is_nested_too_deep(const ast::Stmt&, const ast::Match&);
    Value arm_condition(const ast::MatchArm&, const Value& subject, Arms&);
    void warn_missing(const ast::Stmt&, const Arms&);
    bool pattern(const ast::Expr&, const Value& subject, Arms&, Value& condition);
    bool for_stmt(const ast::Stmt&, const ast::For&, checked::Block&);
    bool for_range(const ast::Stmt&, const ast::For&, const ast::Call&, checked::Block&);
    std::optional<std::uint32_t> loop_bound(const ast::For&, std::uint64_t natural, const std::string& what,
                                            const std::string& enough = "N");
    bool loop_body(const ast::For&, checked::Stmt&);
    bool goto_stmt(const ast::Stmt&, const ast::Goto&, checked::Block&);
    std::optional<std::uint32_t> read_file(ChainScope&, const ast::Stmt&, std::uint32_t step);
    checked::ExprPtr read_length(const ast::Expr&);
    checked::ExprPtr default_length(const ast::Step&);
    bool may_emit(Span, const char* word);
    bool leaves_loop(const checked::Block&) const;
    checked::ExprPtr read_offset(const ast::Expr&);
    bool return_stmt(const ast::Stmt&, const ast::Return&, checked::Block&);
    void return_bytes(const ast::Stmt&, Value, checked::Block&);
    bool emit_stmt(const ast::Stmt&, const ast::Emit&, checked::Block&);
    void emit_values(const std::vector<ast::ExprPtr>&, checked::Stmt&);
    bool emittable(Value&, Span);
    bool fail_stmt(const ast::Stmt&, const ast::Fail&, checked::Block&);
    std::uint32_t outcome(const ast::Name&);
    bool call_stmt(const ast::Stmt&, const ast::CallStmt&, checked::Block&);
    bool project_stmt(const ast::Stmt&, const ast::Call&, checked::Block&);
    Value number_bytes(const ast::Stmt&, Value, checked::Block&);
    bool variable_method(const ast::Stmt&, const ast::Call&, Binding&, checked::Block&);
    checked::ExprPtr hoist(Value, checked::Block&, const ast::Stmt&);
    std::uint64_t least(const checked::Block&, checked::StmtKind a, checked::StmtKind b) const;
    // On the ways through a block to its end, and on those that end the step or handler in it.
    struct Least {
        static constexpr std::uint64_t kNoWay = UINT64_MAX;
        std::uint64_t through = kNoWay, ended = kNoWay;
    };
    static std::uint64_t turns_of(const checked::Stmt& loop);
    Least least_of(const checked::Block&, checked::StmtKind a, checked::StmtKind b) const;
    void warn_always(const ast::Expr& condition, const Value&);

    // ---- shadow chains and services (shadow.cpp, services.cpp, requests.cpp) ----
    bool prefetch_stmt(const ast::Stmt&, const ast::Prefetch&, checked::Block&);
    bool prefetch_place(const ast::Prefetch&, checked::Stmt&);
    bool sibling_target(const ast::Call&, checked::Stmt&);
    bool path_target(const ast::Index&, std::uint32_t files, checked::Stmt&);
    bool via_stmt(const ast::Stmt&, const ast::PrefetchVia&, checked::Block&);
    bool mark_stmt(const ast::Stmt&, const ast::Mark&, checked::Block&);
    bool mark_place(const ast::Expr&);
    checked::StmtPtr mark_with(const ast::Mark&);
    checked::StmtPtr mark_via(const ast::Expr& call);
    static bool marks_only(const checked::Block&);
    bool event_has_file() const;
    bool is_file_of_event(const ast::Expr&);
    bool is_of_wrong_event(const ast::Expr&);
    bool reply_stmt(const ast::Stmt&, const ast::Reply&, checked::Block&);
    bool reply_part(const ast::ReplyPart&, checked::Block&, const ast::Stmt&, checked::ReplyPart&);
    bool skip_stmt(const ast::Stmt&, const ast::Skip&, checked::Block&);
    checked::StmtPtr via_call(const ast::Expr&, const std::string& verb);
    checked::StmtPtr via_arguments_of(const ast::Call&, std::uint32_t chain, const std::string& verb);
    bool ask(const ast::Stmt&, checked::StmtPtr, checked::Block&);
    bool via_file(const ast::Expr&, const checked::Param&, const std::string& verb);
    std::optional<std::uint32_t> request_text(const ast::NamedType&);
    void check_handlers(const ast::Service&, checked::Service&);
    std::optional<std::uint32_t> files_named(const ast::Expr&);
    bool is_unknown_files(const ast::Expr&);
    void check_service(std::uint32_t index);
    void check_endpoints(const ast::Service&, checked::Service&);
    void check_release(const ast::Endpoint&);
    void warn_shared_port(const ir::Endpoint&, Span, const checked::Service&);
    void check_cache(const ast::Service&, checked::Service&);
    // skips.cpp
    void skips_first(const checked::Block&);
    // kept.cpp
    void check_kept(const ast::Service&, checked::Service&);
    bool kept_head(const checked::Handler&, checked::Service&);
    void kept_files(const checked::Block&);
    std::optional<std::int32_t> request_record(const ast::Service&, const ast::Request&, RequestScope&);
    ir::Framing framing(const ast::Request&, const checked::Handler&);
    std::string end_of(const ast::Request&);  // what closes its text rule; empty: it has none
    void stream_framing(const ast::Request&, checked::Service&);
    std::optional<checked::Handler> handler(const ast::Service&, const ast::Request*, const ast::Handler&);
    checked::Body key_body(const ast::Service&, const ast::Request&, const ast::Expr& key);
    void bind_request(const ast::Request&, RequestScope&, checked::Body&, ir::Line);

    // ---- chains (chains.cpp, steps.cpp, never.cpp) ----
    void chain_signature(std::uint32_t index);
    void chain_params(ChainInfo&, checked::Chain&);
    void shadow_params(ChainInfo&, checked::Chain&);
    void check_chain(std::uint32_t index);
    void check_call_chain(ChainScope&, checked::Chain&);
    void check_shadow_chain(ChainScope&, checked::Chain&);
    void bind_params(ChainScope&);
    void state_variables(ChainScope&);
    void declare_steps(ChainScope&);
    void check_step(ChainScope&, std::uint32_t index);
    bool is_of_other_step(const ChainScope&, const ast::Name&);
    void step_read(ChainScope&, const ast::Step&, checked::Step&, bool entry);
    void check_done(ChainScope&);
    void check_stale_names(const checked::Chain&, const checked::Body&);
    void warn_unreached(const ChainScope&);
    void warn_without_result(const ChainScope&, const std::vector<bool>& runs);
    void warn_read(const checked::Step&, const checked::Expr& at, const checked::Expr& length);
    void warn_reads(const ChainScope&);
    void warn_prefetches(const checked::Block&);
    void refuse_long_begin(const checked::Block&);
    void warn_request(const ast::Service&, const checked::Service&);
    void check_files_left_out(const ChainScope&);
    void check_hops(ChainScope&);
    void check_result(ChainScope&);
    void check_limits(ChainScope&);
    std::optional<std::uint32_t> file_parameter(ChainScope&, const ast::Name&);
    std::optional<std::uint32_t> default_file(ChainScope&, Span);
    Env chain_env(ChainScope&, Site, bool block, std::vector<checked::Local>*);
    std::uint32_t state_bytes(const checked::Chain&) const;

    // ---- applications (app.cpp) ----
    void declare_app(Instance&, const ast::App&);
    void no_nul(const std::string& name, Span, const std::string& what);
    void check_files(std::uint32_t index);
    void check_index(const ast::FileClass&, Instance* scope, ir::FileClass& out);
    void check_given_headers(std::uint32_t files);
    bool alike_records(std::uint32_t a, std::uint32_t b) const;
    void warn_patterns();
    void warn_same_pattern(std::uint32_t second, std::uint32_t first);
    void check_numbers();
    void check_socket(std::uint32_t index);
    void check_class(const ast::PriorityClass&, ir::PriorityClass&, Instance&);
    ir::Batch check_batch(const ast::Batch&, Instance&);
    void check_probe(std::uint32_t index);
    void check_probe_limits(std::uint32_t index);
    std::optional<checked::Type> probe_type(const ast::Type&);
    std::optional<std::uint32_t> percentile(const ast::Name&);
    std::int32_t class_named(const ast::Name&);
    bool target_has(unsigned major, unsigned minor) const;
    void check_target();
    void check_target_of_chains();
    ir::Line line_of(std::uint32_t canonical_line) const;

    ast::File& root_;
    std::string root_name_;
    const Loader& loader_;
    const CheckOptions& options_;
    diag::Diagnostics& diags_;
    checked::Module module_;
    std::deque<Instance> instances_;
    std::deque<Symbol> symbols_;
    std::deque<Constant> constants_;
    std::deque<RecordInfo> records_;  // beside module_.records
    std::deque<TextInfo> texts_;      // beside module_.texts
    std::deque<FnInfo> fns_;
    std::deque<ChainInfo> chains_;  // beside module_.chains
    struct FilesInfo {
        const ast::FileClass* files = nullptr;
        Instance* scope = nullptr;
        const ast::Name* header = nullptr;  // its own, or that of a library's class which it stands for
        Instance* header_scope = nullptr;
        struct Given {  // of a library's class
            const ast::Name* header;
            Instance* scope;
            Span span;  // where the import is given this class
        };
        std::vector<Given> given;
    };
    std::deque<FilesInfo> files_;  // beside module_.files
    std::vector<std::pair<const ast::Socket*, Instance*>> sockets_;
    std::vector<std::pair<const ast::PriorityClass*, Instance*>> classes_;  // beside module_.classes
    struct MergedClasses {  // of one name: what had it, and what the import brings
        const ast::Import* import;
        std::uint32_t had, brought;
    };
    std::vector<MergedClasses> merged_classes_;
    std::vector<std::pair<const ast::Service*, Instance*>> services_;
    std::vector<std::pair<const ast::Probe*, Instance*>> probes_;
    std::deque<FieldFacts> facts_;
    std::deque<std::vector<const ast::Field*>> request_fields_;  // a request without its text rules
    std::unordered_map<std::string, std::uint32_t> reasons_;
    struct ImportUse {
        const ast::Import* import;
        Instance* made;
    };
    std::vector<ImportUse> root_imports_;
    bool imports_reported_ = false;
    const ast::App* app_ = nullptr;
    std::vector<std::pair<const ast::Batch*, Instance*>> batches_;  // of one declaration
    std::set<const ast::MatchExe*> matches_;
    std::vector<std::uint32_t> socket_numbers_, class_numbers_;  // in the module, of what was declared
    const ast::Service* service_ = nullptr;                      // whose handlers are being checked
    std::unordered_map<std::string_view, std::uint32_t> service_texts_;
    std::vector<Binding> bindings_;
    std::unordered_map<std::string_view, std::int32_t> innermost_;
    std::vector<checked::Local> constant_locals_;
    Env env_;
    std::uint32_t expansions_ = 0, expansion_depth_ = 0;
    bool expansions_reported_ = false;
    std::uint32_t levels_ = 0;
    std::uint32_t nested_ = 0;  // the statements around the one that is being checked, as kMaxNested counts them
    bool levels_reported_ = false;
    std::vector<diag::Note> call_notes_;          // where the functions being expanded were called
    Span expression_span_;                        // of the expression that is looked at, or was last
    std::vector<std::string_view> defines_read_;  // what it depends on, of what -D gives
    bool failed_ = false;
    bool after_syntax_errors_ = false;
    struct Warning {
        Code code;
        Span span;
        std::string message, hint;
        std::vector<diag::Note> notes;
    };
    std::vector<Warning> warnings_;  // told at the end, when there is no error that could be their cause
    std::optional<std::pair<unsigned, unsigned>> target_;
};

}  // namespace chainio::sema
