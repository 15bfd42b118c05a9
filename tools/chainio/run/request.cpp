#include "tools/chainio/run/request.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/shim/protocol.h"
#include "tools/chainc/stdlib.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/program.h"

namespace chainio::run {

bool is_file(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

std::vector<std::string> places_of(const SpecRequest& request, const std::string& stdlib) {
    std::vector<std::string> places{request.name};
    if (request.name.starts_with('/')) return places;
    for (const std::string& folder : request.include_dirs) places.push_back(folder + "/" + request.name);
    if (!stdlib.empty()) places.push_back(stdlib + "/" + request.name);
    return places;
}

std::string real_path(const std::string& path) {
    const std::string real = resolved(path);
    return real.empty() ? path : real;
}

std::string shadow_file_beside(const std::string& path, const std::string& stdlib) {
    if (stdlib.empty() || !real_path(path).starts_with(real_path(stdlib) + "/")) return {};
    std::string other = path;
    const std::size_t dot = path.rfind('.');
    const bool has_suffix = dot != std::string::npos && dot > path.rfind('/') + 1;
    other.insert(has_suffix ? dot : path.size(), "_shadow");
    return is_file(other) ? other : std::string();
}

std::string find_compiler() {
    const std::string beside = chainc::executable_folder() + "/chainc";
    if (::access(beside.c_str(), X_OK) == 0) return beside;
    const auto found = find_program("chainc");
    return found ? *found : std::string();
}

// Another build of the compiler is another compiler; and what the launcher makes a region from is of one protocol.
std::string key_of(const CompileRequest& request) {
    struct stat status{};
    ::stat(request.compiler.c_str(), &status);
    std::string key = CHAINIO_VERSION " " + std::to_string(shim::kVersion) + "\n" + request.compiler + " " +
                      std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
                      std::to_string(status.st_mtim.tv_nsec) + "\n" + real_path(request.source) + "\n" +
                      request.stdlib + "\n";
    for (const std::string& dir : request.include_dirs) key += "-I" + real_path(dir) + "\n";
    std::vector<std::string> params = request.params;
    std::ranges::sort(params);
    for (const std::string& param : params) key += "-D" + param + "\n";
    return key;
}

}  // namespace chainio::run
