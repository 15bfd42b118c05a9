#include "tools/chainio/run/spec.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "compiler/diag/utf8.h"
#include "runtime/shadow/launch.h"
#include "tools/chainc/spec_names.h"
#include "tools/chainc/stdlib.h"
#include "tools/chainio/run/cache.h"
#include "tools/chainio/run/compile.h"
#include "tools/chainio/run/descriptor_name.h"
#include "tools/chainio/run/files.h"

namespace chainio::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSpec = 64 << 20;
constexpr int kUnreadable = 3;  // the exit code, as of chainc

std::unexpected<SpecError> refused(int exit_code, std::string_view message) {
    return std::unexpected(SpecError{true, exit_code, diag::escaped(message)});
}

std::expected<std::string, SpecError> locate(const SpecRequest& request, const std::string& stdlib) {
    const std::vector<std::string> places = places_of(request, stdlib);
    if (const auto found = std::ranges::find_if(places, is_file); found != places.end()) return *found;
    std::error_code none;
    if (const auto folder =
            std::ranges::find_if(places, [&](const auto& place) { return fs::is_directory(place, none); });
        folder != places.end())
        return refused(kUnreadable,
                       fmt::format("`{}` is a directory, and no spec: name the .chain file in it", *folder));
    std::string message = fmt::format("there is no spec `{}`: looked at {}", request.name, fmt::join(places, ", "));
    if (const std::string meant = chainc::meant_spec(request.name, stdlib); !meant.empty()) message += "; " + meant;
    return refused(kUnreadable, message);
}

// What the compiler has read; nothing when that cannot be told again later.
std::vector<CachedSource> fingerprints(const std::vector<std::string>& paths) {
    std::vector<CachedSource> sources;
    for (const std::string& path : paths) {
        const auto text = read_whole(path, kMostSpec);
        if (!text || path.find('\n') != std::string::npos) return {};
        sources.push_back({real_path(path), fingerprint(*text)});
    }
    return sources;
}

using Loading = std::expected<std::shared_ptr<const spec::Loaded>, SpecError>;

Loading load_bytes(std::string_view bytes, const std::string& name, ir::Programs programs) {
    auto loaded = spec::Loaded::from_bytes({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, name,
                                           {.use_native = true, .programs = programs, .for_kernel = false});
    if (!loaded) return std::unexpected(SpecError{!loaded.error().system, 1, diag::escaped(loaded.error().message)});
    return std::move(*loaded);
}

Loading compile_and_keep(const CompileRequest& request, const Cache& cache, const std::string& key,
                         std::vector<std::string>& notes) {
    // A source that is edited meanwhile is not kept; nor is one that cannot be looked at again.
    const auto before = request.text ? std::vector<CachedSource>() : fingerprints({request.source});
    auto compiled = compile(request);
    if (!compiled) {
        const CompileError& error = compiled.error();
        const bool system = error.exit_code > 2;
        return std::unexpected(SpecError{!system, system ? 3 : error.exit_code, error.message});
    }
    auto loaded = load_bytes(compiled->artifact, request.source, ir::Programs::to_prove);
    const auto sources = before.empty() ? before : fingerprints(compiled->sources);
    const bool same = !sources.empty() && sources.front().fingerprint == before.front().fingerprint;
    if (!loaded || !same) return loaded;
    const std::string why = cache.keep(key, sources, {shadow::launch_of(**loaded), std::move(compiled->artifact)});
    if (!why.empty())
        notes.push_back(
            fmt::format("the compiled spec was not kept, and every run compiles it anew: {}; "
                        "`chainc {} -o spec.bpf.o` makes one for --spec",
                        diag::escaped(why), diag::escaped(request.source)));
    return loaded;
}

std::expected<void, SpecError> load_source(const SpecRequest& request, const std::string& stdlib,
                                           std::optional<std::string> text, Spec& spec) {
    const std::string& path = spec.path;
    CompileRequest wanted{find_compiler(), path, request.include_dirs, request.params, stdlib, std::move(text)};
    if (wanted.compiler.empty()) {
        return std::unexpected(SpecError{
            false, 3,
            fmt::format("`{}` is a source, and chainc, which compiles it, is neither beside chainio nor on PATH",
                        diag::escaped(path))});
    }
    const Cache cache = request.use_cache && !wanted.text ? Cache::of_user() : Cache({});
    const std::string key = key_of(wanted);
    if (const auto artifact = cache.find_artifact(key)) {
        // Proven before it was kept, in a file that is this user's alone and whose fingerprint holds.
        if (auto loaded = load_bytes(*artifact, path, ir::Programs::proven)) {
            spec.loaded = std::move(*loaded);
            return {};
        }
    }
    spec.compiled = true;
    auto loaded = compile_and_keep(wanted, cache, key, spec.notes);
    if (!loaded) return std::unexpected(std::move(loaded.error()));
    spec.loaded = std::move(*loaded);
    return {};
}

bool has_shadow_chains(const spec::Loaded& loaded) {
    return std::ranges::any_of(loaded.module().chains,
                               [](const ir::Chain& chain) { return chain.mode != ir::ChainMode::call; });
}

std::expected<Spec, SpecError> load_found(const SpecRequest& request, const std::string& path,
                                          const std::string& stdlib) {
    auto begin = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!begin) return refused(kUnreadable, fmt::format("cannot read the spec `{}`: {}", path, std::strerror(errno)));
    struct stat status{};
    const bool regular = ::fstat(begin.get(), &status) == 0 && S_ISREG(status.st_mode);
    // A pipe can be read once, and the compiler has another standard input.
    const bool is_text = !regular || descriptor_named(path) == 0;
    char magic[4] = {};
    const ssize_t got = regular ? ::pread(begin.get(), magic, sizeof magic, 0) : 0;
    if (got < 0) return refused(kUnreadable, fmt::format("cannot read the spec `{}`: {}", path, std::strerror(errno)));
    const bool is_artifact = got == sizeof magic && std::string_view(magic, 4) ==
                                                        "\x7f"
                                                        "ELF";
    Spec spec;
    spec.path = path;
    if (!is_artifact) {
        std::optional<std::string> text;
        if (is_text) {
            auto read = read_whole(begin.get(), kMostSpec);
            if (!read) return refused(kUnreadable, fmt::format("cannot read the spec `{}`: {}", path, read.error()));
            text = std::move(*read);
        }
        begin.reset();
        if (auto loaded = load_source(request, stdlib, std::move(text), spec); !loaded)
            return std::unexpected(std::move(loaded.error()));
        return spec;
    }
    if (!request.params.empty())
        return refused(2,
                       fmt::format("`{}` is compiled already, with its parameters; --param goes with a source", path));
    auto bytes = read_whole(begin.get(), kMostSpec);
    if (!bytes) return refused(kUnreadable, fmt::format("cannot read the spec `{}`: {}", path, bytes.error()));
    auto loaded = load_bytes(*bytes, path, ir::Programs::to_prove);
    if (!loaded) return std::unexpected(std::move(loaded.error()));
    spec.loaded = std::move(*loaded);
    return spec;
}

std::string told_name(const std::string& path, const std::string& stdlib) {
    const std::string real = real_path(path), folder = real_path(stdlib) + "/";
    return !stdlib.empty() && real.starts_with(folder) ? real.substr(folder.size()) : path;
}

}  // namespace

std::expected<Spec, SpecError> load_spec(const SpecRequest& request) {
    const std::string stdlib = chainc::find_stdlib({});
    auto path = locate(request, stdlib);
    if (!path) return std::unexpected(std::move(path.error()));
    // A library of chains to call names its parameters differently, so it is not even compiled with them.
    const std::string shadow = shadow_file_beside(*path, stdlib);
    auto spec = load_found(request, shadow.empty() ? *path : shadow, stdlib);
    if (!spec) return spec;
    spec->name = told_name(spec->path, stdlib);
    if (!shadow.empty())
        spec->notes.push_back(fmt::format("{} holds chains to call; those of {} ran", request.name, spec->name));
    if (has_shadow_chains(*spec->loaded)) return spec;
    return refused(1, fmt::format("`{}` declares no shadow chain, so there is nothing to do beside a program; one is "
                                  "`chain NAME on read(FILES) as r {{ … }}`",
                                  spec->path));
}

}  // namespace chainio::run
