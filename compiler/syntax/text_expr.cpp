#include <array>

#include "compiler/syntax/literals.h"
#include "compiler/syntax/text.h"

namespace chainio::syntax {
namespace {

struct OperatorText {
    const char* text;
    int power;
};
// In the order of ast::BinaryOp.
constexpr std::array<OperatorText, 18> operator_texts = {{{"*", 11},
                                                          {"/", 11},
                                                          {"%", 11},
                                                          {"+", 10},
                                                          {"-", 10},
                                                          {"<<", 9},
                                                          {">>", 9},
                                                          {"&", 8},
                                                          {"^", 7},
                                                          {"|", 6},
                                                          {"<", 5},
                                                          {"<=", 5},
                                                          {">", 5},
                                                          {">=", 5},
                                                          {"==", 4},
                                                          {"!=", 4},
                                                          {"&&", 2},
                                                          {"||", 1}}};
constexpr int cond_power = 0, in_power = 3, cast_power = 12, unary_power = 13, postfix_power = 14;

int power_of(const ast::Expr& expr) {
    if (expr.parenthesised) return postfix_power;
    if (const auto* binary = std::get_if<ast::Binary>(&expr.node))
        return operator_texts.at(static_cast<std::size_t>(binary->op)).power;
    if (std::holds_alternative<ast::Cond>(expr.node)) return cond_power;
    if (std::holds_alternative<ast::InSet>(expr.node)) return in_power;
    if (std::holds_alternative<ast::Cast>(expr.node)) return cast_power;
    if (std::holds_alternative<ast::Unary>(expr.node)) return unary_power;
    return postfix_power;
}

class ExprText {
  public:
    std::string out;

    void whole(const ast::Expr& expr) {
        if (expr.parenthesised) out += '(';
        std::visit([&](const auto& node) { write(node); }, expr.node);
        if (expr.parenthesised) out += ')';
    }
    // In parentheses when it binds less tightly than `least`.
    void part(const ast::Expr& expr, int least) {
        const bool wrap = power_of(expr) < least;
        if (wrap) out += '(';
        whole(expr);
        if (wrap) out += ')';
    }

  private:
    void write(const ast::IntLit& literal) {
        out += literal.spelling.empty() ? std::to_string(literal.value) : literal.spelling;
    }
    void write(const ast::StringLit& literal) { out += quote_string(literal.value); }
    void write(const ast::BoolLit& literal) { out += literal.value ? "true" : "false"; }
    void write(const ast::BlockLit&) { out += "block"; }
    void write(const ast::NameRef& ref) { out += ref.name.text; }
    void write(const ast::Call& call) {
        if (call.receiver) {
            part(*call.receiver, postfix_power);
            out += '.';
        }
        out += call.callee.text + "(";
        for (std::size_t i = 0; i < call.args.size(); ++i) {
            if (i > 0) comma();
            write(call.args[i]);
        }
        out += ')';
    }
    void write(const ast::Arg& arg) {
        if (arg.is_max) return bound(*arg.value);
        // `max by …` would be a bound.
        const auto* ref = arg.value ? std::get_if<ast::NameRef>(&arg.value->node) : nullptr;
        const bool wrap =
            ref != nullptr && ref->name.text == "max" && !arg.value->parenthesised && (arg.by || arg.lambda);
        if (arg.value) out += wrap ? "(max)" : text_of(*arg.value);
        if (arg.value && (arg.by || arg.lambda)) out += " by ";
        if (arg.by) whole(*arg.by);
        if (!arg.lambda) return;
        out += arg.lambda->param.text + " => ";
        whole(*arg.lambda->body);
    }
    // `max` before `(` or `-` would be a call or an operand.
    void bound(const ast::Expr& value) {
        const std::string text = text_of(value);
        out += text.starts_with('(') || text.starts_with('-') ? "max (" + text + ")" : "max " + text;
    }
    void write(const ast::FieldAccess& access) {
        part(*access.base, postfix_power);
        out += "." + access.field.text;
    }
    void write(const ast::Index& index) {
        part(*index.base, postfix_power);
        out += '[';
        whole(*index.index);
        out += ']';
    }
    void write(const ast::Slice& slice) {
        if (slice.base) part(*slice.base, postfix_power);
        out += '[';
        if (slice.low) whole(*slice.low);
        out += "..";
        if (slice.high) whole(*slice.high);
        out += ']';
    }
    void write(const ast::Unary& unary) {
        out += unary.op == ast::UnaryOp::negate ? '-' : unary.op == ast::UnaryOp::logical_not ? '!' : '~';
        part(*unary.operand, unary_power);
    }
    void write(const ast::Binary& binary) {
        const OperatorText& op = operator_texts.at(static_cast<std::size_t>(binary.op));
        part(*binary.left, op.power);
        out += std::string(" ") + op.text + soft_break;
        part(*binary.right, op.power + 1);
    }
    void write(const ast::Cond& cond) {
        part(*cond.condition, cond_power + 1);
        out += std::string(" ?") + soft_break;
        part(*cond.yes, cond_power + 1);
        out += std::string(" :") + soft_break;
        part(*cond.no, cond_power);
    }
    void write(const ast::InSet& set) {
        part(*set.value, in_power);
        out += " in (" + list_text(set.choices) + ")";
    }
    void write(const ast::Cast& cast) {
        part(*cast.value, cast_power);
        out += " as " + cast.type.text;
    }
    void comma() { out += std::string(",") + soft_break; }
};

}  // namespace

std::string clause(const char* word, const ast::ExprPtr& expr) { return expr ? gap + word + " " + text_of(*expr) : ""; }

std::string flat(std::string text) {
    for (char& c : text) c = c == soft_break ? ' ' : c;
    return text;
}

std::string comment_line(const std::string& comment, unsigned level) {
    if (comment == ast::empty_line) return comment;
    return std::string(std::size_t{2} * level, ' ') + (comment.empty() ? "#\n" : "# " + comment + "\n");
}

std::string text_of(const ast::Expr& expr) {
    ExprText text;
    text.whole(expr);
    return std::move(text.out);
}

std::string list_text(const std::vector<ast::ExprPtr>& list) {
    std::string out;
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (i > 0) out += std::string(",") + soft_break;
        out += text_of(*list[i]);
    }
    return out;
}

std::string when_condition(const ast::When& when) {
    ExprText text;
    // A cast at the end of the condition would be the binding.
    const bool cast = std::holds_alternative<ast::Cast>(when.condition->node) && !when.condition->parenthesised;
    text.part(*when.condition, cast ? postfix_power : when.bind ? cast_power : cond_power);
    return std::move(text.out);
}

}  // namespace chainio::syntax
