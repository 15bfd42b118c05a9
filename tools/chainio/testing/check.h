// Whether a chain did what a case expects.
#pragma once
#include <string>
#include <vector>

#include "tools/chainio/testing/walk.h"

namespace chainio::testing {

// One line a difference; empty when all is as expected.
std::vector<std::string> differences(const Case& test, const Outcome& outcome, const ir::Module& module);
std::string described(const DoneRead& read);  // as a test file would expect it
// What two engines did differently with the same input; empty when nothing.
std::vector<std::string> disagreement(const Outcome& first, const Outcome& second, const ir::Module& module);

}  // namespace chainio::testing
