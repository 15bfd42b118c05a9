// --fmt: the canonical form, printed, written back or compared.
#pragma once
#include "tools/chainc/options.h"

namespace chainio::chainc {

// The exit status.
int run_format(const Options&, bool colour);

}  // namespace chainio::chainc
