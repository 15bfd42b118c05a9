#include "runtime/probe/libraries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/diag/diag.h"
#include "runtime/probe/elf_view.h"
#include "runtime/probe/last_part.h"
#include "runtime/probe/loader_paths.h"

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

// What `env` is told to execute by these words: behind its options, of which -u and -C have a word of their own, and
// the variables that it sets. Empty when that is nothing.
std::string program_of_env(std::vector<std::string> words) {
    const bool splits = !words.empty() && (words[0].starts_with("-S") || words[0].starts_with("--split-string="));
    if (splits) words[0].erase(0, words[0][1] == 'S' ? 2 : std::string_view("--split-string=").size());
    for (std::size_t i = 0; i < words.size(); i++) {
        const bool has_word = words[i] == "-u" || words[i] == "-C" || words[i] == "--unset" || words[i] == "--chdir";
        if (has_word) i++;
        const bool is_passed = has_word || words[i].empty() || words[i].starts_with('-') || words[i].contains('=');
        if (!is_passed) return words[i];
    }
    return "";
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
    const std::string name = program_of_env(split(text.substr(program.size()), " \t"));
    const char* path = std::getenv("PATH");
    for (const std::string& folder : split(path != nullptr ? path : "/usr/bin:/bin", ":"))
        if (std::string found = real_path(folder + "/" + name); !name.empty() && !found.empty()) return found;
    return program;
}

// How good a build of a library is for this processor: 0 for any; none where it cannot run it. The name of the folder
// says what it is for (glibc-hwcaps); older marks no loader looks at any more.
std::optional<std::size_t> rank_of(const CacheEntry& entry, std::string_view path) {
    constexpr std::uint64_t kByFolder = 1 << 30;
    constexpr std::string_view kAbove = "/glibc-hwcaps/";
    if (entry.hwcap == 0) return 0;
    const auto at = path.find(kAbove);
    if (entry.hwcap >> 32 != kByFolder || at == path.npos) return std::nullopt;
    const auto folder = path.substr(at + kAbove.size(), path.substr(at + kAbove.size()).find('/'));
    const auto& known = processor_folders();
    const auto found = std::ranges::find(known, folder);
    if (found == known.end()) return std::nullopt;
    return static_cast<std::size_t>(known.end() - found);
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

// Follows scripts to the program that runs them.
std::expected<std::string, std::string> program_behind(const std::string& program) {
    std::string path = real_path(program);
    if (path.empty()) return std::unexpected(fmt::format("cannot find the program {}", program));
    for (int depth = 0; depth < kMostScripts; depth++) {
        auto file = MappedFile::open(path);
        if (!file) return std::unexpected(file.error());
        const std::string next = script_program(file->bytes());
        if (next.empty()) break;
        const std::string found = real_path(next);
        if (found.empty()) return std::unexpected(fmt::format("cannot find {}, which runs the script {}", next, path));
        path = found;
    }
    return path;
}

}  // namespace

std::vector<Library> read_loader_cache(std::span<const std::uint8_t> bytes) {
    std::vector<std::pair<std::size_t, Library>> all;  // with how good it is
    std::map<std::string, std::size_t> best;
    if (bytes.size() < kCacheHeader || std::memcmp(bytes.data(), kCacheMagic.data(), kCacheMagic.size()) != 0)
        return {};
    std::uint32_t count = 0;
    std::memcpy(&count, bytes.data() + kCacheMagic.size(), sizeof(count));
    for (std::size_t i = 0; i < std::min<std::size_t>(count, kMostCached); i++) {
        const std::size_t at = kCacheHeader + i * sizeof(CacheEntry);
        if (at + sizeof(CacheEntry) > bytes.size()) break;
        CacheEntry entry;
        std::memcpy(&entry, bytes.data() + at, sizeof(entry));
        if (entry.flags != kCacheKind) continue;
        Library found{text_at(bytes, entry.key), text_at(bytes, entry.value)};
        const auto rank = rank_of(entry, found.path);
        if (found.name.empty() || found.path.empty() || !rank) continue;
        std::size_t& known = best[found.name];
        known = std::max(known, *rank);
        all.emplace_back(*rank, std::move(found));
    }
    std::vector<Library> out;
    for (auto& [rank, library] : all)
        if (rank == best[library.name]) out.push_back(std::move(library));
    return out;
}

// Where the loader finds what a part needs, as it names it; empty where it does not.
std::string Libraries::look_for(const std::string& name, const std::vector<std::string>& folders) const {
    if (name.contains('/')) return real_path(name).empty() ? "" : name;
    std::vector<std::string> candidates;
    for (const std::string& folder : folders)
        std::ranges::move(candidates_in(folder, name), std::back_inserter(candidates));
    const auto cached = std::ranges::find(cache_, name, &Library::name);
    if (cached != cache_.end()) candidates.push_back(cached->path);
    for (const char* folder : kFolders) std::ranges::move(candidates_in(folder, name), std::back_inserter(candidates));
    const auto found = std::ranges::find_if(candidates, [](const std::string& one) { return !real_path(one).empty(); });
    return found == candidates.end() ? "" : *found;
}

std::expected<Libraries, std::string> Libraries::of(const std::string& program) {
    Libraries out;
    const auto path = program_behind(program);
    if (!path) return std::unexpected(path.error());
    if (auto cache = MappedFile::open("/etc/ld.so.cache")) out.cache_ = read_loader_cache(cache->bytes());
    out.parts_.push_back({std::string(last_part(program)), *path});
    std::optional<LoaderPaths> paths;
    std::set<std::string> seen{*path};
    std::vector<std::pair<std::string, std::size_t>> found_as{{*path, 0}};  // of each part, and who needs it
    for (std::size_t i = 0; i < out.parts_.size(); i++) {
        auto file = MappedFile::open(out.parts_[i].path);
        if (!file) return std::unexpected(file.error());
        auto elf = ElfView::read(file->bytes());
        if (!elf && i == 0) return std::unexpected(fmt::format("cannot probe {}: {}", *path, elf.error()));
        if (i == 0) {
            paths.emplace(*elf, *path);
        } else if (elf) {
            paths->add(*elf, found_as[i].first, found_as[i].second);
        } else {
            paths->add_nothing(found_as[i].second);
            continue;
        }
        const auto folders = paths->folders_for(i);
        for (std::string_view needed : elf->needed()) {
            const std::string name = paths->expanded(needed, i);
            // What is there under that name already is not looked for again.
            if (std::ranges::find(out.parts_.begin() + 1, out.parts_.end(), name, &Library::name) != out.parts_.end())
                continue;
            const std::string found = out.look_for(name, folders);
            std::string real = found.empty() ? "" : real_path(found);
            if (real.empty() || out.parts_.size() == kMostParts || !seen.insert(real).second) continue;
            out.parts_.push_back({std::string(last_part(name)), std::move(real)});
            found_as.emplace_back(found, i);
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
