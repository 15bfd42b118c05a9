#include "compiler/syntax/build.h"
#include "compiler/syntax/codes.h"
#include "compiler/syntax/literals.h"
#include "compiler/syntax/tokens.h"

namespace chainio::syntax {
namespace {

struct OperatorRow {
    ast::BinaryOp op;
    int power;  // binds tighter when larger
};

constexpr int in_set_power = 3;

std::optional<OperatorRow> operator_of(std::size_t type) {
    using enum ast::BinaryOp;
    switch (type) {
        case P::STAR: return OperatorRow{mul, 11};
        case P::SLASH: return OperatorRow{div, 11};
        case P::PERCENT: return OperatorRow{mod, 11};
        case P::PLUS: return OperatorRow{add, 10};
        case P::MINUS: return OperatorRow{sub, 10};
        case P::SHL: return OperatorRow{shl, 9};
        case P::SHR: return OperatorRow{shr, 9};
        case P::AMP: return OperatorRow{bit_and, 8};
        case P::CARET: return OperatorRow{bit_xor, 7};
        case P::PIPE: return OperatorRow{bit_or, 6};
        case P::LT: return OperatorRow{lt, 5};
        case P::LE: return OperatorRow{le, 5};
        case P::GT: return OperatorRow{gt, 5};
        case P::GE: return OperatorRow{ge, 5};
        case P::EQ: return OperatorRow{eq, 4};
        case P::NE: return OperatorRow{ne, 4};
        case P::ANDAND: return OperatorRow{logical_and, 2};
        case P::OROR: return OperatorRow{logical_or, 1};
        default: return std::nullopt;
    }
}

Span join(Span from, Span to) {
    from.end_line = to.end_line;
    from.end_col = to.end_col;
    return from;
}

const SyntaxToken& first_of(antlr4::ParserRuleContext* tree) { return as_token(tree->start); }
const SyntaxToken& last_of(antlr4::ParserRuleContext* tree) { return as_token(tree->stop); }

}  // namespace

Span Builder::span(antlr4::ParserRuleContext* tree) {
    if (tree->stop == nullptr) return first_of(tree).span;
    return join(first_of(tree).span, last_of(tree).span);
}

ast::Name Builder::name(antlr4::ParserRuleContext* word) {
    const SyntaxToken& token = first_of(word);
    return {std::string(token.text), token.span};
}

ast::QualifiedName Builder::qualified(P::QualifiedContext* tree) {
    ast::QualifiedName out{{}, name(tree->first)};
    if (tree->second != nullptr) {
        out.module = std::move(out.name);
        out.name = {tree->second->getText(), as_token(tree->second).span};
    }
    return out;
}

std::string Builder::string(antlr4::Token* token) {
    return read_string(as_token(token).text, as_token(token).span, diags_);
}

ast::ExprPtr Builder::expr(P::ExprContext* tree) { return tree == nullptr ? nullptr : sub(tree).expr; }

// The tree's depth is bounded, so that no later pass can run out of stack: a deeper expression is reported and becomes
// "unreadable".
Builder::Sub Builder::make(Span at, decltype(ast::Expr::node) node, unsigned depth) {
    if (depth > max_nesting) {
        diags_.report(code::too_deep, at,
                      "this expression is nested deeper than " + std::to_string(max_nesting) + " levels",
                      "name parts of it with `let`, or use a loop");
        return {std::make_unique<ast::Expr>(at, ast::NameRef{}, false), 1};
    }
    return {std::make_unique<ast::Expr>(at, std::move(node), false), depth};
}

Builder::Sub Builder::sub(P::ExprContext* tree) {
    const auto& parts = tree->parts;
    Sub no = flat(parts.back());
    // c1 ? y1 : c2 ? y2 : n groups to the right.
    for (std::size_t i = parts.size() - 1; i >= 2; i -= 2) {
        Sub condition = flat(parts[i - 2]), yes = flat(parts[i - 1]);
        const unsigned depth = std::max({condition.depth, yes.depth, no.depth}) + 1;
        const Span at = join(condition.expr->span, no.expr->span);
        no = make(at, ast::Cond{std::move(condition.expr), std::move(yes.expr), std::move(no.expr)}, depth);
    }
    return no;
}

Builder::Sub Builder::flat(P::FlatContext* tree) {
    std::size_t tail = 0;
    return climb(tree, tail, 0);
}

// Precedence climbing over the flat list; recursion is bounded by the number of precedence levels.
Builder::Sub Builder::climb(P::FlatContext* tree, std::size_t& tail, int least) {
    Sub left = operand(tail == 0 ? tree->first : tree->tails[tail - 1]->right);
    while (tail < tree->tails.size()) {
        P::TailContext* next = tree->tails[tail];
        if (next->set != nullptr) {
            if (in_set_power <= least) break;
            ++tail;
            ast::InSet set{std::move(left.expr), {}};
            const Span from = set.value->span;
            for (P::ExprContext* choice : next->choices) {
                Sub each = sub(choice);
                left.depth = std::max(left.depth, each.depth);
                set.choices.push_back(std::move(each.expr));
            }
            left = make(join(from, span(next)), std::move(set), left.depth + 1);
            continue;
        }
        const OperatorRow row = *operator_of(next->op->getType());
        if (row.power <= least) break;
        ++tail;
        Sub right = climb(tree, tail, row.power);
        const Span at = join(left.expr->span, right.expr->span);
        left = make(at, ast::Binary{row.op, as_token(next->op).span, std::move(left.expr), std::move(right.expr)},
                    std::max(left.depth, right.depth) + 1);
    }
    return left;
}

Builder::Sub Builder::operand(P::OperandContext* tree) {
    Sub out = primary(tree->base);
    for (P::SuffixContext* each : tree->suffixes) out = suffix(std::move(out), each);
    for (auto prefix = tree->prefixes.rbegin(); prefix != tree->prefixes.rend(); ++prefix) {
        const std::size_t type = (*prefix)->getType();
        const auto op = type == P::MINUS ? ast::UnaryOp::negate
                        : type == P::NOT ? ast::UnaryOp::logical_not
                                         : ast::UnaryOp::bit_not;
        const Span at = join(as_token(*prefix).span, out.expr->span);
        out = make(at, ast::Unary{op, std::move(out.expr)}, out.depth + 1);
    }
    for (P::CastToContext* cast : tree->casts) {
        const Span at = join(out.expr->span, span(cast));
        out = make(at, ast::Cast{std::move(out.expr), name(cast->type)}, out.depth + 1);
    }
    return out;
}

Builder::Sub Builder::literal(Token* token) {
    const SyntaxToken& at = as_token(token);
    switch (at.type) {
        case P::INT: return make(at.span, read_int(at.text, at.span, diags_), 1);
        case P::STRING:
            if (at.broken) return make(at.span, ast::NameRef{}, 1);  // of what it holds nothing is known
            return make(at.span, ast::StringLit{string(token)}, 1);
        case P::BLOCK: return make(at.span, ast::BlockLit{}, 1);
        default: return make(at.span, ast::BoolLit{at.type == P::TRUE}, 1);
    }
}

Builder::Sub Builder::primary(P::PrimaryContext* tree) {
    if (tree->literal != nullptr) return literal(tree->literal);
    if (tree->inner != nullptr) {
        Sub out = sub(tree->inner);
        out.expr->parenthesised = true;
        out.expr->span = span(tree);
        return {std::move(out.expr), out.depth + 1};
    }
    ast::Name callee = name(tree->name);
    if (tree->call == nullptr) return make(span(tree), ast::NameRef{std::move(callee)}, 1);
    unsigned depth = 1;
    ast::Call call{nullptr, std::move(callee), args(tree->call, depth)};
    return make(span(tree), std::move(call), depth + 1);
}

Builder::Sub Builder::suffix(Sub base, P::SuffixContext* tree) {
    const Span at = join(base.expr->span, span(tree));
    if (tree->member != nullptr) {
        const SyntaxToken& token = as_token(tree->member);
        ast::Name callee{std::string(token.text), token.span};
        if (tree->call == nullptr)
            return make(at, ast::FieldAccess{std::move(base.expr), std::move(callee)}, base.depth + 1);
        unsigned depth = base.depth;
        std::vector<ast::Arg> arguments = args(tree->call, depth);
        return make(at, ast::Call{std::move(base.expr), std::move(callee), std::move(arguments)}, depth + 1);
    }
    Sub low, high;
    if (tree->low != nullptr) low = sub(tree->low);
    if (tree->high != nullptr) high = sub(tree->high);
    const unsigned depth = std::max({base.depth, low.depth, high.depth}) + 1;
    if (tree->dots == nullptr) return make(at, ast::Index{std::move(base.expr), std::move(low.expr)}, depth);
    return make(at, ast::Slice{std::move(base.expr), std::move(low.expr), std::move(high.expr)}, depth);
}

std::vector<ast::Arg> Builder::args(P::CallArgsContext* tree, unsigned& depth) {
    std::vector<ast::Arg> out;
    out.reserve(tree->args.size());
    for (P::ArgContext* each : tree->args) out.push_back(arg(each, depth));
    return out;
}

// `max (N)`: to the parser this is a call of the function max, which takes two values.
void Builder::take_bound(ast::Arg& arg) {
    auto* call = std::get_if<ast::Call>(&arg.value->node);
    if (call == nullptr || arg.value->parenthesised || call->receiver != nullptr || call->callee.text != "max") return;
    if (call->args.size() != 1 || !call->args[0].value || call->args[0].is_max || call->args[0].by ||
        call->args[0].lambda)
        return;
    ast::ExprPtr bound = std::move(call->args[0].value);
    arg.value = std::move(bound);
    arg.is_max = true;
}

ast::Arg Builder::arg(P::ArgContext* tree, unsigned& depth) {
    const auto take = [&](P::ExprContext* from) {
        Sub each = sub(from);
        depth = std::max(depth, each.depth);
        return std::move(each.expr);
    };
    ast::Arg out;
    if (tree->value == nullptr) {
        out.is_max = true;
        out.value = take(tree->bound);
        return out;
    }
    out.value = take(tree->value);
    if (tree->by == nullptr && tree->body == nullptr) take_bound(out);
    if (tree->by != nullptr) out.by = take(tree->by);
    if (tree->body == nullptr) return out;
    // `value by x => body` or `x => body`: what stands before the arrow is the parameter.
    ast::ExprPtr& before = tree->by != nullptr ? out.by : out.value;
    auto* param = std::get_if<ast::NameRef>(&before->node);
    if (param == nullptr || before->parenthesised) {
        diags_.report(code::unexpected, before->span, "expected one name before `=>`", "write `x => expression`");
    }
    out.lambda = ast::Lambda{param != nullptr ? std::move(param->name) : ast::Name{}, take(tree->body)};
    before.reset();
    return out;
}

// A call or an access that stands as a statement.
ast::ExprPtr Builder::act_call(P::ActStmtContext* tree) {
    Sub out;
    if (tree->whole != nullptr) {
        out = literal(tree->whole);
    } else if (tree->call != nullptr) {
        unsigned depth = 1;
        ast::Call call{nullptr, name(tree->name), args(tree->call, depth)};
        const Span at = join(first_of(tree).span, span(tree->call));
        out = make(at, std::move(call), depth + 1);
    } else {
        out = make(first_of(tree).span, ast::NameRef{name(tree->name)}, 1);
    }
    for (P::SuffixContext* each : tree->suffixes) out = suffix(std::move(out), each);
    return std::move(out.expr);
}

}  // namespace chainio::syntax
