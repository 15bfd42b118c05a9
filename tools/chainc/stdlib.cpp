#include "tools/chainc/stdlib.h"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace chainio::chainc {
namespace {

bool is_directory(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::string executable_folder() {
    char program[PATH_MAX];
    ssize_t size = ::readlink("/proc/self/exe", program, sizeof program);
    // Without /proc there is the path by which it was executed, which need not be whole.
    const auto* executed = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
    if (size < 0 && executed != nullptr && ::realpath(executed, program) != nullptr)
        size = static_cast<ssize_t>(std::strlen(program));
    const std::string_view path(program, size > 0 ? static_cast<std::size_t>(size) : 0);
    return std::string(path.substr(0, std::max<std::size_t>(path.rfind('/'), 1)));
}

std::string find_stdlib(const std::string& given) {
    if (!given.empty()) return given;
    if (const char* from_environment = std::getenv("CHAINIO_STDLIB"); from_environment && *from_environment)
        return from_environment;
    const std::string folder = executable_folder();
    const std::string installed = folder.substr(0, folder.rfind('/')) + "/share/chainio/stdlib";
    if (is_directory(installed)) return installed;
    if (is_directory(CHAINIO_SOURCE_STDLIB)) return CHAINIO_SOURCE_STDLIB;
    return {};
}

}  // namespace chainio::chainc
