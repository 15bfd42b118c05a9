#include "compiler/syntax/build.h"
#include "compiler/syntax/codes.h"
#include "compiler/syntax/tokens.h"

namespace chainio::syntax {

namespace {

// The brace after which a comment on the same line belongs to the statement; nullptr for statements without one.
antlr4::Token* brace_of(P::StmtContext* tree) {
    P::BlockContext* block = nullptr;
    if (tree->let != nullptr) block = tree->let->otherwise;
    if (tree->if_ != nullptr) block = tree->if_->yes;
    if (tree->when != nullptr) block = tree->when->body;
    if (tree->for_ != nullptr) block = tree->for_->body;
    if (tree->match_ != nullptr) return tree->match_->brace;
    return block == nullptr ? nullptr : block->start;
}

}  // namespace

void Builder::begin(ast::Comments& to, antlr4::ParserRuleContext* tree) {
    comments_.take_leading(as_token(tree->start), to);
}

void Builder::end(ast::Comments& to, antlr4::ParserRuleContext* tree) {
    const antlr4::Token* last = tree->stop;
    while (as_token(last).text.empty() && last->getTokenIndex() > 0) last = &tokens_[last->getTokenIndex() - 1];
    comments_.take_rest(as_token(tree->start).offset, as_token(last).offset, to.leading);
    comments_.take_trailing(as_token(last), to);
}

void Builder::after_brace(ast::Comments& to, antlr4::Token* brace) {
    if (brace != nullptr) comments_.take_trailing(as_token(brace), to);
}

// Comments that stand between the last child and the closing brace.
void Builder::before_close(std::vector<std::string>& to, antlr4::ParserRuleContext* braced) {
    std::size_t from = braced->start->getTokenIndex();
    const SyntaxToken& close = as_token(braced->stop);
    if (close.index <= from) return;
    const SyntaxToken& before = tokens_[close.index - 1];
    comments_.take_rest(before.offset, close.offset, to, before.type != P::LBRACE);
}

ast::Block Builder::block(P::BlockContext* tree) {
    ast::Block out;
    out.span = span(tree);
    out.stmts.reserve(tree->stmts.size());
    for (P::StmtContext* each : tree->stmts) out.stmts.push_back(stmt(each));
    before_close(out.closing_comments, tree);
    return out;
}

ast::StmtPtr Builder::stmt(P::StmtContext* tree) {
    auto out = std::make_unique<ast::Stmt>();
    out->span = span(tree);
    begin(out->comments, tree);
    after_brace(out->comments, brace_of(tree));
    stmt_node(*out, tree);
    end(out->comments, tree);
    return out;
}

void Builder::stmt_node(ast::Stmt& to, P::StmtContext* tree) {
    if (tree->simple != nullptr) {
        leaf_node(to, tree->simple);
    } else if (tree->let != nullptr) {
        to.node = let(tree->let);
    } else if (P::VarStmtContext* var = tree->var; var != nullptr) {
        ast::Var out{name(var->name), std::nullopt, expr(var->value)};
        if (var->type != nullptr) out.type = base_type(var->type);
        to.node = std::move(out);
    } else if (tree->if_ != nullptr) {
        to.node = if_stmt(tree->if_);
    } else if (tree->when != nullptr) {
        to.node = when(tree->when);
    } else if (tree->match_ != nullptr) {
        to.node = match(tree->match_);
    } else {
        to.node = for_stmt(tree->for_);
    }
}

ast::StmtPtr Builder::leaf(P::LeafContext* tree) {
    auto out = std::make_unique<ast::Stmt>();
    out->span = span(tree);
    leaf_node(*out, tree);
    return out;
}

void Builder::leaf_node(ast::Stmt& to, P::LeafContext* tree) {
    if (tree->jump != nullptr) {
        if (tree->jump->getType() == P::BREAK)
            to.node = ast::Break{};
        else
            to.node = ast::Continue{};
    } else if (tree->go != nullptr) {
        to.node = goto_stmt(tree->go);
    } else if (tree->back != nullptr) {
        if (tree->back->value != nullptr && as_token(tree->back->value->start).first_on_line)
            diags_.report(code::unexpected, as_token(tree->back->start).span,
                          "a value of `return` has to begin on the same line",
                          "write it right behind `return`, or remove what stands below");
        to.node = ast::Return{expr(tree->back->value)};
    } else if (tree->emit != nullptr) {
        ast::Emit out;
        for (P::ExprContext* each : tree->emit->values) out.values.push_back(expr(each));
        to.node = std::move(out);
    } else if (tree->fail != nullptr) {
        to.node = ast::Fail{name(tree->fail->reason)};
    } else if (tree->fetch != nullptr) {
        if (tree->fetch->call != nullptr)
            to.node = ast::PrefetchVia{expr(tree->fetch->call)};
        else
            to.node = prefetch(tree->fetch);
    } else if (tree->mark != nullptr) {
        to.node = mark(tree->mark);
    } else if (tree->answer != nullptr) {
        to.node = reply(tree->answer);
    } else if (tree->skip != nullptr) {
        to.node = ast::Skip{expr(tree->skip->amount)};
    } else if (tree->act->value != nullptr) {
        to.node = ast::Assign{name(tree->act->name), expr(tree->act->value)};
    } else {
        to.node = ast::CallStmt{act_call(tree->act)};
    }
}

ast::Let Builder::let(P::LetStmtContext* tree) {
    ast::Let out;
    out.name = name(tree->name);
    out.value = expr(tree->value);
    if (tree->simple != nullptr) out.otherwise = leaf(tree->simple);
    if (tree->otherwise != nullptr) out.otherwise_block = block(tree->otherwise);
    return out;
}

ast::If Builder::if_stmt(P::IfStmtContext* tree) {
    ast::If out{.condition = expr(tree->condition), .yes = block(tree->yes), .no = std::nullopt};
    ast::If* last = &out;
    bool closed = false;
    const std::size_t around = else_ifs_;
    for (P::ElsePartContext* part : tree->elses) {
        if (closed) {
            diags_.report(code::unexpected, span(part), "this `else` follows the last `else`",
                          "an `if` has one `else` without a condition, at its end");
            break;
        }
        if (part->no != nullptr) {
            last->no = block(part->no);
            closed = true;
            continue;
        }
        if (++else_ifs_ > max_nesting) {
            diags_.report(code::too_deep, span(part),
                          "`else if` is nested deeper than " + std::to_string(max_nesting) + " levels",
                          "use `match`, or move the inner part into a step of its own");
            break;
        }
        auto inner = std::make_unique<ast::Stmt>();
        inner->span = span(part);
        inner->node = ast::If{.condition = expr(part->condition), .yes = block(part->yes), .no = std::nullopt};
        ast::Block held;
        held.span = inner->span;
        held.stmts.push_back(std::move(inner));
        last->no = std::move(held);
        last->else_if = true;
        last = &std::get<ast::If>(last->no->stmts.front()->node);
    }
    else_ifs_ = around;
    return out;
}

ast::When Builder::when(P::WhenStmtContext* tree) {
    ast::When out;
    out.condition = expr(tree->condition);
    if (auto* cast = std::get_if<ast::Cast>(&out.condition->node); cast != nullptr && !out.condition->parenthesised) {
        out.bind = std::move(cast->type);
        ast::ExprPtr value = std::move(cast->value);
        out.condition = std::move(value);
    }
    out.body = block(tree->body);
    return out;
}

ast::Match Builder::match(P::MatchStmtContext* tree) {
    ast::Match out;
    out.value = expr(tree->value);
    for (P::MatchArmContext* each : tree->arms) {
        ast::MatchArm arm;
        arm.span = span(each);
        begin(arm.comments, each);
        after_brace(arm.comments, each->body->start);
        for (P::ExprContext* pattern : each->patterns) arm.patterns.push_back(expr(pattern));
        arm.body = block(each->body);
        end(arm.comments, each);
        out.arms.push_back(std::move(arm));
    }
    if (tree->otherwise != nullptr) out.otherwise = block(tree->otherwise);
    if (tree->simple != nullptr) {
        ast::Block held;
        held.span = span(tree->simple);
        held.stmts.push_back(leaf(tree->simple));
        begin(held.stmts.front()->comments, tree->simple);
        end(held.stmts.front()->comments, tree->simple);
        out.otherwise = std::move(held);
    }
    return out;
}

ast::For Builder::for_stmt(P::ForStmtContext* tree) {
    ast::For out;
    out.name = name(tree->name);
    out.range = expr(tree->over);
    out.max = expr(tree->bound);
    out.body = block(tree->body);
    return out;
}

ast::Goto Builder::goto_stmt(P::GotoStmtContext* tree) {
    ast::Goto out;
    out.ends_step = tree->verb->getType() == P::GOTO;
    out.step = name(tree->target);
    out.at = expr(tree->at);
    out.length = expr(tree->length);
    if (tree->file_ != nullptr) out.file = name(tree->file_);
    out.tag = expr(tree->tag);
    return out;
}

ast::Prefetch Builder::prefetch(P::PrefetchStmtContext* tree) {
    return {expr(tree->target), expr(tree->at), expr(tree->length)};
}

ast::Mark Builder::mark(P::MarkStmtContext* tree) {
    return {expr(tree->target), expr(tree->at), expr(tree->value), expr(tree->call)};
}

ast::Reply Builder::reply(P::ReplyStmtContext* tree) {
    ast::Reply out;
    for (P::ReplyPartContext* each : tree->parts) {
        ast::ReplyPart part{expr(each->value), std::nullopt};
        if (each->format != nullptr) part.format = name(each->format);
        out.parts.push_back(std::move(part));
    }
    return out;
}

}  // namespace chainio::syntax
