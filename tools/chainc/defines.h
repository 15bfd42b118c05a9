// What -D gives to the parameters of a spec.
#pragma once
#include <map>
#include <string>

#include "compiler/sema/check.h"
#include "tools/chainc/options.h"

namespace chainio::chainc {

// What is not NAME=VALUE, or given twice, is reported without a place. Whether a value makes sense depends on its
// parameter: what is wrong with it is kept for whom it concerns.
std::map<std::string, sema::Define> define_options(const Options&, diag::Diagnostics& problems);

}  // namespace chainio::chainc
