// The capabilities that attaching probes takes.
#pragma once
#include <expected>
#include <string>

namespace chainio::probe {

// What the calling thread lacks for attaching probes, as one sentence with a remedy; empty when nothing.
std::string missing_privileges();
// Gives up, for good, what probes needed (CAP_BPF, CAP_PERFMON, and CAP_SYS_ADMIN, which stands for both). A program
// that is executed later gets what its user and file give it, as ever. Of the calling thread and those that it starts.
std::expected<void, std::string> drop_privileges();

}  // namespace chainio::probe
