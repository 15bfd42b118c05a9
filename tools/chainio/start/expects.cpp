#include "tools/chainio/start/expects.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "runtime/shim/glob.h"
#include "tools/chainio/run/files.h"

namespace chainio::start {
namespace {

constexpr std::size_t kMostArguments = 64;
constexpr unsigned kMostNames = 256;  // of a folder

bool matches(const shim::Plan& plan, const std::string& path) {
    return std::any_of(plan.classes, plan.classes + plan.class_count,
                       [&](const shim::ClassRule& rule) { return shim::glob_matches(rule.pattern, path.c_str()); });
}

bool holds_match(const shim::Plan& plan, const std::string& folder) {
    const std::unique_ptr<DIR, int (*)(DIR*)> names(::opendir(folder.c_str()), ::closedir);
    for (unsigned seen = 0; names != nullptr && seen < kMostNames; seen++) {
        const dirent* entry = ::readdir(names.get());
        if (entry == nullptr) return false;
        if (entry->d_type == DT_REG && matches(plan, folder + "/" + entry->d_name)) return true;
    }
    return false;
}

bool names_match(const shim::Plan& plan, const std::string& name) {
    struct stat status{};
    if (name.empty() || ::stat(name.c_str(), &status) != 0) return false;
    if (S_ISDIR(status.st_mode)) return holds_match(plan, run::resolved(name));
    if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) return false;
    return (name.front() == '/' && matches(plan, name)) || matches(plan, run::resolved(name));
}

}  // namespace

bool expects_matches(const shim::Plan& plan, const std::string& program, std::span<const std::string> arguments) {
    const std::string exe = plan.exe_count == 0 ? std::string() : run::resolved(program);
    const bool meant = plan.exe_count == 0 || std::any_of(plan.exes, plan.exes + plan.exe_count, [&](const auto& each) {
                           return shim::glob_matches(each, exe.c_str());
                       });
    if (!meant) return false;
    return std::ranges::any_of(arguments.first(std::min(arguments.size(), kMostArguments)), [&](const auto& word) {
        const std::size_t value = word.find('=');
        return names_match(plan, word) || (value != std::string::npos && names_match(plan, word.substr(value + 1)));
    });
}

}  // namespace chainio::start
