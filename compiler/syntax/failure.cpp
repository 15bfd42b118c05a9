#include "compiler/syntax/failure.h"

#include <algorithm>
#include <array>

#include "compiler/syntax/characters.h"
#include "compiler/syntax/codes.h"
#include "compiler/syntax/grammar.h"
#include "compiler/syntax/meant.h"
#include "compiler/syntax/scanner.h"
#include "compiler/syntax/tokens.h"

namespace chainio::syntax {
namespace {

using Tokens = std::vector<SyntaxToken>;

[[noreturn]] void raise(antlr4::Parser* parser, const antlr4::Token* token) {
    Failure failure;
    failure.token = token->getTokenIndex();
    failure.expected = parser->getExpectedTokens();
    failure.vocabulary = &parser->getVocabulary();
    for (auto* context = parser->getContext(); context != nullptr;
         context = static_cast<antlr4::ParserRuleContext*>(context->parent)) {
        failure.frames.push_back(
            {context->getRuleIndex(), context->start == nullptr ? failure.token : context->start->getTokenIndex()});
    }
    throw failure;
}

struct Expectation {
    std::string what;
    std::string hint;
};

// The token types that a reader may be told one by one; the others are told as a kind of thing.
std::string spelling(std::size_t type) {
    switch (type) {
        case P::IN_SET: return "`in (`";
        case P::BOUND: return "`max`";
        case P::LENGTH: return "`for`";
        case P::INT: return "a number";
        case P::STRING: return "a string";
        case P::UNDERSCORE: return "`_`";
        default: return "";
    }
}

bool wants_expression(const Failure& f) { return f.expects(P::INT) && f.expects(P::LPAREN) && f.expects(P::TRUE); }

constexpr std::string_view compare_hint = "`=` assigns; to compare, write `==`";
constexpr std::string_view name_hint = "write a name: letters, digits and `_`";
constexpr std::string_view declaration_hint =
    "declarations are import, param, const, app, files, socket, class, batch, record, text, fn, chain, service and "
    "probe";
constexpr std::string_view statement_hint =
    "a statement begins with let, var, if, match, for, when, goto, next, return, fail, emit, prefetch, mark, reply, "
    "skip, "
    "break or continue, or is "
    "an assignment or a call";

// What may stand inside the braces of a rule, when the failure is that the next token neither begins such a thing nor
// closes them.
std::optional<Expectation> list_expectation(const Failure& f) {
    if (!f.expects(P::RBRACE) || f.frames.empty()) return std::nullopt;
    switch (f.frames.front().rule) {
        case P::RuleBlock: return Expectation{"a statement or `}`", std::string(statement_hint)};
        case P::RuleRecordDecl:
        case P::RuleRequestDecl:
            return Expectation{"a field or `}`",
                               "a field is `name: type`, `let name = value`, `_: type` (padding) or `_: at OFFSET`"};
        case P::RuleAppDecl:
            return Expectation{"a declaration of the app or `}`",
                               "an app holds `match exe`, `files`, `socket`, `class` and `batch`"};
        case P::RuleFilesDecl:
            return Expectation{"an attribute of the file class or `}`",
                               "attributes are direct, immutable, no_read_ahead, header, root, index and cache"};
        case P::RuleClassDecl:
            return Expectation{"an attribute of the class or `}`", "attributes are priority, weight and slo"};
        case P::RuleBatchDecl:
            return Expectation{"an attribute of the batch or `}`", "attributes are min, max and adapt"};
        case P::RuleTextDecl:
            return Expectation{"a part of the text rule or `}`",
                               "parts are \"literals\" and captures: `name: token(max 64)`"};
        case P::RuleChainDecl:
            return Expectation{"state, a step, done, a statement or `}`",
                               "a call chain holds `state { … }`, `step name(view: Record …) { … }` and `done { … }`"};
        case P::RuleStateDecl:
            return Expectation{"a state variable or `}`", "a state variable is `name: type` or `name: type = value`"};
        case P::RuleMatchStmt: return Expectation{"an arm, `else` or `}`", "an arm is `value, value { … }`"};
        case P::RuleServiceDecl:
            return Expectation{"request, text, cache, on or `}`",
                               "a service holds `request { … }`, `text`, `cache` and `on request { … }`"};
        case P::RuleImportDecl: return Expectation{"`name = value` or `}`", "give each parameter as `NAME = value`"};
        case P::RuleBaseType: return Expectation{"a bit field or `}`", "a bit field is `name: bits`"};
        default: return std::nullopt;
    }
}

// What a rule wants whose first token does not fit.
std::optional<Expectation> rule_start(std::size_t rule) {
    const std::string type_hint =
        "types are u8, u16le … i64be, bytes(16), bytes(max 64), cstr(max 64), varint_leb128, bits u16le { … } and "
        "names of "
        "records";
    switch (rule) {
        case P::RuleWord:
        case P::RuleLocalWord:
        case P::RuleQualified:
        case P::RuleSharedWord: return Expectation{"a name", std::string(name_hint)};
        case P::RuleBaseType:
        case P::RuleTypeName:
        case P::RuleTypeWord:
        case P::RuleFieldType:
        case P::RuleFieldBody:
        case P::RuleParamType:
        case P::RuleStateType: return Expectation{"a type", type_hint};
        case P::RuleBlock: return Expectation{"`{`", "statements stand in braces: `{ … }`"};
        case P::RuleStmt:
        case P::RuleLeaf: return Expectation{"a statement", std::string(statement_hint)};
        case P::RuleEvent:
            return Expectation{
                "read, open, ready or probe",
                "an event is `on read(FILES) as r`, `on open(…)`, `on ready(SOCKET)` or `on probe(PROBE)`"};
        case P::RuleEndpoint:
            return Expectation{"an endpoint", "an endpoint is `udp 9100 via xdp` or `tcp 9100 via uring`"};
        case P::RuleFileAttr:
            return Expectation{"an attribute",
                               "attributes are direct, immutable, no_read_ahead, header, root, index and cache"};
        case P::RuleTextItem:
            return Expectation{"a part of a text rule", "captures are `name: token(max 64)`, `name: (\"a\" | \"b\")`"};
        case P::RuleItem:
        case P::RuleAppItem: return Expectation{"a declaration", std::string(declaration_hint)};
        default: return std::nullopt;
    }
}

// Behind a value of a statement whose end no word or sign shows: the parser waits for a mark of the pass over the
// tokens.
std::optional<Expectation> mark_expectation(const Failure& f) {
    if (f.expects(P::END))
        return Expectation{"a part of the reply, a statement or `}`",
                           "parts are strings, bytes and numbers with a format: `n:dec`, `n:u32be`"};
    if (f.expects(P::RESULT))
        return Expectation{
            "`let` or the value of the function",
            "behind its `let`s a function has one value; where it begins with `(` or `-`, on its own line"};
    return std::nullopt;
}

std::optional<Expectation> rule_expectation(const Failure& f) {
    for (const Failure::Frame& frame : f.frames) {
        if (frame.start != f.token && &frame != &f.frames.front()) break;
        if (auto found = rule_start(frame.rule)) return found;
    }
    return std::nullopt;
}

std::string join(const std::vector<std::string>& parts) {
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i)
        text += (i == 0 ? "" : i + 1 == parts.size() ? " or " : ", ") + parts[i];
    return text;
}

std::string token_text(std::size_t type) {
    const std::string special = spelling(type);
    if (!special.empty()) return special;
    for (const std::string& word : words()) {
        if (word_type(word) == type) return in_ticks(word);
    }
    return "";
}

Expectation expectation(const Failure& f) {
    if (const auto list = list_expectation(f)) return *list;
    if (const auto mark = mark_expectation(f)) return *mark;
    const std::size_t rule = f.frames.empty() ? P::RuleItem : f.frames.front().rule;
    if (f.expects(P::RPAREN) && !f.expects(P::INT) && !f.expects(P::IDENT)) {
        const bool list =
            rule == P::RuleCallArgs || rule == P::RuleFnDecl || rule == P::RuleChainDecl || rule == P::RuleProbeDecl;
        if (list) return {"`,` or `)`", "separate arguments with `,`"};
    }
    if (rule == P::RuleActStmt)
        return {"`=`, `(` or a member", "an assignment is `name = value`, a call `name(…)` or `name.member(…)`"};
    if (wants_expression(f))
        return {"an expression", "write a value here: a number, a string, a name, a call or `( … )`"};
    if (f.expects(P::IDENT) && !f.expects(P::INT))
        return rule_expectation(f).value_or(Expectation{"a name", std::string(name_hint)});
    std::vector<std::string> each;
    for (const ssize_t type : f.expected.toList()) {
        if (type <= 0) continue;
        const auto kind = static_cast<std::size_t>(type);
        std::string text = token_text(kind);
        const std::string literal(
            f.vocabulary->getLiteralName(kind));  // older runtimes give a string, newer ones a view
        if (text.empty() && literal.size() > 2)
            text = in_ticks(std::string_view(literal).substr(1, literal.size() - 2));
        // Some words have several kinds of token, one a place.
        if (!text.empty() && std::ranges::find(each, text) == each.end()) each.push_back(text);
    }
    const auto by_rule = rule_expectation(f);
    if (by_rule && (each.empty() || each.size() > 4)) return *by_rule;
    if (each.empty()) return {"the end of the text", "remove what stands here"};
    return {join(each), each.size() == 1 ? "put " + each.front() + " here" : "use one of these here"};
}

bool is_word_token(const SyntaxToken& token) {
    return !token.text.empty() && (token.type == P::IDENT || (token.type >= P::IMPORT && token.type <= P::FALSE));
}

// Whether the failure is in the condition of a statement, and not in its body.
bool in_condition(const Failure& f) {
    for (const Failure::Frame& frame : f.frames) {
        if (frame.rule == P::RuleBlock && frame.start != f.token) return false;
        if (frame.rule == P::RuleIfStmt || frame.rule == P::RuleWhenStmt) return true;
    }
    return false;
}

constexpr std::string_view not_hint = "`not` is written `!`: `!(a == b)`";

// Words that other languages have, before the failure or at it.
std::optional<std::string> foreign_word(const Failure& f, const SyntaxToken& token, std::string_view before) {
    struct Row {
        std::string_view word;
        std::string_view hint;
        bool is_operator = false;
    };
    static constexpr std::string_view loops =
        "loops are bounded: `for x in ARRAY max N { … }` or `for i in range(lo, hi) max N { … }`";
    static constexpr std::string_view functions = "functions are `fn name(a, b) = expression`";
    static constexpr std::array rows = {Row{"and", "`and` is written `&&`", true},
                                        Row{"or", "`or` is written `||`", true},
                                        Row{"not", not_hint},
                                        Row{"switch", "write `match value { 1, 2 { … } else { … } }`"},
                                        Row{"while", loops},
                                        Row{"loop", loops},
                                        Row{"elif", "write `else if`"},
                                        Row{"elseif", "write `else if`"},
                                        Row{"function", functions},
                                        Row{"def", functions},
                                        Row{"func", functions}};
    for (const Row& row : rows) {
        const bool here = row.is_operator && token.text == row.word && !f.expects(P::IDENT);
        if (here || before == row.word) return std::string(row.hint);
    }
    return std::nullopt;
}

// Signs that other languages have, or have elsewhere.
std::optional<std::string> foreign_sign(const Failure& f, const SyntaxToken& token, const SyntaxToken& before,
                                        const SyntaxToken& next) {
    const std::string sign(token.text);
    const std::size_t rule = f.frames.empty() ? P::RuleItem : f.frames.front().rule;
    if (token.type == P::ASSIGN && (f.expects(P::LBRACE) || f.expects(P::RPAREN)) && in_condition(f))
        return std::string(compare_hint);
    if (token.type == P::SLASH && (before.type == P::SLASH || next.type == P::SLASH)) return "comments begin with `#`";
    if (token.type == P::PLUS && next.type == P::PLUS) return "there is no `++`; write `x = x + 1`";
    constexpr std::string_view kOperators = "+-*/%&|^";
    const bool one_sign = sign.size() == 1 && kOperators.contains(sign[0]);
    if (one_sign && next.type == P::ASSIGN && f.expects(P::ASSIGN))
        return "there is no `" + sign + "=`; write `x = x " + sign + " …`";
    if (sign == ".." && f.inside(P::RuleForStmt) && f.expects(P::LBRACE))
        return "a range is `range(lo, hi)`: from `lo` up to, and without, `hi`";
    if (before.type == P::FOR && token.type == P::LPAREN)
        return "a loop is `for i in range(lo, hi) { … }`, from `lo` up to, and without, `hi`";
    if (token.type != P::COLON || !f.expects(P::ASSIGN)) return std::nullopt;
    const std::string name(before.text);
    if (rule == P::RuleLetStmt) {
        static constexpr std::array scalars = {"u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "bool"};
        const bool is_type = std::ranges::find(scalars, next.text) != scalars.end();
        const std::string type(is_type ? next.text : "u64");
        return "a `let` has the type of its value: `let " + name + " = …`; a variable may name one: `var " + name +
               ": " + type + " = …`";
    }
    if (rule == P::RuleActStmt) return std::nullopt;
    return "a name has the type of its value: `" + name + " = …`";
}

// What chains have, and functions do not.
std::optional<std::string> as_of_chain(const Failure& f, const SyntaxToken& token) {
    if (f.frames.empty() || f.frames.front().rule != P::RuleFnDecl) return std::nullopt;
    if (token.type == P::COLON && f.expects(P::RPAREN))
        return "the parameters of a function have no types: `fn name(a, b) = …`";
    if (token.type == P::ARROW && f.expects(P::ASSIGN)) return "a function declares no result: `fn name(a, b) = …`";
    return std::nullopt;
}

// Whether the token stands behind a `goto` or `next`, with no brace between.
bool in_goto(const Tokens& tokens, std::size_t at) {
    while (at > 0 && tokens[--at].type != P::LBRACE && tokens[at].type != P::RBRACE) {
        if (tokens[at].type == P::GOTO || tokens[at].type == P::NEXT) return true;
    }
    return false;
}

// What may stand in the head of a chain, step or service, or in a read, and stands before what has to precede it.
std::optional<std::string> out_of_order(const Failure& f, const Tokens& tokens) {
    static constexpr std::array parts = {P::ON, P::AS,   P::IN,     P::IN_SET, P::ARROW, P::HOPS,
                                         P::AT, P::FROM, P::LENGTH, P::FOR,    P::TAG};
    const SyntaxToken& token = tokens[f.token];
    if (f.frames.empty() || std::ranges::find(parts, token.type) == parts.end()) return std::nullopt;
    switch (f.frames.front().rule) {
        case P::RuleChainDecl:
            if (!f.expects(P::LBRACE)) return std::nullopt;
            return "a chain's head has one order: `chain name(…) in class NAME -> TYPE hops N { … }`";
        case P::RuleEvent:
            return "a shadow chain's head has one order: `chain name on read(FILES) as r in class NAME { … }`";
        case P::RuleStepDecl:
            if (!f.expects(P::RPAREN)) return std::nullopt;
            return "a step's head has one order: `step name(view: RECORD from N at OFFSET for LENGTH in FILE) { … }`";
        case P::RuleServiceDecl:
            if (!f.expects(P::ON)) return std::nullopt;
            return "a service's head has one order: `service name on tcp 9100 via uring in class NAME { … }`";
        case P::RuleBlock:
            if (token.first_on_line || !in_goto(tokens, f.token)) return std::nullopt;
            return "a read has one order: `goto STEP at OFFSET for LENGTH in FILE tag N`";
        default: return std::nullopt;
    }
}

// `when … { } else { }`
std::optional<std::string> else_of_when(const Failure& f, const Tokens& tokens) {
    if (tokens[f.token].type != P::ELSE || f.token == 0 || tokens[f.token - 1].type != P::RBRACE) return std::nullopt;
    std::size_t i = f.token - 1;
    for (std::size_t open = 1; open > 0 && i > 0;) {
        --i;
        if (tokens[i].type == P::RBRACE) ++open;
        if (tokens[i].type == P::LBRACE) --open;
    }
    while (i > 0 && tokens[i - 1].type != P::LBRACE && tokens[i - 1].type != P::RBRACE) {
        if (tokens[--i].type == P::WHEN)
            return "`when` has no `else`: write `found = true` in it, of a `var found = false` before it, and "
                   "`if !found { … }` behind it";
    }
    return std::nullopt;
}

// Mistakes that have a better explanation than what would have fitted.
std::optional<std::string> known_mistake(const Failure& f, const Tokens& tokens) {
    static const SyntaxToken none;
    const SyntaxToken& token = tokens[f.token];
    const SyntaxToken& before = f.token > 0 ? tokens[f.token - 1] : none;
    const SyntaxToken& next = f.token + 1 < tokens.size() ? tokens[f.token + 1] : none;
    if (auto otherwise = meant_otherwise(f, tokens)) return otherwise;
    if (auto sign = foreign_sign(f, token, before, next)) return sign;
    if (auto chain = as_of_chain(f, token)) return chain;
    if (auto when = else_of_when(f, tokens)) return when;
    if (auto order = out_of_order(f, tokens)) return order;
    if (auto word = meant_word(f, token)) return word;
    if (f.inside(P::RuleEndpoint) && before.text == "port")
        return "the port stands right behind the transport: `tcp 9100 via uring`";
    if (f.inside(P::RuleEndpoint) && (f.expects(P::VIA) || before.type == P::VIA))
        return "an endpoint names its engine: `via auto`, `user`, `kernel` or, of udp, `xdp`";
    if (before.text == "bytes" && f.expects(P::LPAREN))
        return "bytes have a bound: `bytes(max N)`, or `bytes(N)` for N of them";
    if (token.type == P::MAX && f.expects(P::RPAREN) && !f.frames.empty() && f.frames.front().rule == P::RuleBaseType)
        return "a computed length has its bound in it: `bytes(min(n, 64))`";
    if (token.text == "-" && f.token == 0) return "this looks like YAML; the name of such a file ends in `.yaml`";
    if (auto word = foreign_word(f, token, before.text)) return word;
    // `let m = not k`: a name, and behind it another statement.
    const Failure::Frame* inner = f.frames.empty() ? nullptr : &f.frames.front();
    if (inner && inner->rule == P::RuleActStmt && inner->start > 0 && tokens[inner->start - 1].text == "not")
        return std::string(not_hint);
    const bool is_parameter = !f.frames.empty() && f.frames.front().rule == P::RuleChainDecl && f.expects(P::RPAREN) &&
                              is_word_token(token) && is_word_token(before);
    if (is_parameter && diag::nearest(before.text, {"file"})) return "did you mean `file`?";
    return meant_statement(f, before);
}

void report_reserved(const SyntaxToken& token, diag::Diagnostics& diags) {
    diags.report(code::reserved_word, token.span,
                 in_ticks(token.text) + " is a word of the language and cannot be a name here",
                 "choose another name, for example " + in_ticks(std::string(token.text) + "_"));
}

// What is a name by the `:` behind it: of a field, a part of bits, a variable of the state, or a capture.
bool names_part(const Failure& f, const Tokens& tokens) {
    if (f.frames.empty() || !f.expects(P::RBRACE) || !is_word_token(tokens[f.token])) return false;
    if (f.token + 1 >= tokens.size() || tokens[f.token + 1].type != P::COLON) return false;
    switch (f.frames.front().rule) {
        case P::RuleRecordDecl:
        case P::RuleRequestDecl:
        case P::RuleStateDecl:
        case P::RuleBaseType:
        case P::RuleTextDecl: return true;
        default: return false;
    }
}

// `in: u32le` or `when: u32le` behind a field: a name that would be what says more about that field.
bool names_field(const Failure& f, const Tokens& tokens) {
    if (tokens[f.token].type != P::COLON) return false;
    return std::ranges::any_of(f.frames, [&](const Failure::Frame& frame) {
        return frame.rule == P::RuleFieldMod && frame.start + 1 == f.token;
    });
}

// `1.5`: what stands behind the dot of a member is a number.
bool report_fraction(const Failure& f, const Tokens& tokens, diag::Diagnostics& diags) {
    if (f.token < 2 || tokens[f.token].type != P::INT || tokens[f.token - 1].type != P::DOT) return false;
    const SyntaxToken &whole = tokens[f.token - 2], &part = tokens[f.token];
    if (whole.type != P::INT) return false;
    const Span span{whole.span.file, whole.span.line, whole.span.col, part.span.end_line, part.span.end_col};
    diags.report(
        code::unexpected, span,
        in_ticks(std::string(whole.text) + "." + std::string(part.text)) + " is a fraction, and numbers are whole",
        "give a whole number, of a smaller unit where it has one: `1500us` for 1.5 ms");
    return true;
}

Span after(const SyntaxToken& token) {
    return {token.span.file, token.span.end_line, token.span.end_col, token.span.end_line, token.span.end_col + 1};
}

// A declaration that begins with a word which is nearly one of the language.
bool report_declaration(const Failure& f, const Tokens& tokens, diag::Diagnostics& diags) {
    if (f.frames.empty() || f.frames.front().rule != P::RuleItem) return false;
    static const std::vector<std::string> starts = {"import", "param", "const",   "app",    "files",
                                                    "socket", "class", "batch",   "record", "text",
                                                    "fn",     "chain", "service", "probe",  "match"};
    const SyntaxToken& token = tokens[f.token];
    if (!is_word_token(token)) return false;
    const auto near = diag::nearest(token.text, starts);
    const auto meant = meant_declaration(token, f.token > 0 ? tokens[f.token - 1] : token);
    diags.report(code::unknown_declaration, token.span, in_ticks(token.text) + " begins no declaration",
                 meant  ? *meant
                 : near ? "did you mean " + in_ticks(*near) + "?"
                        : "declarations are import, param, const, app, files, socket, class, batch, record, text, fn, "
                          "chain, service and probe");
    return true;
}

// Behind a `(`, before anything else.
Expectation first_within(const Failure& f) {
    switch (f.frames.empty() ? P::RuleExpr : f.frames.front().rule) {
        case P::RuleFnDecl: return {"a name or `)`", "the parameters of a function are names: `fn name(a, b) = …`"};
        case P::RuleChainDecl:
        case P::RuleProbeDecl: return {"a parameter or `)`", "a parameter is `name: type`"};
        default: return {"a value or `)`", "close the call, or write its arguments"};
    }
}

}  // namespace

bool Failure::inside(std::size_t rule) const {
    for (const Frame& frame : frames) {
        if (frame.rule == rule) return true;
    }
    return false;
}

antlr4::Token* ThrowingStrategy::recoverInline(antlr4::Parser* parser) { raise(parser, parser->getCurrentToken()); }

void ThrowingStrategy::recover(antlr4::Parser* parser, std::exception_ptr) { raise(parser, parser->getCurrentToken()); }

void ThrowingStrategy::reportError(antlr4::Parser* parser, const antlr4::RecognitionException& error) {
    const antlr4::Token* token = error.getOffendingToken();
    raise(parser, token != nullptr ? token : parser->getCurrentToken());
}

void report_failure(const Failure& f, const Tokens& tokens, diag::Diagnostics& diags) {
    const SyntaxToken& token = tokens[f.token];
    if (diags.reported_at(token.span)) return;  // it is no word of the language, which is why it does not fit
    // What is missing behind a string that is not closed is likely in it.
    const bool swallows = f.token > 0 && tokens[f.token - 1].broken;
    if (swallows && (token.text.empty() || token.first_on_line)) return;
    if (report_declaration(f, tokens, diags) || report_fraction(f, tokens, diags)) return;
    if (names_part(f, tokens)) return report_reserved(token, diags);
    if (names_field(f, tokens)) return report_reserved(tokens[f.token - 1], diags);
    Expectation wanted = expectation(f);
    const bool opened = f.token > 0 && tokens[f.token - 1].type == P::LPAREN;
    if (opened && wanted.what == "`,` or `)`") wanted = first_within(f);
    if (wanted.what == "a name" && is_word_token(token) && !token.first_on_line) return report_reserved(token, diags);
    const auto mistake = known_mistake(f, tokens);
    const std::string hint = mistake.value_or(wanted.hint);
    const bool ends = token.type == P::EOF;
    if (f.token > 0 && !meant_word(f, token) && (ends || token.first_on_line || token.text.empty())) {
        const SyntaxToken& before = tokens[f.token - 1];
        const std::string where = before.text.empty() ? "" : " after " + in_ticks(before.text);
        diags.report(code::unexpected, after(before), "expected " + wanted.what + where, hint);
        return;
    }
    diags.report(code::unexpected, token.span,
                 "expected " + wanted.what + ", found " + (ends ? "the end of the text" : in_ticks(token.text)), hint);
}

void report_rest(const SyntaxToken& token, diag::Diagnostics& diags) {
    const std::string hint =
        token.type == P::ASSIGN ? std::string(compare_hint) : "write one thing here; what follows belongs elsewhere";
    diags.report(code::unexpected, token.span, in_ticks(token.text) + " does not continue what stands before it", hint);
}

}  // namespace chainio::syntax
