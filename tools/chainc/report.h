// --report: the bounds of every program and chain, for people and as JSON.
#pragma once
#include <string>

namespace chainio::chainc {

struct Compilation;

std::string report_table(const Compilation&);
std::string report_json(const Compilation&);

}  // namespace chainio::chainc
