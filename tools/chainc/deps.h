// -MD: the files that were read, as a make rule.
#pragma once
#include <string>

#include "compiler/diag/diag.h"
#include "tools/chainc/loader.h"

namespace chainio::chainc {

std::string dependency_rule(const std::string& output, const FileLoader&);

}  // namespace chainio::chainc
