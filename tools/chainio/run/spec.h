// From what --spec says to an artifact in memory.
#pragma once
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "runtime/spec/loaded.h"
#include "tools/chainio/run/request.h"

namespace chainio::run {

struct Spec {
    std::shared_ptr<const spec::Loaded> loaded;
    std::string path;                // what was found
    std::string name;                // how it is told: a spec of the library by its name there
    bool compiled = false;           // in this run; otherwise it was an artifact or came from the cache
    std::vector<std::string> notes;  // what the user should know about how it was found
};

struct SpecError {
    bool refuses = true;  // the spec is wrong; otherwise this machine cannot make it, and the program may run plain
    int exit_code = 1;
    std::string message;  // without a newline at its end
};

std::expected<Spec, SpecError> load_spec(const SpecRequest& request);

}  // namespace chainio::run
