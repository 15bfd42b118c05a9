// The quoted source lines below a diagnostic, with carets.
#pragma once
#include <string>

#include "compiler/diag/diag.h"

namespace chainio::diag {

struct Paint {  // escape sequences, or empty
    std::string_view place, error, warning, note, caret, gutter, off;
};
const Paint& paint(bool colour);

// Empty when the span has no place or its line is not in the text. Ends with a line end otherwise.
std::string snippet(const Span&, const Sources&, const Paint&);

}  // namespace chainio::diag
