#include "runtime/probe/libraries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "compiler/diag/diag.h"
#include "runtime/probe/elf_view.h"
#include "runtime/probe/last_part.h"

namespace chainio::probe {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostParts = 512, kMostCached = 65536;
constexpr int kMostScripts = 4;  // interpreters of interpreters, as the kernel allows

struct CacheEntry {
    std::int32_t flags;
    std::uint32_t key, value, os_version;
    std::uint64_t hwcap;
};
constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t kCacheHeader = 48;
#if defined(__aarch64__)
constexpr std::int32_t kCacheKind = 0x0a03;
constexpr auto kFolders = {
    "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"};
#else
constexpr std::int32_t kCacheKind = 0x0303;
constexpr auto kFolders = {
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"};
#endif

std::string text_at(std::span<const std::uint8_t> bytes, std::uint32_t at) {
    if (at >= bytes.size()) return "";
    const auto* begin = reinterpret_cast<const char*>(bytes.data() + at);
    const std::size_t length = strnlen(begin, std::min<std::size_t>(bytes.size() - at, 4096));
    return {begin, length};
}

std::string real_path(const std::string& path) {
    std::error_code error;
    const auto found = fs::canonical(path, error);
    return error || !fs::is_regular_file(found, error) ? "" : found.string();
}

std::vector<std::string> split_folders(std::string_view list, const std::string& origin) {
    std::vector<std::string> out;
    while (!list.empty()) {
        const auto end = std::min(list.find_first_of(":;"), list.size());
        std::string folder(list.substr(0, end));
        for (std::string_view mark : {"${ORIGIN}", "$ORIGIN"})
            for (auto at = folder.find(mark); at != folder.npos; at = folder.find(mark, at + origin.size()))
                folder.replace(at, mark.size(), origin);
        if (!folder.empty()) out.push_back(std::move(folder));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return out;
}

// A `#!` line's program; empty when the bytes are something else.
std::string script_program(std::span<const std::uint8_t> bytes) {
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 256));
    if (!text.starts_with("#!")) return "";
    text.remove_prefix(2);
    text = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    const std::string program(text.substr(0, text.find_first_of(" \t")));
    if (last_part(program) != "env") return program;
    std::string_view rest = text.substr(program.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    const std::string name(rest.substr(0, rest.find_first_of(" \t")));
    const char* path = std::getenv("PATH");
    for (const std::string& folder : split_folders(path != nullptr ? path : "/usr/bin:/bin", ""))
        if (std::string found = real_path(folder + "/" + name); !name.empty() && !found.empty()) return found;
    return program;
}

bool stands_for(std::string_view wanted, const std::string& name) {
    return name == wanted || name.starts_with(std::string(wanted) + ".so") ||
           (wanted.find(".so") != wanted.npos && name.starts_with(std::string(wanted) + "."));
}

// Those of `all` that `wanted` stands for, each file once; an exact name excludes the others.
std::vector<Library> matching(const std::vector<Library>& all, std::string_view wanted) {
    std::vector<Library> out;
    std::set<std::string> seen;
    for (const Library& one : all) {
        if (one.name == wanted) return {one};
        if (stands_for(wanted, one.name) && seen.insert(one.path).second) out.push_back(one);
    }
    return out;
}

}  // namespace

std::vector<Library> read_loader_cache(std::span<const std::uint8_t> bytes) {
    std::vector<Library> out;
    if (bytes.size() < kCacheHeader || std::memcmp(bytes.data(), kCacheMagic.data(), kCacheMagic.size()) != 0)
        return out;
    std::uint32_t count = 0;
    std::memcpy(&count, bytes.data() + kCacheMagic.size(), sizeof(count));
    for (std::size_t i = 0; i < std::min<std::size_t>(count, kMostCached); i++) {
        const std::size_t at = kCacheHeader + i * sizeof(CacheEntry);
        if (at + sizeof(CacheEntry) > bytes.size()) break;
        CacheEntry entry;
        std::memcpy(&entry, bytes.data() + at, sizeof(entry));
        if (entry.flags != kCacheKind || entry.hwcap != 0) continue;
        Library found{text_at(bytes, entry.key), text_at(bytes, entry.value)};
        if (!found.name.empty() && !found.path.empty()) out.push_back(std::move(found));
    }
    return out;
}

std::expected<Libraries, std::string> Libraries::of(const std::string& program) {
    Libraries out;
    std::string path = real_path(program);
    if (path.empty()) return std::unexpected(fmt::format("cannot find the program {}", program));
    if (auto cache = MappedFile::open("/etc/ld.so.cache")) out.cache_ = read_loader_cache(cache->bytes());
    for (int depth = 0; depth < kMostScripts; depth++) {
        auto file = MappedFile::open(path);
        if (!file) return std::unexpected(file.error());
        const std::string next = script_program(file->bytes());
        if (next.empty()) break;
        const std::string found = real_path(next);
        if (found.empty()) return std::unexpected(fmt::format("cannot find {}, which runs the script {}", next, path));
        path = found;
    }
    out.parts_.push_back({std::string(last_part(program)), path});
    std::set<std::string> seen{path};
    const char* variable = std::getenv("LD_LIBRARY_PATH");
    const std::string user_folders = variable != nullptr ? variable : "";
    for (std::size_t i = 0; i < out.parts_.size(); i++) {
        auto file = MappedFile::open(out.parts_[i].path);
        if (!file) return std::unexpected(file.error());
        auto elf = ElfView::read(file->bytes());
        if (!elf && i == 0) return std::unexpected(fmt::format("cannot probe {}: {}", path, elf.error()));
        if (!elf) continue;
        const std::string origin = fs::path(out.parts_[i].path).parent_path().string();
        std::vector<std::string> folders = split_folders(elf->runpath(), origin);
        std::ranges::move(split_folders(user_folders, origin), std::back_inserter(folders));
        for (std::string_view needed : elf->needed()) {
            const std::string name(needed);
            std::string found = name.contains('/') ? real_path(name) : "";
            for (std::size_t k = 0; k < folders.size() && found.empty(); k++)
                found = real_path(folders[k] + "/" + name);
            if (const auto cached = std::ranges::find(out.cache_, name, &Library::name);
                found.empty() && cached != out.cache_.end())
                found = real_path(cached->path);
            for (const char* folder : kFolders)
                if (found.empty()) found = real_path(std::string(folder) + "/" + name);
            if (!found.empty() && out.parts_.size() < kMostParts && seen.insert(found).second)
                out.parts_.push_back({std::string(last_part(name)), found});
        }
    }
    return out;
}

std::expected<Library, std::string> Libraries::find(std::string_view name) const {
    if (name.contains('/')) {
        std::string path = real_path(std::string(name));
        if (path.empty()) return std::unexpected(fmt::format("there is no file {}", name));
        return Library{std::string(last_part(path)), path};
    }
    for (const auto* list : {&parts_, &cache_}) {
        const auto found = matching(*list, name);
        if (found.size() == 1) return Library{found.front().name, real_path(found.front().path)};
        if (found.empty()) continue;
        std::vector<std::string> names;
        for (const Library& one : found) names.push_back(one.name);
        return std::unexpected(fmt::format("`{}` may be any of {}; name one of them", name, fmt::join(names, ", ")));
    }
    std::vector<std::string> names, shown;
    for (const Library& one : parts_) shown.push_back(one.name);
    for (const auto* list : {&parts_, &cache_})
        for (const Library& one : *list) {
            names.push_back(one.name);
            names.push_back(one.name.substr(0, one.name.find(".so") + 3));
        }
    const auto near = diag::nearest(name, names);
    return std::unexpected(
        fmt::format("there is no library `{}`{}; the program consists of {}; what it loads later from a folder of its "
                    "own is named by a path",
                    name, near ? fmt::format(", did you mean `{}`?", *near) : "", fmt::join(shown, ", ")));
}

}  // namespace chainio::probe
