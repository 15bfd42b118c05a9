#include <algorithm>
#include <array>

#include "compiler/syntax/characters.h"
#include "compiler/syntax/codes.h"
#include "compiler/syntax/repair.h"
#include "compiler/syntax/tokens.h"
#include "compiler/syntax/yaml_read.h"

namespace chainio::syntax {

ast::Chain YamlReader::chain(const Node& node) {
    map(node, "a chain", {"chain", "params", "on", "class", "returns", "hops", "state", "steps", "done", "do"});
    one_of(node, "a chain", "params", "on");
    ast::Chain out;
    out.name = name(need(node, "chain"));
    for (const Pair* entry : pairs(find(node, "params"), "a parameter")) {
        ast::ChainParam param;
        param.name = name(entry->first);
        param.type.base = ast::NamedType{{{}, {"", entry->second.span}}};
        if (scalar(entry->second, "a type")) {
            fragment(entry->second, [&](Reader& reader, Builder& builder) {
                if (auto* tree = reader.read_one(&P::paramType)) builder.param_type(param, tree);
            });
        }
        out.params.push_back(std::move(param));
    }
    const Node* event = find(node, "on");
    if (event != nullptr && scalar(*event, "an event")) {
        fragment(*event, [&](Reader& reader, Builder& builder) {
            if (auto* tree = reader.read_one(&P::event)) out.event = builder.event(tree);
        });
    }
    out.priority_class = optional_name(find(node, "class"));
    if (const Node* returns = find(node, "returns")) out.returns = base_type(*returns);
    out.hops = expr(find(node, "hops"));
    state(out, find(node, "state"));
    const Node* steps = find(node, "steps");
    for (const Node& each : list(steps, "steps")) out.steps.push_back(step(each));
    out.steps_unread = steps != nullptr && !steps->null && steps->kind != Node::Kind::list;
    if (const Pair* done = find_pair(node, "done")) {
        begin(out.done_comments, done->first);
        out.done = block(&done->second);
    }
    out.body = block(find(node, "do"));
    out.body.span = node.span;
    if (event != nullptr && !out.event) {  // it is no chain to call, whose statements would be out of place
        out.body.stmts.clear();
        broken_.push_back(out.name.text);
    }
    return out;
}

void YamlReader::state(ast::Chain& to, const Node* node) {
    for (const Pair* entry : pairs(node, "a state variable")) {
        ast::StateVar out;
        out.span = entry->first.span;
        begin(out.comments, entry->first);
        out.name = name(entry->first);
        out.type.base = ast::NamedType{{{}, {"", entry->second.span}}};
        if (scalar(entry->second, "a type")) {
            fragment(entry->second, [&](Reader& reader, Builder& builder) {
                if (auto* tree = reader.read_one(&P::stateType)) builder.state_type(out, tree);
            });
        }
        to.state.push_back(std::move(out));
    }
}

ast::Step YamlReader::step(const Node& node) {
    ast::Step out;
    out.span = node.span;
    begin(out.comments, node);
    const std::size_t since = inside_.size();
    if (!map(node, "a step", {"step", "view", "record", "from", "at", "for", "in", "do"})) return out;
    out.name = name(need(node, "step"));
    out.param = name(need(node, "view"));
    if (const Node& record = need(node, "record"); record.text != "block") out.record = qualified(record);
    out.from = expr(find(node, "from"));
    out.at = expr(find(node, "at"));
    out.length = expr(find(node, "for"));
    out.file = optional_name(find(node, "in"));
    take_inside(since, out.comments);
    out.body = block(find(node, "do"));
    return out;
}

// A list of statements, or one statement.
ast::Block YamlReader::block(const Node* node) {
    ast::Block out;
    if (node == nullptr) return out;
    out.span = node->span;
    if (node->null) return out;
    if (nested_ + 2 > max_nesting) {
        diags_.report(code::too_deep, node->span,
                      "statements are nested deeper than " + std::to_string(max_nesting) + " levels",
                      "move the inner part into a step of its own");
        return out;
    }
    nested_ += 2;  // a block, and what may stand around it: the braces of a `match`
    if (node->kind == Node::Kind::list) {
        for (const Node& each : node->items) stmt(each, out);
    } else {
        stmt(*node, out);
    }
    nested_ -= 2;
    return out;
}

void YamlReader::stmt(const Node& node, ast::Block& to) {
    auto out = std::make_unique<ast::Stmt>();
    out->span = node.span;
    begin(out->comments, node);
    const std::size_t since = inside_.size();
    const bool is_text = node.kind == Node::Kind::scalar;
    if (is_text ? !scalar(node, "a statement") || !stmt_text(out, node) : !stmt_node(*out, node)) return;
    take_inside(since, out->comments);
    to.stmts.push_back(std::move(out));
}

bool YamlReader::stmt_text(std::unique_ptr<ast::Stmt>& to, const Node& node) {
    bool is_read = false;
    fragment(
        node,
        [&](Reader& reader, Builder& builder) {
            if (auto* tree = reader.read_one(&P::stmt)) {
                ast::Comments around = std::move(to->comments);
                to = builder.stmt(tree);
                ast::Comments& within = to->comments;
                around.leading.insert(around.leading.end(), within.leading.begin(), within.leading.end());
                if (around.trailing.empty())
                    around.trailing = std::move(within.trailing);
                else if (!within.trailing.empty())
                    around.leading.push_back(std::move(within.trailing));
                within = std::move(around);
                is_read = true;
            } else {
                for (std::string& each : declared_names(reader.tokens(), {0, reader.tokens().size()}))
                    broken_.push_back(std::move(each));
            }
        },
        TextKind::stmt);
    return is_read;
}

// `- if k > 1: return 2`: what stands behind the word in the .chain form is the value of a key here.
bool YamlReader::is_construct_with_text(const Node& key) {
    static constexpr std::string_view of_if = "is a key of its `if`, beside `then`: ";
    static constexpr std::array<std::array<std::string_view, 2>, 6> forms = {{
        {"if", "`- if: CONDITION`, then `then: …`"},
        {"for", "`- for: NAME`, then `in: …`, `max: …` and `do: …`"},
        {"when", "`- when: CONDITION`, then `as: …` and `do: …`"},
        {"match", "`- match: VALUE`, then `arms: …`"},
        {"else", "`else: …`; with a condition it is `elif: [{if: …, then: …}]`"},
        {"elif", "`elif: [{if: …, then: …}]`"},
    }};
    const std::string_view text = key.text;
    for (const auto& [word, form] : forms) {
        if (!text.starts_with(word) || text.substr(word.size(), 1) != " ") continue;
        const bool is_part = word == "else" || word == "elif";
        diags_.report(code::yaml_no_construct, key.span, "this is not a statement",
                      in_ticks(word) + " " + std::string(is_part ? of_if : "is a key: ") + std::string(form));
        return true;
    }
    return false;
}

// `- let x: r.n`, `- return: x` and `- var n: u64 = 0`: to YAML a simple statement with `: ` in it is a mapping.
bool YamlReader::is_simple_with_keys(const Node& node) {
    static const std::vector<std::string_view> verbs = {"goto", "next",  "return", "fail",    "emit",
                                                        "mark", "reply", "skip",   "prefetch"};
    if (node.kind != Node::Kind::map || node.pairs.size() != 1) return false;
    const auto& [key, value] = node.pairs.front();
    const std::string name = key.text.starts_with("let ") ? key.text.substr(4) : "";
    const bool lets = !name.empty() && name.find(' ') == std::string::npos;
    const bool verb = std::ranges::find(verbs, key.text) != verbs.end();
    if (!verb && key.text.find(' ') == std::string::npos) return false;
    if (is_construct_with_text(key)) return true;
    std::string rest = value.kind == Node::Kind::scalar ? value.text : "…";
    // `let y: u64 = 3`: a type, which a `let` does not name.
    if (const std::size_t sign = rest.find(" = "); lets && sign != std::string::npos) rest.erase(0, sign + 3);
    const std::string text = lets ? "let " + name + " = " + rest : key.text + (verb ? " " : ": ") + rest;
    diags_.report(code::yaml_no_construct, key.span, "this is a mapping, and a simple statement is a text",
                  lets || verb ? "write " + in_ticks("- " + text)
                               : "a text with `: ` in it stands in quotes: " + in_ticks("- '" + text + "'"));
    if (key.text.starts_with("let ") || key.text.starts_with("var ")) broken_.push_back(key.text.substr(4));
    return true;
}

bool YamlReader::stmt_node(ast::Stmt& to, const Node& node) {
    if (is_simple_with_keys(node)) return false;
    const std::string_view kind = construct(node, {"if", "match", "for", "when", "let"}, "a statement");
    if (kind.empty()) return false;
    if (kind == "if") {
        to.node = if_stmt(node);
    } else if (kind == "match") {
        to.node = match(node);
    } else if (kind == "for") {
        map(node, "a loop", {"for", "in", "max", "do"});
        ast::For out;
        out.name = local_name(need(node, "for"));
        out.range = expr(&need(node, "in"));
        out.max = expr(find(node, "max"));
        out.body = block(find(node, "do"));
        to.node = std::move(out);
    } else if (kind == "when") {
        map(node, "a `when`", {"when", "as", "do"});
        ast::When out;
        out.condition = expr(&need(node, "when"));
        out.bind = optional_name(find(node, "as"));
        out.body = block(find(node, "do"));
        to.node = std::move(out);
    } else {
        map(node, "a `let`", {"let", "value", "else"});
        ast::Let out;
        out.name = local_name(need(node, "let"));
        out.value = expr(&need(node, "value"));
        if (const Node* otherwise = find(node, "else")) out.otherwise_block = block(otherwise);
        to.node = std::move(out);
    }
    return true;
}

ast::If YamlReader::if_stmt(const Node& node) {
    map(node, "an `if`", {"if", "then", "elif", "else"});
    ast::If out{.condition = expr(&need(node, "if")), .yes = block(find(node, "then")), .no = std::nullopt};
    ast::If* last = &out;
    const std::size_t around = else_ifs_;
    for (const Node& each : list(find(node, "elif"), "`if` and `then`")) {
        if (++else_ifs_ > max_nesting) {
            diags_.report(code::too_deep, each.span,
                          "`elif` is nested deeper than " + std::to_string(max_nesting) + " levels",
                          "use `match`, or move the inner part into a step of its own");
            break;
        }
        if (!map(each, "an `elif`", {"if", "then"})) continue;
        auto inner = std::make_unique<ast::Stmt>();
        inner->span = each.span;
        inner->node =
            ast::If{.condition = expr(&need(each, "if")), .yes = block(find(each, "then")), .no = std::nullopt};
        ast::Block held;
        held.span = each.span;
        held.stmts.push_back(std::move(inner));
        last->no = std::move(held);
        last->else_if = true;
        last = &std::get<ast::If>(last->no->stmts.front()->node);
    }
    if (const Node* otherwise = find(node, "else")) last->no = block(otherwise);
    else_ifs_ = around;
    return out;
}

ast::Match YamlReader::match(const Node& node) {
    map(node, "a `match`", {"match", "arms", "else"});
    ast::Match out;
    out.value = expr(&need(node, "match"));
    for (const Node& each : list(find(node, "arms"), "arms")) {
        ast::MatchArm arm;
        arm.span = each.span;
        begin(arm.comments, each);
        if (!map(each, "an arm", {"case", "do"})) continue;
        const Node& patterns = need(each, "case");
        if (patterns.kind == Node::Kind::list) {
            for (const Node& pattern : patterns.items) arm.patterns.push_back(expr(&pattern));
        } else {
            arm.patterns.push_back(expr(&patterns));
        }
        if (arm.patterns.empty()) arm.patterns.push_back(unreadable(each.span));
        arm.body = block(find(each, "do"));
        out.arms.push_back(std::move(arm));
    }
    if (const Node* otherwise = find(node, "else")) out.otherwise = block(otherwise);
    return out;
}

}  // namespace chainio::syntax
