// Lowers the body of one program. One class, its members grouped by file: lower_expr, lower_bytes, lower_record,
// lower_array, lower_text, lower_state and lower_stmt.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/builder.h"
#include "compiler/passes/lower_context.h"
#include "compiler/passes/lower_value.h"

namespace chainio::passes {

using ir::Operand;

class ProgramLowering {
  public:
    // `chain` is absent for header and handler programs.
    ProgramLowering(ModuleContext& module, ChainContext* chain, std::string name, ir::ProgramKind kind);

    void set_line(ir::Line line) { b_.line = line; }
    void step(const checked::Step&);
    void body(const checked::Body&);  // done, shadow: local 0 of a shadow is the block
    void entry(const checked::Step& first);
    void header(const checked::Record&);
    // `whole`: a request that is not a whole one fails before the body; else only a field that is read has to be there.
    void handler(const checked::Handler&, bool whole);
    // Replies with how many bytes a request's fields have, of which the block may be the beginning only: ends with
    // `short_read` while those that say so are not there.
    void request_length(const checked::Handler&);
    ir::Program finish();

  private:
    using Env = std::vector<Value>;  // the values of a Body's or a record's locals
    // Restores the previous environment at the end of a scope.
    class EnvScope {
      public:
        EnvScope(ProgramLowering& lowering, Env& env) : lowering_(lowering), outer_(lowering.env_) {
            lowering.env_ = &env;
        }
        ~EnvScope() { lowering_.env_ = outer_; }
        EnvScope(const EnvScope&) = delete;
        EnvScope& operator=(const EnvScope&) = delete;

      private:
        ProgramLowering& lowering_;
        Env* outer_;
    };

    // ---- control flow: what is learnt inside is forgotten outside ----
    void if_(Operand cond, const std::function<void()>& yes, const std::function<void()>& no = {});
    void loop(Operand count, std::uint32_t max, const std::function<void(Operand)>& inside);
    // A body that is left early by Break: `inside` runs once.
    void once(const std::function<void()>& inside);
    void scoped(const std::function<void()>& f);

    // ---- expressions (lower_expr.cpp) ----
    Value eval(const checked::Expr&);
    std::optional<Value> stand_in(const checked::Type&);
    void read_shared(const checked::Expr& yes, const checked::Expr& no);
    Operand scalar(const checked::Expr&);
    Value local(const checked::Expr&);
    Value param(std::uint32_t index);
    Operand header_field(std::uint32_t param, std::uint32_t field);
    Operand unary(const checked::Expr&);
    Value binary(const checked::Expr&);
    Operand arithmetic(checked::Binary, bool is_signed, Operand a, Operand b);
    Operand logical(const checked::Expr&);
    Value cond(const checked::Expr&);
    Operand cast(const checked::Expr&);
    Operand to_width(Operand, std::uint32_t bits, bool is_signed);
    void bind_lets(const checked::Expr&);
    Operand choose(Operand cond, const std::function<Operand()>& yes, const std::function<Operand()>& no);
    Value merge(Operand cond, const checked::Expr& yes, const checked::Expr& no);
    void assign_value(const Value& target, const Value& v);
    // The same value in registers that never change again.
    Operand fixed(Operand);

    // ---- bytes (lower_bytes.cpp) ----
    ir::Slice bytes(const checked::Expr&);
    Value bytes_value(const checked::Expr&);
    Value block_bytes();
    Value bytes_slice(const Value& base, Operand low, Operand high);
    Operand byte_at(const checked::Expr&);
    Operand compare(const Value& a, const Value& b);
    Operand compare_test(checked::Binary, Operand order);
    Operand hash(const checked::Expr&);
    Operand int_of_bytes(const checked::Expr&);
    Operand decimal_of_bytes(const checked::Expr&);
    Value byte_found(const checked::Expr&);
    void demand(ir::Space, Operand offset, Operand length,
                std::uint32_t outcome);                           // a CheckRange, unless trivially true
    void demand_le(Operand a, Operand b, std::uint32_t outcome);  // a <= b, else fails

    // ---- records (lower_record.cpp) ----
    Value make_view(const checked::Record&, Operand offset, bool check);
    void check_view(const std::shared_ptr<ViewData>&);
    void check_expectation(const std::shared_ptr<ViewData>&, std::uint32_t field);
    void check_gaps(const std::shared_ptr<ViewData>&);
    Value field(const std::shared_ptr<ViewData>&, std::uint32_t index);
    Value read_field(const std::shared_ptr<ViewData>&, std::uint32_t index);
    Value varint_field(const std::shared_ptr<ViewData>&, std::uint32_t index);
    Value cstr_field(const std::shared_ptr<ViewData>&, std::uint32_t index);
    Value array_field(const std::shared_ptr<ViewData>&, std::uint32_t index);
    std::pair<Operand, Operand> varint_at(ir::VarintKind, Operand at);  // its value and its length
    std::uint32_t stride_of(const checked::Field&) const;  // of an array: from one element to the next, in bytes
    Operand array_count(const std::shared_ptr<ViewData>&, std::uint32_t index);
    Operand claimed(Operand bytes);
    Operand claimed_end(const std::shared_ptr<ViewData>&, std::uint32_t index);
    // How a program ends for bytes that are not there.
    std::uint32_t absent() const { return arriving_ ? CIO_SHORT_READ : CIO_MALFORMED; }
    Operand field_offset(const std::shared_ptr<ViewData>&, std::uint32_t index);
    void demand_near(Operand at);
    void begins_near(const std::shared_ptr<ViewData>&);
    void starts_near(const std::shared_ptr<ViewData>&, std::uint32_t index, Operand start);
    struct Place {
        Operand from_record, at;
        bool is_near;
    };
    Place place(const std::shared_ptr<ViewData>&, const checked::Expr&);
    Operand gap_end(const std::shared_ptr<ViewData>&, std::uint32_t index);
    bool stands_alone(const std::shared_ptr<ViewData>&, std::uint32_t index) const;
    void ends_before(const std::shared_ptr<ViewData>&, std::uint32_t index);
    Operand field_end(const std::shared_ptr<ViewData>&, std::uint32_t index);
    Operand existing_end(const std::shared_ptr<ViewData>&, std::uint32_t index);
    Operand exists(const std::shared_ptr<ViewData>&, std::uint32_t index);
    Operand view_end(const std::shared_ptr<ViewData>&);
    Operand in_record(const std::shared_ptr<ViewData>&,
                      const checked::Expr&);  // an expression of the record's own locals
    Value value_in_record(const std::shared_ptr<ViewData>&, const checked::Expr&);
    const Value& remember(const std::shared_ptr<ViewData>&, std::uint32_t index, Value);
    Operand remember(const std::shared_ptr<ViewData>&, std::optional<Operand>& slot, Operand);

    // ---- arrays and pipelines (lower_array.cpp) ----
    Value element(const Value& array, Operand index, bool check);
    Value repeat_element(const RepeatData&, Operand index);
    Operand length_of(const Value& array);
    Value array_slice(const Value& array, Operand low, Operand high);
    Value search(const checked::Expr&);
    Value aggregate(const checked::Expr&);
    Operand select_best(const checked::Expr&, Operand value, Operand best);
    // Runs `each` for every element that passes the filters, at most `max` of them (0: as the type says).
    void iterate(const checked::Expr& source, std::uint32_t max, const std::function<void(Value)>& each);
    struct Cut {
        std::uint32_t max = 0;        // rounds; 0: as the type says
        std::optional<ir::Reg> left;  // how many elements may still pass the filters, where that ends the loop
    };
    void walk(const checked::Expr& source, const Cut&, const std::function<void(Value)>& each);
    void rounds(Operand count, std::uint32_t max, const Cut&, const std::function<void(Operand)>& inside);
    void iterate_array(const Value&, const Cut&, const std::function<void(Value)>& each);
    void iterate_pieces(const PiecesData&, const Cut&, const std::function<void(Value)>& each);
    void iterate_records(const RecordsData&, const Cut&, const std::function<void(Value)>& each);
    void iterate_repeat(const RepeatData&, const Cut&, const std::function<void(Value)>& each);

    // ---- text (lower_text.cpp) ----
    Value text_match(const checked::TextRule&, const Value& subject);
    struct TextState;
    void text_item(TextState&, std::size_t index, const Value& target);
    void text_choice(TextState&, const checked::TextItem&, const Value& target);
    void text_repeat(TextState&, const checked::TextItem&, const std::string& stop, const RepeatData& target);
    void take(TextState&, Operand at, Operand length, const Value& target);
    void advance(TextState&, Operand by);
    Operand matches_literal(ir::Space, Operand at, Operand end, const std::string& literal);
    std::pair<Operand, Operand> scan(Operand at, Operand end, const std::string& stop, std::uint32_t limit);
    Operand word_length(Operand at, Operand end, const std::string& separator, std::uint32_t limit);
    std::pair<Operand, Operand> digits(Operand at, Operand end);
    std::pair<Value, Operand> repetition(const RepeatData&, Operand at);
    void break_unless(Operand cond);

    // ---- state (lower_state.cpp) ----
    Value state(std::uint32_t index);
    void assign_state(std::uint32_t index, const Value&);
    void append_state(std::uint32_t index, const Value&);
    void truncate_state(std::uint32_t index, Operand length);
    void store_bytes(const ChainContext::StateSlot&, const Value&);
    Value load_bytes(const ChainContext::StateSlot&);
    void clear_scratch();

    // ---- statements (lower_stmt.cpp) ----
    void block(const checked::Block&);
    void statement(const checked::Stmt&);
    void let(const checked::Stmt&);
    void assign(const checked::Stmt&);
    void if_statement(const checked::Stmt&);
    void when(const checked::Stmt&);
    void for_range(const checked::Stmt&);
    void next(const checked::Stmt&);
    void return_(const checked::Stmt&);
    void emit(const checked::Stmt&);
    void emit_value(const checked::Expr&);
    void prefetch(const checked::Stmt&);
    void prefetch_via(const checked::Stmt&);
    void mark(const checked::Stmt&, ir::Prefetch);
    void signed_digits(ir::Operand value, std::vector<ir::ReplyPart>& parts);
    void reply(const checked::Stmt&);
    Value call_chain(const checked::Expr&);
    void bind(std::uint32_t index, Value);
    std::uint16_t file_slot(std::uint32_t param) const;
    void queue(std::uint32_t step, std::uint32_t file, Operand at, Operand length, Operand tag);

    ModuleContext& m_;
    ChainContext* chain_;
    ir::Builder b_;
    Env* env_ = nullptr;
    Env locals_;
    const std::vector<checked::Local>* local_types_ = nullptr;
    std::vector<std::function<void()>> undo_;
    std::uint16_t results_ = 0;  // of a handler's calls
    bool arriving_ = false;      // what is behind the block may still come
};

}  // namespace chainio::passes
