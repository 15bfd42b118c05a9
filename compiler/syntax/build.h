// Parse trees to the syntax tree of compiler/ast.
#pragma once
#include <string>

#include "compiler/ast/ast.h"
#include "compiler/diag/diag.h"
#include "compiler/syntax/comments.h"
#include "compiler/syntax/grammar.h"

namespace chainio::syntax {

class Builder {
  public:
    // `else_ifs`: levels of them around the text.
    Builder(CommentList& comments, const std::vector<SyntaxToken>& tokens, diag::Diagnostics& diags,
            std::size_t else_ifs = 0)
        : comments_(comments), tokens_(tokens), diags_(diags), else_ifs_(else_ifs) {}

    ast::Item item(P::ItemContext* tree);
    ast::AppItem app_item(P::AppItemContext* tree);
    ast::FileClass file_class(P::FilesDeclContext* tree);
    ast::Field field(P::FieldContext* tree);
    void field_body(ast::Field& to, P::FieldBodyContext* tree);
    ast::TextItem text_item(P::TextItemContext* tree);
    void capture(ast::TextItem& to, P::CaptureContext* tree);
    ast::TextRule text_rule(P::TextDeclContext* tree);
    ast::Fn fn(P::FnDeclContext* tree);
    ast::ChainParam param(P::ParamContext* tree);
    void param_type(ast::ChainParam& to, P::ParamTypeContext* tree);
    ast::Event event(P::EventContext* tree);
    ast::StateVar state_var(P::StateVarContext* tree);
    void state_type(ast::StateVar& to, P::StateTypeContext* tree);
    ast::Step step(P::StepDeclContext* tree);
    ast::Endpoint endpoint(P::EndpointContext* tree);
    ast::Probe probe(P::ProbeDeclContext* tree);
    ast::Type type(P::FieldTypeContext* tree);
    ast::Type base_type(P::BaseTypeContext* tree);
    ast::StmtPtr stmt(P::StmtContext* tree);
    ast::ExprPtr expr(P::ExprContext* tree);  // nullptr gives nullptr
    ast::QualifiedName qualified(P::QualifiedContext* tree);
    ast::Name name(antlr4::ParserRuleContext* word);
    std::string string(antlr4::Token* token);
    static Span span(antlr4::ParserRuleContext* tree);

  private:
    struct Sub {  // an expression and the levels below and with it
        ast::ExprPtr expr;
        unsigned depth = 1;
    };
    using Token = antlr4::Token;

    // build_expr.cpp
    Sub sub(P::ExprContext* tree);
    Sub flat(P::FlatContext* tree);
    Sub climb(P::FlatContext* tree, std::size_t& tail, int least);
    Sub operand(P::OperandContext* tree);
    Sub primary(P::PrimaryContext* tree);
    Sub suffix(Sub base, P::SuffixContext* tree);
    Sub literal(Token* token);
    std::vector<ast::Arg> args(P::CallArgsContext* tree, unsigned& depth);
    ast::Arg arg(P::ArgContext* tree, unsigned& depth);
    static void take_bound(ast::Arg& arg);
    Sub make(Span span, decltype(ast::Expr::node) node, unsigned depth);
    ast::ExprPtr act_call(P::ActStmtContext* tree);

    // build_stmt.cpp
    ast::Block block(P::BlockContext* tree);
    ast::StmtPtr leaf(P::LeafContext* tree);
    void leaf_node(ast::Stmt& to, P::LeafContext* tree);
    void stmt_node(ast::Stmt& to, P::StmtContext* tree);
    ast::Let let(P::LetStmtContext* tree);
    ast::If if_stmt(P::IfStmtContext* tree);
    ast::When when(P::WhenStmtContext* tree);
    ast::Match match(P::MatchStmtContext* tree);
    ast::For for_stmt(P::ForStmtContext* tree);
    ast::Goto goto_stmt(P::GotoStmtContext* tree);
    ast::Prefetch prefetch(P::PrefetchStmtContext* tree);
    ast::Mark mark(P::MarkStmtContext* tree);
    ast::Reply reply(P::ReplyStmtContext* tree);

    // build_decl.cpp
    void item_node(ast::Item& to, P::ItemContext* tree);
    ast::Import import(P::ImportDeclContext* tree);
    ast::App app(P::AppDeclContext* tree);
    void app_item_node(ast::AppItem& to, P::AppItemContext* tree);
    ast::PriorityClass priority_class(P::ClassDeclContext* tree);
    ast::Batch batch(P::BatchDeclContext* tree);
    ast::Binding binding(P::BindingContext* tree);
    ast::Record record(P::RecordDeclContext* tree);
    std::vector<ast::Field> fields(const std::vector<P::FieldContext*>& trees);
    void field_mod(ast::Field& to, P::FieldModContext* tree);
    void split_at(ast::Field& to);
    ast::Chain chain(P::ChainDeclContext* tree);
    void state(ast::Chain& to, P::StateDeclContext* tree);
    ast::Service service(P::ServiceDeclContext* tree);
    ast::Handler handler(P::HandlerDeclContext* tree);

    // Comments around a part of the tree. begin() before its children are built, end() after.
    void begin(ast::Comments& to, antlr4::ParserRuleContext* tree);
    void end(ast::Comments& to, antlr4::ParserRuleContext* tree);
    void after_brace(ast::Comments& to, antlr4::Token* brace);
    void before_close(std::vector<std::string>& to, antlr4::ParserRuleContext* braced);

    CommentList& comments_;
    const std::vector<SyntaxToken>& tokens_;
    diag::Diagnostics& diags_;
    std::size_t else_ifs_;  // around the statement that is being built: each nests the rest of its `if` once more
};

}  // namespace chainio::syntax
