// How much memory there is for this process: the machine's, or what the memory cgroups allow in which it is (those of a
// container, or of a systemd unit with MemoryMax=). The kernel refuses nobody what is beyond that: it ends a process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace chainio::umem {

struct Bound {
    std::size_t bytes = SIZE_MAX;
    std::string of;  // whose memory it is, in words: "this machine's 512 MiB"
};
struct Room {
    Bound machine;
    Bound all;   // within the machine's, whoever has it
    Bound left;  // of that, beside what is in use; what the kernel only keeps of files does not count, since it lets go
                 // of that
    std::string unread;  // why `left` knows nothing of the machine, as a sentence; empty: it does
};
// What sysconf says, at once; all of the rest is read from files, in a third of a millisecond.
Bound memory_of_machine();
// All paths are taken below `root`, which tests have of their own. What cannot be read bounds nothing.
Room room_for_process(const std::string& root = {});

}  // namespace chainio::umem
