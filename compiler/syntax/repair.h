// Recovery: the statement, field or declaration that does not parse is cut out of the tokens and the rest is read
// again.
#pragma once
#include <string>
#include <vector>

#include "compiler/syntax/failure.h"

namespace chainio::syntax {

struct Cut {
    std::size_t begin = 0, end = 0;  // tokens; never empty
};
// The smallest part around the failure, not before token `item`, that can be left out.
Cut cut_for(const Failure& failure, const std::vector<SyntaxToken>& tokens, std::size_t item);
// The names that the tokens declare.
std::vector<std::string> declared_names(const std::vector<SyntaxToken>& tokens, Cut cut);

}  // namespace chainio::syntax
