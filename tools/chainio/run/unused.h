// Why chains had nothing to do, as far as what the program opened says: for the summary's notes.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "tools/chainio/run/report.h"

namespace chainio::run {

// Whether anything that the program opened is of the spec.
bool any_use(const Figures& figures);
// Of files and sockets, as the spec has them.
std::vector<std::string> patterns_of(const ir::Module& module);
// What stands behind a run that nothing came of.
std::string why_unused(const ir::Module& module, const std::string& program);
// Most often a path that was given as a shell would take it: --param pages=data/big.db.
std::vector<std::string> unmatchable(const ir::Module& module);
// Classes that chains wait for and that no file was of, while something else matched. A spec has chains for other
// programs and queries, too: unless `all` are asked for, they are told only where no chain ran at all.
std::vector<std::string> unmatched_sources(const ir::Module& module, const Figures& figures, bool all);

}  // namespace chainio::run
