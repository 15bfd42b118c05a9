// Writing what was asked for with --emit, -o, --source-map and -MD.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace chainio::chainc {

struct Compilation;
struct Options;

// The last stage of the pipeline that this run needs.
std::string_view last_stage(const Options&);

// Whether standard output receives one of the emitted kinds, so that reports must go elsewhere.
bool emits_to_stdout(const Options&);

// Writes every output; a failure is reported as a diagnostic.
void write_outputs(Compilation&);

}  // namespace chainio::chainc
