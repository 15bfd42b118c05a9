// The generated parser, by the short name that it has in this directory.
#pragma once
#include "ChainParser.h"

namespace chainio::syntax {

using P = grammar::ChainParser;

}  // namespace chainio::syntax
