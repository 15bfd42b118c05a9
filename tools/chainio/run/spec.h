// From what --spec says to an artifact in memory.
#pragma once
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "runtime/spec/loaded.h"
#include "tools/chainio/run/cache.h"

namespace chainio::run {

struct SpecRequest {
    std::string name;                       // an artifact, a source, or the name of one on the search path
    std::vector<std::string> include_dirs;  // -I
    std::vector<std::string> params;        // NAME=VALUE
    bool use_cache = true;
};

struct Spec {
    std::shared_ptr<const spec::Loaded> loaded;  // null until load_kept() when it comes from the cache
    Kept kept;                                   // then
    std::string path;                            // what was found
    std::string name;                            // how it is told: a spec of the library by its name there
    bool compiled = false;                       // in this run; otherwise it was an artifact or came from the cache
    std::vector<std::string> notes;              // what the user should know about how it was found
};

struct SpecError {
    bool refuses = true;  // the spec is wrong; otherwise this machine cannot make it, and the program may run plain
    int exit_code = 1;
    std::string message;  // without a newline at its end
};

// With `may_wait` a spec that the cache has, and that a program can be started with, is left as it is kept.
std::expected<Spec, SpecError> load_spec(const SpecRequest& request, bool may_wait);
std::expected<void, SpecError> load_kept(Spec& spec);

}  // namespace chainio::run
