#include "tools/chainc/stdlib.h"

#include <cstdlib>
#include <filesystem>

namespace chainio::chainc {

namespace fs = std::filesystem;

std::string find_stdlib(const std::string& given) {
    if (!given.empty()) return given;
    if (const char* from_environment = std::getenv("CHAINIO_STDLIB"); from_environment && *from_environment)
        return from_environment;
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    if (!error) {
        const fs::path installed = program.parent_path().parent_path() / "share/chainio/stdlib";
        if (fs::is_directory(installed, error)) return installed.string();
    }
    if (fs::is_directory(CHAINIO_SOURCE_STDLIB, error)) return CHAINIO_SOURCE_STDLIB;
    return {};
}

}  // namespace chainio::chainc
