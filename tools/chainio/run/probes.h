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

// Attaches what the spec's chains listen to: before the program starts, before what this takes is given up, and by the
// process that starts it, since what is heard are that one's descendants.
std::unique_ptr<probe::Session> attach_probes(const spec::Loaded& spec, const std::string& program);
// Lets the server hear it.
void tell_of_probes(probe::Session& session, shadow::Server& server);

// Chains that are off for want of their probe, slow sites, and events that were lost.
void report_probes(const ir::Module& module, const probe::Session& session, bool explain, shadow::Report& report);

}  // namespace chainio::run
