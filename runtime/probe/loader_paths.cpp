#include "runtime/probe/loader_paths.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <utility>

namespace chainio::probe {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> known_processor_folders() {
    std::vector<std::string> out;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("x86-64-v4")) out.emplace_back("x86-64-v4");
    if (__builtin_cpu_supports("x86-64-v3")) out.emplace_back("x86-64-v3");
    if (__builtin_cpu_supports("x86-64-v2")) out.emplace_back("x86-64-v2");
#endif
    return out;
}

// What `$LIB` stands for is fixed in each loader: the folder in which distributions have it.
std::string loaders_lib(std::string_view interpreter) {
    std::error_code error;
    std::string folder = fs::canonical(interpreter, error).parent_path().string();
    for (std::string_view root : {"/usr/", "/"})
        if (folder.starts_with(root)) folder.erase(0, root.size());
    return error || folder.empty() ? "lib64" : folder;
}

std::string folder_of(const std::string& path) { return fs::path(path).parent_path().string(); }

}  // namespace

std::vector<std::string> split(std::string_view list, std::string_view separators) {
    std::vector<std::string> out;
    while (!list.empty()) {
        const auto end = std::min(list.find_first_of(separators), list.size());
        if (end != 0) out.emplace_back(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return out;
}

const std::vector<std::string>& processor_folders() {
    static const std::vector<std::string> known = known_processor_folders();
    return known;
}

std::vector<std::string> candidates_in(const std::string& folder, const std::string& name) {
    std::vector<std::string> out;
    for (const std::string& processor : processor_folders())
        out.push_back(folder + "/glibc-hwcaps/" + processor + "/" + name);
    out.push_back(folder + "/" + name);
    return out;
}

LoaderPaths::LoaderPaths(const ElfView& program, const std::string& path) : lib_(loaders_lib(program.interpreter())) {
    const auto* platform = reinterpret_cast<const char*>(getauxval(AT_PLATFORM));
    platform_ = platform != nullptr ? platform : "";
    const char* variable = std::getenv("LD_LIBRARY_PATH");
    of_user_ = folders(variable != nullptr ? variable : "", ":;", folder_of(path));
    add(program, path, 0);
}

// RPATH counts only where there is no RUNPATH.
void LoaderPaths::add(const ElfView& library, const std::string& found_as, std::size_t loader) {
    Part part{.origin = folder_of(found_as), .rpath = {}, .runpath = {}, .loader = loader};
    part.runpath = folders(library.runpath(), ":", part.origin);
    if (library.runpath().empty()) part.rpath = folders(library.rpath(), ":", part.origin);
    parts_.push_back(std::move(part));
}

// RPATH of those that needed a part counts for what it needs itself, RUNPATH does not.
std::vector<std::string> LoaderPaths::folders_for(std::size_t part) const {
    std::vector<std::string> out;
    for (std::size_t at = part; parts_[part].runpath.empty(); at = parts_[at].loader) {
        std::ranges::copy(parts_[at].rpath, std::back_inserter(out));
        if (at == 0) break;
    }
    std::ranges::copy(of_user_, std::back_inserter(out));
    std::ranges::copy(parts_[part].runpath, std::back_inserter(out));
    return out;
}

std::string LoaderPaths::expand(std::string_view text, const std::string& origin) const {
    const std::pair<std::string, std::string_view> marks[] = {
        {"ORIGIN", origin}, {"LIB", lib_}, {"PLATFORM", platform_}};
    std::string out;
    while (!text.empty()) {
        const auto at = std::min(text.find('$'), text.size());
        out += text.substr(0, at);
        text.remove_prefix(at);
        if (text.empty()) break;
        std::size_t used = 0;
        for (const auto& [name, value] : marks)
            for (const std::string& mark : {"$" + name, "${" + name + "}"}) {
                if (used != 0 || !text.starts_with(mark)) continue;
                used = mark.size();
                out += value;
            }
        if (used == 0) out += '$';
        text.remove_prefix(std::max<std::size_t>(used, 1));
    }
    return out;
}

std::vector<std::string> LoaderPaths::folders(std::string_view list, std::string_view separators,
                                              const std::string& origin) const {
    std::vector<std::string> out;
    for (const std::string& folder : split(list, separators)) out.push_back(expand(folder, origin));
    return out;
}

}  // namespace chainio::probe
