#include "tools/chainio/run/program.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "runtime/probe/last_part.h"
#include "tools/chainio/run/files.h"

namespace chainio::run {
namespace {

constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";  // of glibc, which libchainio.so is made for
constexpr int kMostScripts = 4;  // the kernel's own limit on interpreters that are scripts

std::optional<NotFound> check(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0)
        return NotFound{errno == ENOENT || errno == ENOTDIR ? 127 : 126, std::strerror(errno)};
    if (S_ISDIR(status.st_mode)) return NotFound{126, std::strerror(EISDIR)};
    if (::access(path.c_str(), X_OK) != 0) return NotFound{126, std::strerror(errno)};
    return std::nullopt;
}

std::string search_path() {
    if (const char* path = std::getenv("PATH")) return path;
    std::string path(::confstr(_CS_PATH, nullptr, 0), '\0');
    ::confstr(_CS_PATH, path.data(), path.size());
    if (!path.empty()) path.pop_back();
    return path;
}

// The loader that an ELF program names; empty: none, it is static. nullopt: not an ELF program of this machine's kind.
std::optional<std::string> loader_of(const Descriptor& file) {
    const auto header = elf_header(file);
    if (!header) return std::nullopt;
    for (int i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment{};
        const auto at = static_cast<off_t>(header->e_phoff + static_cast<std::uint64_t>(i) * header->e_phentsize);
        if (::pread(file.get(), &segment, sizeof segment, at) != sizeof segment) return std::nullopt;
        if (segment.p_type != PT_INTERP) continue;
        std::string loader(std::min<std::size_t>(segment.p_filesz, 4096), '\0');
        if (::pread(file.get(), loader.data(), loader.size(), static_cast<off_t>(segment.p_offset)) < 0)
            return std::nullopt;
        return std::string(loader.c_str());
    }
    return std::string();
}

// Who executes the loader by name, with a program behind it, has it preload as the kernel would.
bool is_the_loader(const Descriptor& file) {
    struct stat status{}, loader{};
    return ::fstat(file.get(), &status) == 0 && ::stat(kLoader, &loader) == 0 && status.st_dev == loader.st_dev &&
           status.st_ino == loader.st_ino;
}

// Programs that gain rights by being executed: the loader ignores LD_PRELOAD in them.
std::string gains_rights(const Descriptor& file) {
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return {};
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid()) return "it is a set-user-ID program";
    if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 && status.st_gid != ::getgid())
        return "it is a set-group-ID program";
    if (::getuid() != 0 && ::fgetxattr(file.get(), "security.capability", nullptr, 0) > 0)
        return "it has file capabilities";
    return {};
}

// The interpreter of a `#!` line; empty when it is none.
std::string interpreter_of(const Descriptor& file) {
    char line[256] = {};
    const ssize_t n = ::pread(file.get(), line, sizeof line - 1, 0);
    std::string_view text(line, n > 0 ? static_cast<std::size_t>(n) : 0);
    if (!text.starts_with("#!")) return {};
    text = text.substr(2, text.find('\n') - 2);
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    return std::string(text.substr(0, text.find_first_of(" \t")));
}

}  // namespace

std::optional<Elf64_Ehdr> elf_header(const Descriptor& file) {
    Elf64_Ehdr header{};
    if (::pread(file.get(), &header, sizeof header, 0) != sizeof header) return std::nullopt;
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
        return std::nullopt;
    return header;
}

std::expected<std::string, NotFound> find_program(std::string_view name) {
    if (name.find('/') != std::string_view::npos) {
        const std::string path(name);
        if (auto problem = check(path)) return std::unexpected(std::move(*problem));
        return path;
    }
    NotFound last{127, "command not found"};
    if (name.empty()) return std::unexpected(last);
    const std::string folders = search_path();
    for (std::size_t at = 0; at <= folders.size();) {
        const std::size_t end = std::min(folders.find(':', at), folders.size());
        const std::string folder = folders.substr(at, end - at);
        const std::string path = (folder.empty() ? "." : folder) + "/" + std::string(name);
        const auto problem = check(path);
        if (!problem) return path;
        if (problem->exit_code == 126 && last.exit_code == 127 && problem->why != std::strerror(EISDIR))
            last = *problem;
        at = end + 1;
    }
    return std::unexpected(last);
}

std::optional<Missing> missing_for(const std::string& path) {
    std::string program = path;
    for (int depth = 0; depth <= kMostScripts; depth++) {
        const Descriptor file(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
        if (!file) return std::nullopt;
        const std::string interpreter = interpreter_of(file);
        const std::string wanted = interpreter.empty() ? loader_of(file).value_or("") : interpreter;
        if (wanted.empty()) return std::nullopt;
        if (::access(wanted.c_str(), F_OK) != 0) return Missing{!interpreter.empty(), wanted};
        program = wanted;
    }
    return std::nullopt;
}

std::string cannot_preload(const std::string& path) {
    std::string program = path;
    for (int depth = 0; depth <= kMostScripts; depth++) {
        const Descriptor file(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
        if (!file) return {};  // executable and not readable: it may well work
        const std::string interpreter = interpreter_of(file);
        if (!interpreter.empty()) {
            program = interpreter;
            continue;
        }
        if (const std::string rights = gains_rights(file); !rights.empty())
            return rights + ", into which the loader preloads nothing";
        const auto loader = loader_of(file);
        // A script without `#!` is run by /bin/sh.
        char magic[4] = {};
        if (!loader && (::pread(file.get(), magic, 4, 0) != 4 || std::memcmp(magic, ELFMAG, SELFMAG) != 0)) return {};
        if (!loader) return "it is a program for another kind of machine than chainio";
        if (loader->empty() && is_the_loader(file)) return {};
        if (loader->empty()) return "it is statically linked, so its calls cannot be seen";
        if (probe::last_part(*loader) != probe::last_part(kLoader))
            return "its loader is " + *loader + ", and libchainio.so is for " + std::string(probe::last_part(kLoader));
        return {};
    }
    return {};
}

}  // namespace chainio::run
