// Runs the generated parser over a text and hands each tree to the builder.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/syntax/comments.h"
#include "compiler/syntax/failure.h"
#include "compiler/syntax/grammar.h"
#include "compiler/syntax/scanner.h"
#include "compiler/syntax/token_stream.h"
#include "compiler/syntax/tokens.h"

namespace chainio::syntax {

class Reader {
  public:
    // What a text is a part of, when it is not a file.
    struct Around {
        const std::vector<Place>* places = nullptr;  // as in scan(); it outlives the reader
        TextKind kind = TextKind::file;
        std::size_t nested = 0;  // levels of braces around it
    };
    Reader(FileId file, std::string_view text, const Around& around, diag::Diagnostics& diags);

    // All declarations of a file, whatever is between them: `build` gets each one that could be read.
    void read_items(const std::function<void(grammar::ChainParser::ItemContext*)>& build,
                    std::vector<std::string>& broken_names);

    // A text that is one thing, read by one rule of the grammar: nullptr when it is not, and then that is reported.
    template <typename Context>
    Context* read_one(Context* (grammar::ChainParser::*rule)()) {
        if (given_up_) return nullptr;
        Context* tree = nullptr;
        const bool ok = attempt([&] { tree = (parser_.*rule)(); });
        return ok && at_end() ? tree : nullptr;
    }

    bool empty() const { return tokens_.size() <= 1; }
    CommentList& comments() { return comments_; }
    std::vector<SyntaxToken>& tokens() { return tokens_; }

  private:
    bool attempt(const std::function<void()>& parse);
    bool at_end();
    void recover(std::size_t item, std::vector<std::string>& broken_names);

    diag::Diagnostics& diags_;
    std::vector<SyntaxToken> tokens_;
    CommentList comments_;
    SyntaxTokenStream stream_;
    grammar::ChainParser parser_;
    std::shared_ptr<ThrowingStrategy> strategy_;
    Failure failure_;
    bool given_up_ = false;   // nested too deep, which is reported already
    std::size_t budget_ = 0;  // tokens that may still be read again after errors
};

}  // namespace chainio::syntax
