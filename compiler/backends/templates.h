// The texts of bpf-templates/, as they were when the compiler was built.
#pragma once
#include <string_view>

namespace chainio::backends {

// The file of that name; the name is one of ours, so a missing one ends the program.
std::string_view template_text(std::string_view name);

}  // namespace chainio::backends
