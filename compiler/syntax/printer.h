// Lays the parts of the tree out in lines: 2 blanks a level, at most 120 columns where the text allows it.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "compiler/ast/ast.h"

namespace chainio::syntax {

class Printer {
  public:
    // `keep`: with the comments and empty lines of the source.
    explicit Printer(bool keep) : keep_(keep) {}

    std::string file(const ast::File& file);
    // Where each canonical_line of the tree is, and the line that belongs there.
    using Place = std::pair<const std::uint32_t*, std::uint32_t>;
    const std::vector<Place>& places() const { return places_; }

  private:
    using Strings = std::vector<std::string>;

    // print_decl.cpp
    void item(const ast::Item& item);
    void node(const ast::Import& import);
    void node(const ast::Param& param);
    void node(const ast::Const& constant);
    void node(const ast::App& app);
    void node(const ast::AppItem& item);
    void node(const ast::Record& record);
    void node(const ast::TextRule& rule);
    void node(const ast::Fn& fn);
    void node(const ast::Chain& chain);
    void node(const ast::Service& service);
    void node(const ast::Probe& probe);
    void fields(const std::string& head, const std::vector<ast::Field>& fields, const Strings& closing);
    void text_rule(const std::string& head, const ast::TextRule& rule);
    void state(const std::vector<ast::StateVar>& vars);
    void step(const ast::Step& step);
    void done(const ast::Chain& chain);
    void handler(const ast::Handler& handler);

    // print_stmt.cpp
    void stmt(const ast::Stmt& stmt, bool first);
    void stmts(const std::vector<ast::StmtPtr>& list, const Strings& closing);
    void node(const ast::Stmt& stmt, const ast::Let& let);
    void node(const ast::Stmt& stmt, const ast::Var& var);
    void node(const ast::Stmt& stmt, const ast::If& node);
    void node(const ast::Stmt& stmt, const ast::When& when);
    void node(const ast::Stmt& stmt, const ast::Match& node);
    void node(const ast::Stmt& stmt, const ast::For& loop);
    template <typename Leaf>
        requires(!ast::Compound<Leaf>)
    void node(const ast::Stmt& stmt, const Leaf&) {
        leaf(stmt);
    }
    void leaf(const ast::Stmt& stmt);
    void match_else(const ast::Block& block);
    // `HEAD { … }`, on one line when the block is one short statement. False: the closing brace is not written yet.
    void block(const std::string& head, const ast::Block& block, const std::string& trailing);
    bool one_line(const std::string& head, const ast::Block& block, const std::string& trailing);
    void open(const std::string& head, const std::string& trailing);
    void close(const std::string& tail = "");
    void mark(const std::uint32_t& canonical_line) { places_.emplace_back(&canonical_line, line_); }

    // printer.cpp
    void line(const std::string& text, const std::string& trailing = "");
    void leading(const ast::Comments& comments, bool first);
    void comment_lines(const Strings& comments);
    bool fits(const std::string& text) const;
    const std::string& kept(const std::string& comment) const { return keep_ ? comment : none_; }
    bool commented(const ast::Comments& c) const { return keep_ && (!c.leading.empty() || !c.trailing.empty()); }

    bool keep_;
    std::string out_;
    std::string none_;
    std::uint32_t line_ = 1;
    unsigned level_ = 0;
    std::string trailing_;  // of the item that is being printed
    std::vector<Place> places_;
};

}  // namespace chainio::syntax
