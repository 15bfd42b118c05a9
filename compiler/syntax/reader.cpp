#include "compiler/syntax/reader.h"

#include "compiler/syntax/codes.h"
#include "compiler/syntax/repair.h"
#include "compiler/syntax/tokens.h"

namespace chainio::syntax {
namespace {

// Errors are rare; a text that is nothing but errors is given up after about this much work.
// Bounds the memory of one parse tree.
constexpr std::size_t max_item_tokens = 250'000;
constexpr std::size_t repair_budget = 400'000;

Scanned prepare(FileId file, std::string_view text, const Reader::Around& around, diag::Diagnostics& diags,
                bool& given_up) {
    if (text.size() > max_text) {
        diags.report(code::too_large, {file, 1, 1, 1, 2}, "the text is larger than 4 MiB",
                     "split it into files and `import` them");
        text = {};
    }
    Scanned scanned = scan(file, text, around.places, diags);
    given_up = !balance(scanned.tokens, diags, around.nested);
    mark(scanned.tokens, around.kind);
    return scanned;
}

}  // namespace

Reader::Reader(FileId file, std::string_view text, const Around& around, diag::Diagnostics& diags)
    : diags_(diags),
      stream_(tokens_),
      parser_(&stream_),
      strategy_(std::make_shared<ThrowingStrategy>()),
      budget_(repair_budget) {
    Scanned scanned = prepare(file, text, around, diags, given_up_);
    tokens_ = std::move(scanned.tokens);
    comments_ = CommentList(std::move(scanned.comments));
    comments_.set_tokens(&tokens_);
    parser_.removeErrorListeners();
    parser_.setErrorHandler(strategy_);
    parser_.setBuildParseTree(false);  // what the builder takes are labels
}

bool Reader::attempt(const std::function<void()>& parse) {
    try {
        parse();
        return true;
    } catch (const Failure& failure) {
        failure_ = failure;
        report_failure(failure_, tokens_, diags_);
        return false;
    }
}

bool Reader::at_end() {
    const SyntaxToken& token = tokens_[stream_.index()];
    if (token.type == P::EOF) return true;
    report_rest(token, diags_);
    return false;
}

void Reader::read_items(const std::function<void(P::ItemContext*)>& build, std::vector<std::string>& broken_names) {
    while (tokens_[stream_.index()].type != P::EOF) {
        const std::size_t item = stream_.index();
        std::size_t next_item = item + 1;
        while (next_item + 1 < tokens_.size() && !(tokens_[next_item].span.col == 1 && begins_item(tokens_, next_item)))
            ++next_item;
        if (next_item - item > max_item_tokens) {
            diags_.report(code::too_large, tokens_[item].span, "this declaration is too long",
                          "a declaration has at most 250,000 words and signs; split it");
            stream_.seek(next_item);
            continue;
        }
        P::ItemContext* tree = nullptr;
        if (attempt([&] { tree = parser_.item(); })) {
            build(tree);
            const std::size_t next = stream_.index();
            parser_.reset();  // frees the trees
            stream_.seek(next);
            continue;
        }
        parser_.reset();
        recover(item, broken_names);
        stream_.seek(item);
    }
}

void Reader::recover(std::size_t item, std::vector<std::string>& broken_names) {
    Cut cut = cut_for(failure_, tokens_, item);
    const std::size_t work = failure_.token - item + (tokens_.size() >> 4U) + 1;
    if (work > budget_) {
        diags_.report(code::too_many, tokens_[failure_.token].span,
                      "too many syntax errors; the rest of the file is not read", "correct the errors above first");
        cut = {item, tokens_.size() - 1};
    }
    budget_ -= std::min(work, budget_);
    // What is left of a declaration when a part of it was cut out is not what its author wrote.
    if (cut.begin > item + 1) broken_names.emplace_back(tokens_[item + 1].text);
    for (std::string& name : declared_names(tokens_, cut)) broken_names.push_back(std::move(name));
    const auto at = [&](std::size_t i) { return tokens_.begin() + static_cast<std::ptrdiff_t>(i); };
    tokens_.erase(at(cut.begin), at(cut.end));
    mark(tokens_);
}

}  // namespace chainio::syntax
