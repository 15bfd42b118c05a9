// What the command line of chainio-runtime says.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/service/server.h"

namespace chainio::runtime_tool {

inline constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitSystem = 3;

struct Options {
    std::string spec, socket, engine = "auto";
    std::vector<std::string> files, ports;
    std::string xdp_copy = "automatic", xdp_attach = "automatic";
    unsigned in_flight = 64;
    unsigned timeout_ms = 10000;
    unsigned spin_us = 0;              // of the kernel engine
    unsigned zero_copy_bytes = 16384;  // of a reply that the kernel engine sends without a copy
    std::uint64_t memory = 0;
    service::ServerOptions server;
    bool check = false, check_system = false, json = false, interpret = false, no_ring = false;
};

}  // namespace chainio::runtime_tool
