// What --spec, -I and --param ask for: a file, the compiler for it, and the key of what the two make in the cache.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace chainio::run {

struct SpecRequest {
    std::string name;                       // an artifact, a source, or the name of one on the search path
    std::vector<std::string> include_dirs;  // -I
    std::vector<std::string> params;        // NAME=VALUE
    bool use_cache = true;
};

struct CompileRequest {
    std::string compiler;  // the program
    std::string source;
    std::vector<std::string> include_dirs, params;
    std::string stdlib;
    std::optional<std::string> text{};  // of a source that can be read once, or that only this process has by that name
};

// The paths at which a spec of that name is looked for, in this order.
std::vector<std::string> places_of(const SpecRequest& request, const std::string& stdlib);
bool is_file(const std::string& path);
// In the library, std/sqlite.chain holds chains to call and std/sqlite_shadow.chain those that run beside a program:
// the latter when it is there, else empty.
std::string shadow_file_beside(const std::string& path, const std::string& stdlib);

std::string find_compiler();  // beside this program, else on PATH; empty when there is none
// Everything but the sources that decides what the compiler makes.
std::string key_of(const CompileRequest& request);
std::string real_path(const std::string& path);

}  // namespace chainio::run
