// Running `chainio ask` once its words are understood.
#pragma once
#include <expected>
#include <string>
#include <string_view>

#include "tools/chainio/results.h"

namespace chainio::tool {

struct AskOptions {
    std::string path, service;
    std::string request;     // as it was written; "-": the bytes of standard input
    bool lines = false;      // each line of standard input is a request
    unsigned in_flight = 0;  // 0: 1, or 64 with lines
    unsigned timeout_ms = 10000;
    unsigned spin_us = 0;
    Output output = Output::text;
    bool json = false;
};

// The bytes of a request that was written as text with escapes, `hex:00ff`, or `text:…` without any; the error says
// what is wrong with it.
std::expected<std::string, std::string> request_bytes(std::string_view text);

// Prints replies and messages; returns the exit code.
int run_ask(const AskOptions& options);

}  // namespace chainio::tool
