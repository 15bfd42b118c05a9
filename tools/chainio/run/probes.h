// The probes of a run: attached before the program starts, and what the summary says of them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/probe/session.h"
#include "runtime/shadow/server.h"
#include "runtime/spec/loaded.h"

namespace chainio::run {

// Gives up what attaching probes takes. A kernel that does not let go of it is no reason against the program, but worth
// a note.
void give_up_privileges(std::vector<std::string>& notes);

// Attaches what the spec's chains listen to and lets the server hear it: before the program starts, and before what
// this takes is given up.
std::unique_ptr<probe::Session> attach_probes(const spec::Loaded& spec, const std::string& program,
                                              shadow::Server& server);

// Chains that are off for want of their probe, slow sites, and events that were lost.
void report_probes(const ir::Module& module, const probe::Session& session, bool explain, shadow::Report& report);

}  // namespace chainio::run
