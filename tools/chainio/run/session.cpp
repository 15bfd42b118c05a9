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
#include <new>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/diag/utf8.h"
#include "compiler/ir/patterns.h"
#include "runtime/shim/glob.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/run/child.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/handover.h"
#include "tools/chainio/run/passing.h"
#include "tools/chainio/run/posted.h"
#include "tools/chainio/run/preload.h"
#include "tools/chainio/run/probes.h"
#include "tools/chainio/run/program.h"
#include "tools/chainio/run/report.h"

extern char** environ;

namespace chainio::run {
namespace {

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void say(const std::string& text) { (void)write_whole(2, "chainio run: " + text + "\n"); }

// Everything that was found out and made before the program starts.
struct Prepared {
    Spec spec;
    std::string library, region_path;
    int region_lock = -1;                      // of a region that was made before this program
    std::optional<shadow::RegionFile> region;  // until there is a server
    std::unique_ptr<probe::Session> probes;    // outlives the server, which reads it
    std::unique_ptr<shadow::Server> server;
    std::vector<std::string> notes;
};

std::expected<void, std::string> make_server(Prepared& made, const RunOptions& options, const std::string& program) {
    // Nothing of the region is left where memory runs out on the way.
    shadow::RegionFile region = std::move(*made.region);
    made.region.reset();
    auto server = shadow::Server::create(made.spec.loaded, options.server, std::move(region));
    if (!server) return std::unexpected(std::move(server.error()));
    made.server = std::move(*server);
    made.probes = attach_probes(*made.spec.loaded, program, *made.server);
    return {};
}

std::expected<Prepared, SpecError> prepare(const RunOptions& options, const std::string& program) {
    const auto plain = [](std::string why) {
        return std::unexpected(SpecError{false, tool::kExitSystem, std::move(why)});
    };
    // A spec that is compiled makes files, too.
    if (std::string why = shadow::RegionFile::forbidden(); !why.empty()) return plain(std::move(why));
    if (std::string why = cannot_hear_of_ends(); !why.empty()) return plain(std::move(why));
    Prepared made;
    auto spec = load_spec(options.spec);
    if (!spec) return std::unexpected(std::move(spec.error()));
    made.spec = std::move(*spec);
    if (std::string why = cannot_preload(program); !why.empty()) return plain(std::move(why));
    auto library = find_library(options.library);
    if (!library) return plain(std::move(library.error()));
    made.library = std::move(*library);
    auto region = shadow::RegionFile::create();
    if (!region) return plain(std::move(region.error()));
    made.region_path = region->path();
    made.region.emplace(std::move(*region));
    if (auto server = make_server(made, options, program); !server) return plain(std::move(server.error()));
    return made;
}

// Below a limit that the program may well do with.
std::string in_words(const std::exception& error) {
    if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return error.what();
    return "there is no memory for ChainIO beside it; a limit of address space (ulimit -v) counts here, too";
}

std::expected<Prepared, SpecError> try_to_prepare(const RunOptions& options, const std::string& program) {
    try {
        return prepare(options, program);
    } catch (const std::exception& error) {
        return std::unexpected(SpecError{false, tool::kExitSystem, in_words(error)});
    }
}

void print_summary(const RunOptions& options, const Summary& summary) {
    const std::string text = options.json ? summary_json(summary) : summary_text(summary);
    if (options.summary_file.empty()) {
        if (!options.quiet) (void)write_whole(2, text);
        return;
    }
    // A descriptor is the program's as well: what that has written there stays.
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    const int kept = options.summary_descriptor;
    const Descriptor file(kept >= 0 ? kept : ::open(options.summary_file.c_str(), kFlags, 0666));
    if (!file || !write_whole(file.get(), text))
        say(fmt::format("cannot write the summary to `{}`: {}", options.summary_file, std::strerror(errno)));
}

// The descriptor that the path names, for when this process has let go of its own; -1 when it names none.
int kept_descriptor(const std::string& path) {
    int fd = path == "/dev/stdout" ? 1 : path == "/dev/stderr" ? 2 : -1;
    for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"})
        if (path.starts_with(folder)) fd = std::atoi(path.c_str() + folder.size());
    return fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int cannot_start(const std::string& name, const std::string& program, int error) {
    const auto missing = error == ENOENT ? missing_for(program) : std::nullopt;
    std::string what;
    if (missing)
        what =
            fmt::format("its {} {}: ", missing->interpreter ? "interpreter" : "loader", diag::escaped(missing->path));
    say(fmt::format("{}: {}{}", name, what, std::strerror(error)));
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
    return cannot_start(options.words.front(), program, replace_by(what));
}

// A limit of processes hinders us alone: the program may have this one.
int not_started(const RunOptions& options, const std::string& program, int error) {
    if (error != EAGAIN && error != ENOMEM) return cannot_start(options.words.front(), program, error);
    const std::string why = fmt::format("there can be no process for it: {}", std::strerror(error));
    if (!options.strict) return run_plain(options, program, why);
    say(why);
    return tool::kExitSystem;
}

bool any_use(const Figures& figures) {
    return std::ranges::any_of(figures.classes, [](const ClassFigures& c) { return c.opened + c.reads != 0; }) ||
           std::ranges::any_of(figures.chains, [](const ChainFigures& c) { return c.runs != 0; });
}

// Of files and sockets, as the spec has them.
std::vector<std::string> patterns_of(const ir::Module& module) {
    std::vector<std::string> all;
    for (const auto& file : module.files) all.push_back(fmt::format("{} = \"{}\"", file.name, file.pattern));
    for (const auto& socket : module.sockets)
        all.push_back(fmt::format("{} = {} port {}", socket.name, socket.tcp ? "tcp" : "udp", socket.port));
    return all;
}

// What stands behind a run that nothing came of.
std::vector<std::string> why_unused(const ir::Module& module, const std::string& program) {
    const auto matches = [&](const std::string& pattern) {
        return shim::glob_matches(pattern.c_str(), program.c_str());
    };
    if (!module.match_exe.empty() && std::ranges::none_of(module.match_exe, matches))
        return {fmt::format("the spec is for programs that match {}, and {} does not",
                            fmt::join(module.match_exe, ", "), program)};
    return {
        fmt::format("nothing that the program opened is in a class of the spec ({}); --explain lists what it opened",
                    fmt::join(patterns_of(module), ", "))};
}

std::string not_begun(std::uint64_t programs) {
    return fmt::format(
        "{} ran plain: there was no memory for what the library keeps in a program, as below a limit of address space "
        "(ulimit -v)",
        programs == 1 ? "a program" : fmt::format("{} programs", programs));
}

// Most often a path that was given as a shell would take it: --param pages=data/big.db.
std::vector<std::string> unmatchable(const ir::Module& module) {
    std::set<std::uint32_t> sources;
    for (const ir::Chain& chain : module.chains)
        if (chain.mode == ir::ChainMode::on_read || chain.mode == ir::ChainMode::on_open) sources.insert(chain.source);
    std::vector<std::string> notes;
    for (const std::uint32_t source : sources) {
        const ir::FileClass& files = module.files[source];
        if (const auto instead = ir::anywhere_instead_of(files.pattern))
            notes.push_back(
                fmt::format("the pattern {} = \"{}\" is compared with whole paths, which begin with /, and does not "
                            "begin so; write \"{}\" for any folder, or the path from / on",
                            files.name, files.pattern, *instead));
    }
    return notes;
}

Summary summary_of(const RunOptions& options, const Prepared& made, const std::string& program, const Child& child,
                   double seconds) {
    Summary s;
    s.program = options.words.front();
    s.spec = made.spec.name;
    s.ended = child.how();
    s.seconds = seconds;
    s.explain = options.server.explain;
    if (made.server != nullptr) {
        s.figures = figures_of(made.server->region().stats);
        s.report = made.server->report();
        if (options.rewrite) s.rewriting = rewriting_of(made.server->region().rewriting);
        report_probes(made.spec.loaded->module(), *made.probes, s.explain, s.report);
    } else if (made.region && made.spec.loaded != nullptr) {
        s.figures = figures_of(made.region->get().stats);
    } else {
        return s;
    }
    auto& notes = s.report.notes;
    notes.insert(notes.begin(), made.notes.begin(), made.notes.end());
    notes.insert(notes.begin(), made.spec.notes.begin(), made.spec.notes.end());
    if (s.explain) s.patterns = patterns_of(made.spec.loaded->module());
    if (!made.spec.loaded->native())
        notes.push_back("steps are interpreted: " + made.spec.loaded->interpreter_reason());
    const auto never = unmatchable(made.spec.loaded->module());
    notes.insert(notes.end(), never.begin(), never.end());
    if (s.figures.not_begun != 0) {
        notes.push_back(not_begun(s.figures.not_begun));
    } else if (!any_use(s.figures)) {
        const auto why = why_unused(made.spec.loaded->module(), program);
        notes.insert(notes.end(), why.begin(), why.end());
    }
    return s;
}

// What a program that runs already needs. Without a server it goes on plain.
std::string make_late(Prepared& made, const RunOptions& options, const std::string& program, Child& child) {
    auto region = shadow::RegionFile::adopt(made.region_path, std::exchange(made.region_lock, -1));
    if (!region) return region.error();
    made.region.emplace(std::move(*region));
    auto spec = load_spec(options.spec);
    if (!spec) return spec.error().message;
    made.spec = std::move(*spec);
    if (child.ended() && !anything_posted(made.region->get())) return {};
    const auto server = make_server(made, options, program);
    return server ? std::string() : server.error();
}

// A server that fails leaves a program that goes on plain.
std::string serve(Prepared& made, const RunOptions& options, const std::string& program, Child& child, bool late) {
    std::string failure;
    try {
        if (late) failure = make_late(made, options, program, child);
        if (!failure.empty()) {
            made.region.reset();
        } else if (made.server != nullptr) {
            wake_at_changes(&made.server->sleeping());
            if (const auto served = made.server->run([&child] { return child.ended(); }); !served)
                failure = served.error();
            wake_at_changes(nullptr);
        }
    } catch (const std::exception& error) {
        failure = in_words(error);
    }
    child.wait();
    return failure;
}

// To the end of a program that runs.
[[noreturn]] void accompany(Prepared& made, const RunOptions& options, const std::string& program, Child& child,
                            std::uint64_t since_ns, bool late) {
    const std::string failure = serve(made, options, program, child, late);
    const double seconds = static_cast<double>(now_ns() - since_ns) / 1e9;
    Summary summary = summary_of(options, made, program, child, seconds);
    if (!failure.empty())
        summary.report.notes.insert(summary.report.notes.begin(), "the server ended early: " + failure);
    print_summary(options, summary);
    // Removes the region, which end_like() would leave.
    made.server.reset();
    made.region.reset();
    end_like(child.how());
}

}  // namespace

int run(const RunOptions& given) {
    guard_standard_descriptors();
    RunOptions options = given;
    options.summary_descriptor = kept_descriptor(given.summary_file);
    const std::string& name = options.words.front();
    const auto program = find_program(name);
    if (const auto started = take_started()) {
        Prepared made;
        give_up_privileges(made.notes);
        Child child = Child::adopt(started->program, started->signals, options.follow);
        made.region_path = started->region;
        made.region_lock = started->lock;
        made.spec.name = options.spec.name;
        accompany(made, options, program.value_or(name), child, started->since_ns, true);
    }
    if (!program) {
        say(fmt::format("{}: {}", name, program.error().why));
        return program.error().exit_code;
    }
    auto made = try_to_prepare(options, *program);
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
    const std::uint64_t start = now_ns();
    // Probes are attached. What this process gives up the program still has, and is not to get as something new, which
    // would leave it without a core file.
    auto child =
        Child::start({*program, options.words, environment_for(made->library, made->region_path, options.rewrite)},
                     options.follow, [&made] { give_up_privileges(made->notes); });
    if (!child) {
        made = std::unexpected(SpecError{});  // removes the region
        return not_started(options, *program, child.error());
    }
    let_go_of_descriptors();
    accompany(*made, options, *program, *child, start, false);
}

}  // namespace chainio::run
