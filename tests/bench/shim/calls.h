#pragma once
#include <string>

namespace chainio::bench_shim {

int measure_calls(const std::string& folder);  // which holds the files that are opened; an exit code

}  // namespace chainio::bench_shim
