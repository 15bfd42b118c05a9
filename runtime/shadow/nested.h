// Processes of PID namespaces below ours, whose numbers there are other processes' here.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace chainio::shadow {

struct NestedProcess {
    std::uint32_t pids, number;  // the namespace's inode, and the number there
    bool operator==(const NestedProcess&) const = default;
};

// The number of a process in its own namespace, of what its /proc/PID/status says; 0 where that namespace is the one
// that /proc is of. Nothing: the file does not say.
std::optional<std::uint32_t> own_number(std::string_view status);

// Leaves in `all` what /proc says has ended. Who cannot be looked at may be any that has the number, and where some
// processes are not shown at all nobody has ended. Takes as long as there are processes.
void strike_living(std::vector<NestedProcess>& all);

}  // namespace chainio::shadow
