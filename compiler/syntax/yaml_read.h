// The YAML form to the syntax tree. Lists and mappings give the structure; names, types, expressions and simple
// statements are texts, read by the same rules of the grammar as in the .chain form. docs/yaml.md describes the form.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/syntax/build.h"
#include "compiler/syntax/reader.h"
#include "compiler/syntax/yaml_tree.h"

namespace chainio::syntax {

class YamlReader {
  public:
    YamlReader(FileId file, std::string_view text, CommentList& comments, diag::Diagnostics& diags,
               std::vector<std::string>& broken)
        : file_(file), text_(text), comments_(comments), diags_(diags), broken_(broken) {}

    std::vector<ast::Item> items(const YamlNode& root);

  private:
    using Node = YamlNode;
    using Pair = YamlPair;
    using Keys = std::initializer_list<std::string_view>;

    // yaml_values.cpp: texts
    template <typename Use>
    void fragment(const Node& node, Use use, TextKind kind = TextKind::value);
    ast::ExprPtr expr(const Node* node);  // nullptr gives nullptr
    ast::ExprPtr unreadable(Span span);
    ast::Name name(const Node& node);
    ast::Name local_name(const Node& node);
    std::optional<ast::Name> optional_name(const Node* node);
    ast::QualifiedName qualified(const Node& node);
    std::string string(const Node& node);
    ast::Type base_type(const Node& node);
    bool flag(const Node* node);
    bool scalar(const Node& node, std::string_view what);
    // yaml_values.cpp: structure
    const std::vector<Node>& list(const Node* node, std::string_view what);
    bool map(const Node& node, std::string_view what, Keys keys);
    void one_of(const Node& node, std::string_view what, std::string_view key, std::string_view other);
    std::vector<const Pair*> pairs(const Node* node, std::string_view what);
    const Pair* single(const Node& node, std::string_view what);
    static const Pair* find_pair(const Node& map, std::string_view key);
    static const Node* find(const Node& map, std::string_view key);
    const Node& need(const Node& map, std::string_view key);
    std::string_view construct(const Node& node, Keys constructs, std::string_view what);
    void begin(ast::Comments& to, const Node& node);
    void take_inside(std::size_t since, ast::Comments& to);

    // yaml_decl.cpp
    bool item(ast::Item& to, const Node& node);
    ast::Import import(const Node& node);
    ast::Param param(const Node& node);
    ast::App app(const Node& node);
    bool app_item(ast::AppItem& to, const Node& node, std::string_view kind);
    ast::FileClass file_class(const Node& node, std::string_view name_key);
    ast::PriorityClass priority_class(const Node& node);
    void class_attr(ast::PriorityClass& to, const Pair& pair);
    ast::Socket socket(const Node& node);
    ast::Batch batch(const Node& node);
    std::vector<ast::Field> fields(const Node* node);
    void field(ast::Field& to, const Pair& entry);
    ast::TextRule text_rule(const Node& node);
    void text_item(ast::TextItem& to, const Node& node);
    ast::Fn fn(const Node& node);
    ast::Service service(const Node& node);
    ast::Request request(const Node& node);
    ast::Handler handler(const Node& node);
    ast::Probe probe(const Node& node);

    // yaml_chain.cpp
    ast::Chain chain(const Node& node);
    void state(ast::Chain& to, const Node* node);
    ast::Step step(const Node& node);
    ast::Block block(const Node* node);
    void stmt(const Node& node, ast::Block& to);
    bool stmt_text(std::unique_ptr<ast::Stmt>& to, const Node& node);
    bool is_construct_with_text(const Node& key);
    bool is_simple_with_keys(const Node& node);
    bool stmt_node(ast::Stmt& to, const Node& node);
    ast::If if_stmt(const Node& node);
    ast::Match match(const Node& node);

    FileId file_;
    std::string_view text_;
    CommentList& comments_;
    diag::Diagnostics& diags_;
    std::size_t nested_ = 3;           // braces around a text in the .chain form; those of a chain and a step, at least
    std::size_t else_ifs_ = 0;         // around the statement that is being read, as the builder counts them
    std::vector<std::string> inside_;  // comments in texts, which go in front of the entry that has these
    std::vector<std::string>& broken_;  // names declared in what could not be read
};

template <typename Use>
void YamlReader::fragment(const Node& node, Use use, TextKind kind) {
    Reader reader(file_, node.text, {.places = &node.places, .kind = kind, .nested = nested_}, diags_);
    Builder builder(reader.comments(), reader.tokens(), diags_, else_ifs_);
    use(reader, builder);
    reader.comments().take_rest(0, std::string_view::npos, inside_);
}

}  // namespace chainio::syntax
