// Opens the files, then serves the spec's services and, at a Unix socket, its call chains.
#pragma once
#include <memory>
#include <string>

#include "tools/chainio-runtime/edition.h"

namespace chainio::runtime_tool {

// Prints the message for the user, and gives the exit code back.
int fail(int code, const std::string& message);
int serve(const Options& options, metrics::Fallbacks fallbacks, std::unique_ptr<ring::Shared> ring,
          std::unique_ptr<Edition> edition);

}  // namespace chainio::runtime_tool
