// Opens the files, then serves the spec's services and, at a Unix socket, its call chains.
#pragma once
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/service/server.h"

namespace chainio::runtime_tool {

inline constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitSystem = 3;

struct Options {
    std::string spec, socket, engine = "auto";
    std::vector<std::string> files, ports;
    unsigned in_flight = 64;
    unsigned timeout_ms = 10000;
    std::uint64_t memory = 0;
    service::ServerOptions server;
    bool check = false, check_system = false, json = false, interpret = false, no_ring = false;
};

// Prints the message for the user, and gives the exit code back.
int fail(int code, const std::string& message);
int serve(const Options& options, engine::Engine& engine);

}  // namespace chainio::runtime_tool
