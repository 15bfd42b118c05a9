// An output takes the place of neither a file that was read nor another output.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "tools/chainc/loader.h"

namespace chainio::chainc {

struct OutputPlace {
    std::string_view what;    // "the source map"
    std::string_view option;  // that names another place for it
    std::string path;
};

// Reports those that do, under whatever names: links lead to what they name. `or_else` ends the hint.
void refuse_collisions(const std::vector<OutputPlace>& outputs, const FileLoader& loader,
                       diag::Diagnostics& diagnostics, std::string_view or_else = {});

}  // namespace chainio::chainc
