#include "tools/chainio/run/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>

#include "runtime/probe/privileges.h"
#include "runtime/shadow/launch.h"
#include "runtime/shim/glob.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/run/child.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/probes.h"
#include "tools/chainio/run/program.h"
#include "tools/chainio/run/report.h"

extern char** environ;

namespace chainio::run {
namespace {

void say(const std::string& text) { (void)write_whole(2, "chainio run: " + text + "\n"); }

// Everything that was found out and made before the program starts.
struct Prepared {
    Spec spec;
    std::string library, region_path;
    std::optional<shadow::RegionFile> region;  // until there is a server
    std::unique_ptr<probe::Session> probes;    // outlives the server, which reads it
    std::unique_ptr<shadow::Server> server;
};

std::expected<std::string, std::string> find_library(const std::string& given) {
    std::vector<std::string> places;
    if (!given.empty()) {
        places.push_back(given);
    } else if (const std::string folder = executable_folder(); !folder.empty()) {
        places.push_back(folder + "/../lib/libchainio.so");
        places.push_back(folder + "/../" CHAINIO_LIBDIR "/libchainio.so");
    }
    for (const std::string& place : places) {
        std::error_code error;
        const std::filesystem::path real = std::filesystem::canonical(place, error);
        if (error) continue;
        // The loader takes LD_PRELOAD apart at blanks and colons, and has no way to quote them.
        if (real.string().find_first_of(" :") != std::string::npos)
            return std::unexpected(fmt::format(
                "the loader cannot preload `{}`, whose path has a blank or a colon; --library names a copy elsewhere",
                real.string()));
        return real.string();
    }
    return std::unexpected(
        fmt::format("there is no libchainio.so: looked at {}; --library names it", fmt::join(places, ", ")));
}

std::vector<std::string> environment_for(const Prepared& made) {
    std::vector<std::string> out;
    std::string preload = "LD_PRELOAD=" + made.library;
    for (char** each = environ; *each != nullptr; each++) {
        const std::string_view entry(*each);
        if (entry.starts_with(std::string(shim::kRegionVariable) + "=")) continue;
        if (entry.starts_with("LD_PRELOAD=")) {
            if (entry.size() > std::strlen("LD_PRELOAD="))
                preload += ":" + std::string(entry.substr(std::strlen("LD_PRELOAD=")));
            continue;
        }
        out.emplace_back(entry);
    }
    out.push_back(std::move(preload));
    out.push_back(fmt::format("{}={}", shim::kRegionVariable, made.region_path));
    return out;
}

// Everything that a program need not wait for.
std::expected<void, std::string> make_server(Prepared& made, const RunOptions& options, const std::string& program) {
    if (made.spec.loaded == nullptr) {
        if (auto loaded = load_kept(made.spec); !loaded) return std::unexpected(std::move(loaded.error().message));
    }
    auto server = shadow::Server::create(made.spec.loaded, options.server, std::move(*made.region));
    made.region.reset();
    if (!server) return std::unexpected(std::move(server.error()));
    made.server = std::move(*server);
    made.probes = attach_probes(*made.spec.loaded, program, *made.server);
    return {};
}

std::expected<Prepared, SpecError> prepare(const RunOptions& options, const std::string& program) {
    Prepared made;
    // What keeps the server from being made is said before a program is started as --strict wants it.
    auto spec = load_spec(options.spec, !options.strict && shadow::wrong_options(options.server).empty());
    if (!spec) return std::unexpected(std::move(spec.error()));
    made.spec = std::move(*spec);
    const auto plain = [](std::string why) {
        return std::unexpected(SpecError{false, tool::kExitSystem, std::move(why)});
    };
    if (std::string why = cannot_preload(program); !why.empty()) return plain(std::move(why));
    auto library = find_library(options.library);
    if (!library) return plain(std::move(library.error()));
    made.library = std::move(*library);
    auto region = shadow::RegionFile::create();
    if (!region) return plain(std::move(region.error()));
    made.region_path = region->path();
    made.region.emplace(std::move(*region));
    if (made.spec.loaded == nullptr &&
        shadow::launch_region(made.spec.kept.launch, options.server.explain, made.region->get())) {
        (void)probe::drop_privileges();
        return made;
    }
    if (auto server = make_server(made, options, program); !server) return plain(std::move(server.error()));
    return made;
}

void print_summary(const RunOptions& options, const Summary& summary) {
    const std::string text = options.json ? summary_json(summary) : summary_text(summary);
    if (options.summary_file.empty()) {
        if (!options.quiet) (void)write_whole(2, text);
        return;
    }
    const Descriptor file(::open(options.summary_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file || !write_whole(file.get(), text))
        say(fmt::format("cannot write the summary to `{}`: {}", options.summary_file, std::strerror(errno)));
}

int cannot_start(const std::string& name, int error) {
    say(fmt::format("{}: {}", name, std::strerror(error)));
    return error == ENOENT ? 127 : 126;
}

// The program goes first: what hinders us does not hinder it.
int run_plain(const RunOptions& options, const std::string& program, const std::string& why) {
    const std::string reason = why.substr(0, why.find('\n'));
    Summary summary;
    summary.program = options.words.front();
    summary.spec = options.spec.name;
    summary.plain = reason;
    summary.running_on = true;
    if (!options.json || !options.summary_file.empty())
        say(fmt::format("{} runs plain: {}", options.words.front(), reason));
    if (options.json || !options.summary_file.empty()) print_summary(options, summary);
    Start what{program, options.words, {}};
    for (char** each = environ; *each != nullptr; each++) what.environment.emplace_back(*each);
    return cannot_start(options.words.front(), replace_by(what));
}

bool any_use(const Figures& figures) {
    return std::ranges::any_of(figures.classes, [](const ClassFigures& c) { return c.opened + c.reads != 0; }) ||
           std::ranges::any_of(figures.chains, [](const ChainFigures& c) { return c.runs != 0; });
}

// What stands behind a run that nothing came of.
std::vector<std::string> why_unused(const ir::Module& module, const std::string& program) {
    const auto matches = [&](const std::string& pattern) {
        return shim::glob_matches(pattern.c_str(), program.c_str());
    };
    if (!module.match_exe.empty() && std::ranges::none_of(module.match_exe, matches))
        return {fmt::format("the spec is for programs that match {}, and {} does not",
                            fmt::join(module.match_exe, ", "), program)};
    std::vector<std::string> classes;
    for (const auto& file : module.files) classes.push_back(fmt::format("{} = \"{}\"", file.name, file.pattern));
    return {
        fmt::format("nothing that the program opened is in a class of the spec ({}); --explain lists what it opened",
                    fmt::join(classes, ", "))};
}

Summary summary_of(const RunOptions& options, const Prepared& made, const std::string& program, const Child& child,
                   double seconds) {
    Summary s;
    s.program = options.words.front();
    s.spec = made.spec.name;
    s.ended = child.how();
    s.seconds = seconds;
    if (made.server == nullptr) return s;
    s.figures = figures_of(made.server->region().stats);
    s.report = made.server->report();
    s.explain = options.server.explain;
    report_probes(made.spec.loaded->module(), *made.probes, s.explain, s.report);
    auto& notes = s.report.notes;
    notes.insert(notes.begin(), made.spec.notes.begin(), made.spec.notes.end());
    if (!made.spec.loaded->native())
        notes.push_back("steps are interpreted: " + made.spec.loaded->interpreter_reason());
    if (!any_use(s.figures)) {
        const auto why = why_unused(made.spec.loaded->module(), program);
        notes.insert(notes.end(), why.begin(), why.end());
    }
    return s;
}

// Whether a program has ended already that no server was needed for.
bool needless(const Prepared& made, const RunOptions& options, Child& child) {
    if (!options.quiet || !options.summary_file.empty() || !child.ended()) return false;
    return std::ranges::all_of(made.region->get().used_rings, [](const auto& word) { return word.load() == 0; });
}

// A server that fails leaves a program that goes on plain.
std::string serve(Prepared& made, const RunOptions& options, const std::string& program, Child& child) {
    std::string failure;
    try {
        if (made.server == nullptr && needless(made, options, child)) return {};
        if (made.server == nullptr) {
            if (auto server = make_server(made, options, program); !server) failure = server.error();
        }
        if (made.server == nullptr) {
            made.region.reset();
        } else if (const auto served = made.server->run([&child] { return child.ended(); }); !served) {
            failure = served.error();
        }
    } catch (const std::exception& error) {
        failure = error.what();
    }
    child.wait();
    return failure;
}

}  // namespace

int run(const RunOptions& options) {
    guard_standard_descriptors();
    const std::string& name = options.words.front();
    const auto program = find_program(name);
    if (!program) {
        say(fmt::format("{}: {}", name, program.error().why));
        return program.error().exit_code;
    }
    auto made = prepare(options, *program);
    if (!made) {
        const SpecError& error = made.error();
        if (!error.refuses && !options.strict) return run_plain(options, *program, error.message);
        // chainc's own words have their form already.
        const bool is_diagnostic = error.message.find('\n') != std::string::npos;
        if (is_diagnostic) (void)write_whole(2, error.message + "\n");
        say(is_diagnostic ? fmt::format("`{}` does not compile; {} was not started", options.spec.name, name)
                          : error.message);
        return error.exit_code;
    }
    const auto start = std::chrono::steady_clock::now();
    auto child = Child::start({*program, options.words, environment_for(*made)}, options.follow);
    if (!child) return cannot_start(name, child.error());
    const std::string failure = serve(*made, options, *program, *child);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    Summary summary = summary_of(options, *made, *program, *child, time.count());
    if (!failure.empty())
        summary.report.notes.insert(summary.report.notes.begin(), "the server ended early: " + failure);
    print_summary(options, summary);
    // Removes the region, which end_like() would leave.
    made->server.reset();
    made->region.reset();
    end_like(child->how());
}

}  // namespace chainio::run
