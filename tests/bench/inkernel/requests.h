// Requests that are received, looked up in the tree of tree.h and answered: the server that most people would write,
// and the client that has others answer and counts what that costs. A request is a key, its reply the key's value.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

namespace chainio::bench {

// Answers each connection whose request has come, one pread after the other. Prints its port; ends by a signal only.
std::expected<void, std::string> serve_by_preads(const std::string& path);

struct Asking {
    std::uint16_t port = 0;
    pid_t server = 0;
    unsigned depth = 6;
    std::vector<unsigned> connections;
    std::uint64_t requests = 256;  // of each round, or as many as there are connections
    unsigned rounds = 3;           // besides the one that counts system calls and sleeps
};
// Prints one JSON line for each number of connections.
std::expected<void, std::string> ask_for_keys(const Asking& asking);

}  // namespace chainio::bench
