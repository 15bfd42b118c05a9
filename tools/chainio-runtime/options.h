// What the command line of chainio-runtime says.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/service/server.h"

namespace chainio::runtime_tool {

inline constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitSystem = 3;

struct Options {
    std::string spec, socket, rings, engine = "auto";
    std::vector<std::string> files, ports;
    unsigned socket_mode = 0600, rings_mode = 0600;
    std::string xdp_copy = "automatic", xdp_attach = "automatic";
    unsigned in_flight = 64;
    unsigned timeout_ms = 10000;
    unsigned idle_ms = 0;  // 0: idle connections stay
    unsigned spin_us = 0;
    bool spin_auto = false;  // of the ring: only where it pays
    // Of what cannot find out where it pays.
    unsigned spin_us_said() const { return spin_auto ? 0 : spin_us; }
    std::optional<unsigned> zero_copy;  // else as the engines have it
    std::uint64_t memory = 0;
    service::ServerOptions server;
    bool check = false, check_system = false, json = false, interpret = false, no_ring = false;
};

}  // namespace chainio::runtime_tool
