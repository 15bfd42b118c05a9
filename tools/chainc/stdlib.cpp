#include "tools/chainc/stdlib.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <string_view>

namespace chainio::chainc {

namespace {

bool is_directory(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// The folder above the one that this program lies in; empty when it cannot be found out.
std::string installation() {
    char program[PATH_MAX];
    const ssize_t size = ::readlink("/proc/self/exe", program, sizeof program);
    std::string_view path(program, size > 0 ? static_cast<std::size_t>(size) : 0);
    for (int level = 0; level < 2; level++) path = path.substr(0, path.rfind('/'));
    return std::string(path);
}

}  // namespace

std::string find_stdlib(const std::string& given) {
    if (!given.empty()) return given;
    if (const char* from_environment = std::getenv("CHAINIO_STDLIB"); from_environment && *from_environment)
        return from_environment;
    const std::string installed = installation() + "/share/chainio/stdlib";
    if (is_directory(installed)) return installed;
    if (is_directory(CHAINIO_SOURCE_STDLIB)) return CHAINIO_SOURCE_STDLIB;
    return {};
}

}  // namespace chainio::chainc
