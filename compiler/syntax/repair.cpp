#include "compiler/syntax/repair.h"

#include <algorithm>

#include "compiler/syntax/grammar.h"
#include "compiler/syntax/tokens.h"

namespace chainio::syntax {
namespace {

using Tokens = std::vector<SyntaxToken>;

// Rules whose text can be left out without making what is around it wrong.
bool is_unit(std::size_t rule) {
    switch (rule) {
        case P::RuleStmt:
        case P::RuleMatchArm:
        case P::RuleField:
        case P::RuleStateVar:
        case P::RuleChainItem:
        case P::RuleServiceItem:
        case P::RuleAppItem:
        case P::RuleFileAttr:
        case P::RuleClassAttr:
        case P::RuleBatchAttr:
        case P::RuleTextItem:
        case P::RuleItem: return true;
        default: return false;
    }
}

// Rules that hold a list of units in braces.
bool is_list(std::size_t rule) {
    switch (rule) {
        case P::RuleBlock:
        case P::RuleMatchStmt:
        case P::RuleRecordDecl:
        case P::RuleRequestDecl:
        case P::RuleStateDecl:
        case P::RuleChainDecl:
        case P::RuleServiceDecl:
        case P::RuleAppDecl:
        case P::RuleFilesDecl:
        case P::RuleClassDecl:
        case P::RuleBatchDecl:
        case P::RuleTextDecl: return true;
        default: return false;
    }
}

// In the first column these begin a declaration, even one that lacks its name.
bool is_item_word(std::size_t type) {
    switch (type) {
        case P::IMPORT:
        case P::PARAM:
        case P::CONST:
        case P::APP:
        case P::MATCH:
        case P::FILES:
        case P::SOCKET:
        case P::CLASS:
        case P::BATCH:
        case P::RECORD:
        case P::TEXT:
        case P::FN:
        case P::CHAIN:
        case P::SERVICE:
        case P::PROBE: return true;
        default: return false;
    }
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool ends_unit(std::size_t type) {
    return begins_reserved_stmt(type) || type == P::CHAIN || type == P::FN || type == P::CONST || type == P::IMPORT;
}

// Depth of the brackets from one token on.
struct Depth {
    long braces = 0, others = 0;

    void pass(std::size_t type) {
        if (type == P::LBRACE) ++braces;
        if (type == P::RBRACE) --braces, others = 0;
        if (type == P::LPAREN || type == P::LBRACK) ++others;
        if ((type == P::RPAREN || type == P::RBRACK) && others > 0) --others;
    }
};

// The first token from `from` on that begins another unit beside the one that begins at `begin`.
std::size_t end_of_unit(const Tokens& tokens, std::size_t begin, std::size_t from, std::size_t rule) {
    Depth depth;
    for (std::size_t i = begin; i < tokens.size(); ++i) {
        const SyntaxToken& token = tokens[i];
        if (token.type == P::EOF) return i;
        if (i >= from && i > begin && depth.braces == 0) {
            if (token.type == P::RBRACE) return i;
            const bool fresh =
                token.first_on_line && (depth.others == 0 || ends_unit(token.type)) && token.type != P::ELSE;
            if (fresh &&
                (rule != P::RuleItem || begins_item(tokens, i) || (token.span.col == 1 && is_item_word(token.type))))
                return i;
        }
        depth.pass(token.type);
        if (depth.braces < 0) return i;
    }
    return tokens.size() - 1;
}

}  // namespace

Cut cut_for(const Failure& failure, const Tokens& tokens, std::size_t item) {
    std::size_t begin = item, rule = P::RuleItem;
    for (const Failure::Frame& frame : failure.frames) {
        const bool list = is_list(frame.rule) && failure.expects(P::RBRACE) && &frame == &failure.frames.front();
        if (!list && !is_unit(frame.rule)) continue;
        begin = list ? failure.token : frame.start;
        rule = list ? P::RuleStmt : frame.rule;
        break;
    }
    begin = std::max(begin, item);
    // A `}` closes something around the unit, so that it cannot be cut out alone.
    if (tokens[begin].type == P::RBRACE || tokens[begin].type == P::EOF) {
        begin = item;
        rule = P::RuleItem;
    }
    const std::size_t end = end_of_unit(tokens, begin, std::max(failure.token, begin), rule);
    return {begin, std::max(end, begin + 1)};
}

std::vector<std::string> declared_names(const Tokens& tokens, Cut cut) {
    std::vector<std::string> names;
    for (std::size_t i = cut.begin; i + 1 < tokens.size() && i < cut.end; ++i) {
        const SyntaxToken& next = tokens[i + 1];
        switch (tokens[i].type) {
            case P::LET:
            case P::VAR:
            case P::FOR:
            case P::CONST:
            case P::PARAM:
            case P::CHAIN:
            case P::RECORD:
            case P::FN:
            case P::STEP:
            case P::TEXT:
            case P::CLASS:
            case P::FILES:
            case P::SOCKET:
            case P::PROBE:
            case P::APP:
            case P::SERVICE:
            case P::AS:
            case P::INT: names.emplace_back(next.text); break;
            default:
                if (next.type == P::COLON) names.emplace_back(tokens[i].text);
                break;
        }
    }
    std::erase_if(names, [](const std::string& name) { return name.empty() || !is_letter(name.front()); });
    return names;
}

}  // namespace chainio::syntax
