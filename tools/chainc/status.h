// How a run ends: the diagnostics on standard error and the exit status that they call for.
#pragma once
#include "compiler/diag/diag.h"
#include "tools/chainc/options.h"

namespace chainio::chainc {

inline constexpr int status_wrong_input = 1, status_usage = 2, status_system = 3, status_not_permitted = 4;

void print_diagnostics(Format, const diag::Diagnostics&, const diag::Sources&, bool colour);
int exit_status(const diag::Diagnostics&);
bool wants_colour(const std::string& when);

}  // namespace chainio::chainc
