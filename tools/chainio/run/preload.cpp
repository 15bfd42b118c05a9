#include "tools/chainio/run/preload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "tools/chainc/stdlib.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/program.h"

namespace chainio::run {
namespace {

// `$LIB` is for glibc's loader, and for no other. Programs of another C library, which cannot load ours, inherit what a
// program of glibc was started with, and have to start all the same.
std::string named_for_glibc(const std::string& library) {
    constexpr std::string_view kName = "/libchainio.so";
    if (!library.ends_with(kName)) return library;
    const std::string folder = library.substr(0, library.size() - kName.size()) + "/chainio/";
    const std::string linked = folder + "lib/x86_64-linux-gnu" + std::string(kName);
    return ::access(linked.c_str(), R_OK) == 0 ? folder + "$LIB" + std::string(kName) : library;
}

// Why the loader would not load it; empty when it would. The loader itself says a line, and starts programs without.
std::string cannot_load(const std::string& library) {
    const Descriptor file(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return std::strerror(errno);
    const auto header = elf_header(file);
    if (!header || header->e_type != ET_DYN || header->e_machine != EM_X86_64)
        return "it is no shared library for this kind of machine";
    return {};
}

}  // namespace

std::expected<std::string, std::string> find_library(const std::string& given) {
    std::vector<std::string> places;
    if (!given.empty()) {
        places.push_back(given);
    } else if (const std::string folder = chainc::executable_folder(); !folder.empty()) {
        places.push_back(folder + "/../lib/libchainio.so");
        places.push_back(folder + "/../" CHAINIO_LIBDIR "/libchainio.so");
    }
    std::string tried;
    for (const std::string& place : places) {
        tried += (tried.empty() ? "" : ", ") + place;
        const std::string real = resolved(place);
        if (real.empty()) continue;
        // The loader takes LD_PRELOAD apart at blanks and colons, and has no way to quote them.
        if (real.find_first_of(" :") != std::string::npos)
            return std::unexpected("the loader cannot preload `" + real +
                                   "`, whose path has a blank or a colon; --library names a copy elsewhere");
        if (const std::string why = cannot_load(real); !why.empty())
            return std::unexpected("`" + real + "` cannot be preloaded: " + why + "; --library names another");
        return real;
    }
    return std::unexpected("there is no libchainio.so: looked at " + tried + "; --library names it");
}

std::vector<std::string> environment_for(const std::string& library, const std::string& region, bool rewrite) {
    constexpr std::string_view kPreload = "LD_PRELOAD=";
    const std::string variable = std::string(shim::kRegionVariable) + "=";
    const std::string sites = std::string(shim::kSitesVariable) + "=";
    // The runtime of AddressSanitizer, where it is a library (gcc's is), ends programs in which it is not the first
    // one.
    constexpr std::string_view kSanitizer = "ASAN_OPTIONS=";
    std::string sanitizer = std::string(kSanitizer) + "verify_asan_link_order=0";
    std::vector<std::string> out;
    std::string preload = std::string(kPreload) + named_for_glibc(library);
    for (char** each = environ; *each != nullptr; each++) {
        const std::string_view entry(*each);
        if (entry.starts_with(variable) || entry.starts_with(sites)) continue;
        if (entry.starts_with(kPreload)) {
            if (entry.size() > kPreload.size()) preload += ":" + std::string(entry.substr(kPreload.size()));
            continue;
        }
        if (entry.starts_with(kSanitizer)) {
            sanitizer += ":" + std::string(entry.substr(kSanitizer.size()));  // what is said last counts
            continue;
        }
        out.emplace_back(entry);
    }
    out.push_back(std::move(preload));
    out.push_back(std::move(sanitizer));
    out.push_back(variable + region);
    if (rewrite) out.push_back(sites + chainc::executable_folder() + "/chainio-sites");
    return out;
}

}  // namespace chainio::run
