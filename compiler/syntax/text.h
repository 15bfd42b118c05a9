// Parts of the tree as text of the language, each on one line. Both printers are made of these.
#pragma once
#include <string>

#include "compiler/ast/ast.h"

namespace chainio::syntax {

// Stands where a line may be broken; a blank otherwise. No text of the language holds it but that of comments: strings
// escape control characters.
constexpr char soft_break = '\x1f';
std::string flat(std::string text);  // with blanks
// One of ast::Comments with its end of line, `level` levels further to the right.
std::string comment_line(const std::string& comment, unsigned level);

inline const std::string gap(1, soft_break);

std::string text_of(const ast::Expr& expr);
// ` WORD expr` when there is one.
std::string clause(const char* word, const ast::ExprPtr& expr);
std::string text_of(const ast::QualifiedName& name);
std::string text_of(const ast::Type& type);
std::string text_of(const ast::Field& field);
std::string text_of(const ast::TextItem& item);
std::string text_of(const ast::Binding& binding);
std::string text_of(const ast::FileClass& files);
std::string text_of(const ast::AppItem& item);
std::string text_of(const ast::ChainParam& param);
std::string text_of(const ast::Event& event);
std::string text_of(const ast::StateVar& var);
std::string text_of(const ast::Endpoint& endpoint);
std::string text_of(const ast::Cache& cache);
std::string text_of(const ast::Probe& probe);
std::string text_of(const ast::Import& import);
std::string chain_head(const ast::Chain& chain);  // without the brace
std::string step_head(const ast::Step& step);
std::string step_param(const ast::Step& step);  // what stands between the parentheses
std::string service_head(const ast::Service& service);
std::string when_condition(const ast::When& when);  // without the binding
std::string list_text(const std::vector<ast::ExprPtr>& list);

// A statement that holds no other one; empty for the others. A long reply has commas, so that it may be broken
// anywhere.
std::string leaf_text(const ast::Stmt& stmt, bool reply_commas);
bool is_leaf(const ast::Stmt& stmt);
// A leaf, or a `let` or `var` without braces; empty for the others.
std::string simple_text(const ast::Stmt& stmt);
std::string body_text(const ast::Field& field);    // without the name
std::string body_text(const ast::TextItem& item);  // of a capture, without the name
std::string body_text(const ast::StateVar& var);

}  // namespace chainio::syntax
