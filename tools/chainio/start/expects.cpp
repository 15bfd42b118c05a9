#include "tools/chainio/start/expects.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>

#ifndef STATX_TYPE  // musl before 1.2.5 does not know of statx
#include <linux/stat.h>
#endif

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

run::Descriptor remembered(const std::string& name) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_CACHED;
    return run::Descriptor(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, name.c_str(), &how, sizeof how)));
}

std::string name_of(const run::Descriptor& file) {
    const std::string link = "/proc/self/fd/" + std::to_string(file.get());
    char name[PATH_MAX];
    const ssize_t length = ::readlink(link.c_str(), name, sizeof name);
    return {name, length > 0 ? static_cast<std::size_t>(length) : 0};
}

Guess expects_folder(const shim::Plan& plan, const struct statx& status, const std::string& name) {
    if (status.stx_dev_major == 0) return Guess::unknown;
    return holds_match(plan, name) ? Guess::a_match : Guess::nothing;
}

Guess expects_at_once(const shim::Plan& plan, const std::string& given) {
    if (given.empty() || given.front() == '-') return Guess::nothing;  // an option
    const run::Descriptor file = remembered(given);
    const bool is_none = !file && (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG);
    if (!file) return is_none ? Guess::nothing : Guess::unknown;
    struct statx status{};
    if (::syscall(SYS_statx, file.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0)
        return Guess::unknown;
    const std::string name = name_of(file);
    if (name.empty()) return Guess::unknown;
    if (S_ISDIR(status.stx_mode)) return expects_folder(plan, status, name);
    if (!S_ISREG(status.stx_mode) && !S_ISBLK(status.stx_mode)) return Guess::nothing;
    const bool found = (given.front() == '/' && matches(plan, given)) || matches(plan, name);
    return found ? Guess::a_match : Guess::nothing;
}

bool is_meant(const shim::Plan& plan, const std::string& program) {
    const std::string exe = plan.exe_count == 0 ? std::string() : run::resolved(program);
    return plan.exe_count == 0 || std::any_of(plan.exes, plan.exes + plan.exe_count,
                                              [&](const auto& each) { return shim::glob_matches(each, exe.c_str()); });
}

// Until `look` says that it is enough.
template <class Look>
bool any_name(std::span<const std::string> arguments, Look look) {
    return std::ranges::any_of(arguments.first(std::min(arguments.size(), kMostArguments)), [&](const auto& word) {
        const std::size_t value = word.find('=');
        return look(word) || (value != std::string::npos && look(word.substr(value + 1)));
    });
}

}  // namespace

bool expects_matches(const shim::Plan& plan, const std::string& program, std::span<const std::string> arguments) {
    return is_meant(plan, program) && any_name(arguments, [&](const auto& name) { return names_match(plan, name); });
}

Guess expects_at_once(const shim::Plan& plan, const std::string& program, std::span<const std::string> arguments) {
    if (!is_meant(plan, program)) return Guess::nothing;
    bool all_known = true;
    const bool found = any_name(arguments, [&](const auto& name) {
        const Guess each = expects_at_once(plan, name);
        all_known = all_known && each != Guess::unknown;
        return each == Guess::a_match;
    });
    if (found) return Guess::a_match;
    return all_known ? Guess::nothing : Guess::unknown;
}

}  // namespace chainio::start
