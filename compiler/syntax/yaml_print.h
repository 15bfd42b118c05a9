// The syntax tree as YAML.
#pragma once
#include <string>
#include <vector>

#include "compiler/ast/ast.h"

namespace chainio::syntax {

class YamlPrinter {
  public:
    std::string file(const ast::File& file);

  private:
    using Strings = std::vector<std::string>;

    // yaml_print.cpp: lines
    void key(const std::string& name, const std::string& value, const std::string& trailing = "");
    void text(const std::string& value, const std::string& trailing);  // an entry of a list that is a text
    void open(const std::string& name, const std::string& trailing = "");
    void close() { --level_; }
    void begin(const ast::Comments& comments, bool first);
    void entry(const ast::Comments& comments, bool first);  // the next key begins an entry of a list
    void comments(const Strings& lines);
    void optional(const std::string& name, const ast::ExprPtr& expr);
    void indent();

    // yaml_print_decl.cpp
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
    void app_node(const ast::MatchExe& exe);
    void app_node(const ast::FileClass& files);
    void app_node(const ast::Socket& socket);
    void app_node(const ast::PriorityClass& priority);
    void app_node(const ast::Batch& batch);
    void file_class(const std::string& name_key, const ast::FileClass& files);
    void fields(const std::vector<ast::Field>& fields, const Strings& closing);
    void state(const std::vector<ast::StateVar>& vars);
    void step(const ast::Step& step, bool first);
    struct Pair {
        std::string name, value;
    };
    static bool any_twice(const std::vector<Pair>& list);
    void pairs(const std::string& name, const std::vector<Pair>& pairs);

    // yaml_print_stmt.cpp
    void block(const std::string& name, const ast::Block& block);
    void stmt(const ast::Stmt& stmt, bool first, const Strings& closing);
    void node(const ast::If& node);
    void node(const ast::When& node);
    void node(const ast::Match& node);
    void node(const ast::For& node);
    void node(const ast::Let& node);
    // These are one line of text, which stmt() has written.
    void node(const ast::Var&) {}
    template <typename Leaf>
        requires(!ast::Compound<Leaf>)
    void node(const Leaf&) {}

    std::string out_;
    unsigned level_ = 0;
    bool dash_ = false;     // the next line begins an entry of a list
    std::string trailing_;  // the comment behind the next line
};

}  // namespace chainio::syntax
