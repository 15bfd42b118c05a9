#include "tools/chainio/run/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/diag/utf8.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/run/beside.h"
#include "tools/chainio/run/child.h"
#include "tools/chainio/run/compile.h"
#include "tools/chainio/run/descriptor_name.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/handover.h"
#include "tools/chainio/run/posted.h"
#include "tools/chainio/run/preload.h"
#include "tools/chainio/run/probes.h"
#include "tools/chainio/run/program.h"
#include "tools/chainio/run/report.h"
#include "tools/chainio/run/stuck.h"
#include "tools/chainio/run/unused.h"

extern char** environ;

namespace chainio::run {
namespace {

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void say(const std::string& text) { (void)write_unharmed(2, "chainio run: " + text + "\n"); }

// After the program's end, until the server has looked at what there is left and has said what there is to say: a
// second of it is for reads that are under way.
constexpr int kServersLast = 5000;   // milliseconds
constexpr int kUntilReady = 10'000;  // the same of one that has yet to load its spec
const std::string kEndedEarly = "the server ended early: ";

// Everything that was found out and made before the program starts.
struct Prepared {
    Spec spec;
    std::string library, region_path;
    std::optional<shadow::RegionFile> region;  // until there is a server
    std::unique_ptr<probe::Session> probes;    // outlives the server, which reads it
    std::unique_ptr<shadow::Server> server;    // in its own process
    std::vector<std::string> notes;
};

std::expected<void, std::string> make_server(Prepared& made, const RunOptions& options) {
    auto server = shadow::Server::create(made.spec.loaded, options.server, std::move(*made.region));
    if (!server) return std::unexpected(std::move(server.error()));
    made.server = std::move(*server);
    tell_of_probes(*made.probes, *made.server);
    return {};
}

std::expected<Prepared, SpecError> prepare(const RunOptions& options, const std::string& program) {
    const auto plain = [](std::string_view why) {
        return std::unexpected(SpecError{false, tool::kExitSystem, diag::escaped(why)});
    };
    // A spec that is compiled makes files, too.
    if (std::string why = shadow::RegionFile::forbidden(); !why.empty()) return plain(why);
    if (std::string why = cannot_be_parent(); !why.empty()) return plain(why);
    Prepared made;
    auto spec = load_spec(options.spec);
    if (!spec) return std::unexpected(std::move(spec.error()));
    made.spec = std::move(*spec);
    if (std::string why = cannot_preload(program); !why.empty()) return plain(why);
    auto library = find_library(options.library);
    if (!library) return plain(library.error());
    made.library = std::move(*library);
    auto region = shadow::RegionFile::create();
    if (!region) return plain(region.error());
    made.region_path = region->path();
    made.region.emplace(std::move(*region));
    // By the process that the program descends from: its own and theirs are those that the probes hear.
    made.probes = attach_probes(*made.spec.loaded, program);
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

std::string words_of(const RunOptions& options, const Summary& summary) {
    return options.json ? summary_json(summary) : summary_text(summary);
}

// What a file holds stays where there is no room for what is to stand there instead. A new file of that name would not
// be the one that others have open, or that links lead to.
bool replace_content(int fd, std::string_view text) {
    struct stat before{};
    if (::fstat(fd, &before) != 0 || !S_ISREG(before.st_mode)) return write_unharmed(fd, text);
    const auto write_at = [fd](off_t place, std::string_view part) {
        return part.empty() || (::lseek(fd, place, SEEK_SET) >= 0 && write_unharmed(fd, part));
    };
    const auto cut = [fd](std::size_t size) { return ::ftruncate(fd, static_cast<off_t>(size)) == 0; };
    // What takes room comes first.
    const auto old_size = static_cast<std::size_t>(before.st_size), both = std::min(old_size, text.size());
    const bool has_room = write_at(before.st_size, text.substr(both));
    if (has_room && write_at(0, text.substr(0, both)) && (old_size <= both || cut(both))) return true;
    const int error = errno;
    (void)cut(has_room ? 0 : old_size);
    errno = error;
    return false;
}

void print_summary(const RunOptions& options, const std::string& text) {
    if (options.summary_file.empty()) {
        if (!options.quiet) (void)write_unharmed(2, text);
        return;
    }
    // A descriptor is the program's as well: what that has written there stays.
    constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC;
    const auto& kept = options.summary_descriptor;
    const char* name = options.summary_file.c_str();
    const int fresh = kept ? -1 : ::open(name, kFlags | O_EXCL, 0666);
    const Descriptor file(kept ? kept->value_or(-1) : fresh >= 0 ? fresh : ::open(name, kFlags, 0666));
    if (kept && !*kept) errno = kept->error();
    if (file && (kept ? write_unharmed(file.get(), text) : replace_content(file.get(), text))) return;
    // Nobody is to take what was cut off, or nothing at all, for a summary.
    const int error = errno;
    if (fresh >= 0) ::unlink(name);
    errno = error;
    // What a long run has shown is not to be had again.
    say(fmt::format("cannot write the summary to `{}`: {}{}", diag::escaped(options.summary_file), std::strerror(errno),
                    options.quiet ? "" : "; it follows here"));
    if (!options.quiet) (void)write_unharmed(2, text);
}

int cannot_start(const std::string& name, const std::string& program, int error) {
    const auto missing = error == ENOENT ? missing_for(program) : std::nullopt;
    std::string what;
    if (missing)
        what =
            fmt::format("its {} {}: ", missing->interpreter ? "interpreter" : "loader", diag::escaped(missing->path));
    say(fmt::format("{}: {}{}", diag::escaped(name), what, std::strerror(error)));
    return error == ENOENT ? 127 : 126;
}

// The compiler's first error, and the hint for it, both as they are coloured or not. A line that ends with a colon
// leads to what another program said, as clang.
std::string in_one_line(const std::string& why) {
    constexpr std::string_view kHint = "hint:";
    std::size_t end = why.find('\n');
    std::string line = why.substr(0, end);
    if (end != std::string::npos && line.ends_with(':')) {
        const std::size_t begin = std::exchange(end, why.find('\n', end + 1)) + 1;
        line += " " + why.substr(begin, end - begin);
    }
    const std::size_t hint = why.find(kHint, end), next = why.find("error[", end);
    if (end == std::string::npos || hint == std::string::npos || hint > next) return line;
    const std::size_t begin = why.find(' ', hint);
    return begin == std::string::npos ? line : line + "; " + why.substr(begin + 1, why.find('\n', begin) - begin - 1);
}

// The program goes first: what hinders us does not hinder it.
int run_plain(const RunOptions& options, const std::string& program, const std::string& why) {
    const std::string reason = in_one_line(why);
    Summary summary;
    summary.program = options.words.front();
    summary.spec = options.spec.name;
    summary.plain = reason;
    summary.running_on = true;
    if (!options.json || !options.summary_file.empty())
        say(fmt::format("{} runs plain: {}", diag::escaped(options.words.front()), reason));
    if (options.json || !options.summary_file.empty()) print_summary(options, words_of(options, summary));
    Start what{program, options.words, {}};
    for (char** each = environ; *each != nullptr; each++) what.environment.emplace_back(*each);
    return cannot_start(options.words.front(), program, replace_by(what));
}

std::string no_process(std::string_view whose, int error) {
    return fmt::format("there can be no process for {}: {}{}", whose, std::strerror(error), remedy_of_start(error));
}

std::string not_plain(const RunOptions& options, std::string_view why) {
    return fmt::format("{} was not started, since it would run plain (--strict): {}",
                       diag::escaped(options.words.front()), why);
}

// A limit of processes hinders us alone: the program may have this one. So does what we add to its environment.
int not_started(const RunOptions& options, const std::string& program, int error) {
    if (error != EAGAIN && error != ENOMEM && error != E2BIG)
        return cannot_start(options.words.front(), program, error);
    const std::string why = error == E2BIG ? "its arguments and its environment leave no room for the variables that "
                                             "ChainIO adds; a larger stack (`ulimit -s`) makes some"
                                           : no_process("it", error);
    if (!options.strict) return run_plain(options, program, why);
    say(not_plain(options, why));
    return tool::kExitSystem;
}

std::string not_begun(std::uint64_t programs) {
    return fmt::format(
        "{} ran plain: there was no memory for what the library keeps in a program, as below a limit of address space "
        "(ulimit -v), or no descriptor for the moment in which it looks for that, as below a limit of open files "
        "(ulimit -n)",
        programs == 1 ? "a program" : fmt::format("{} programs", programs));
}

// How it ended, and after how long.
struct End {
    Ended how;
    double seconds = 0;
};

// What can be said without a server.
Summary summary_without(const RunOptions& options, const Prepared& made, const End& end) {
    Summary s;
    s.program = options.words.front();
    s.spec = made.spec.name;
    s.ended = end.how;
    s.seconds = end.seconds;
    s.explain = options.server.explain;
    return s;
}

Summary summary_of(const RunOptions& options, const Prepared& made, const std::string& program, const End& end) {
    Summary s = summary_without(options, made, end);
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
        notes.push_back(why_unused(made.spec.loaded->module(), program));
    } else {
        const auto unmatched = unmatched_sources(made.spec.loaded->module(), s.figures, s.explain);
        notes.insert(notes.end(), unmatched.begin(), unmatched.end());
    }
    return s;
}

// What a program that runs already needs. Without a server it goes on plain.
std::string make_late(Prepared& made, const RunOptions& options, const std::string& program, bool is_over) {
    auto spec = load_spec(options.spec);
    if (!spec) return spec.error().message;
    made.spec = std::move(*spec);
    if (is_over && !anything_posted(made.region->get())) return {};
    made.probes = attach_probes(*made.spec.loaded, program);
    const auto server = make_server(made, options);
    return server ? std::string() : server.error();
}

// The folder that this was started in may be unmounted once the program has left it. What is opened from then on has
// names from / on.
void leave_folder() { (void)!::chdir("/"); }

// But for a summary that is to lie there.
void leave_folder(const RunOptions& options) {
    const std::string& file = options.summary_file;
    if (file.empty() || file.starts_with('/') || options.summary_descriptor) leave_folder();
}

// In the server's process. A server that fails leaves a program that goes on plain.
void serve(Prepared& made, const RunOptions& options, const std::string& program, bool late, const Beside::Link& link) {
    try {
        std::string failure;
        if (late) {
            failure = make_late(made, options, program, link.program_is_over());
        } else {
            let_go_of_descriptors();
            if (auto server = make_server(made, options); !server) failure = server.error();
            give_up_privileges(made.notes);
        }
        if (!failure.empty()) return link.say(Said::failed, failure);
        leave_folder();
        link.say(Said::ready);
        if (made.server != nullptr) {
            const auto served = made.server->run([&link] { return link.program_is_over(); });
            if (!served) return link.say(Said::failed, served.error());
        }
        link.say(Said::summary, words_of(options, summary_of(options, made, program, {link.how(), link.seconds()})));
    } catch (const std::exception& error) {
        link.say(Said::failed, in_words(error));
    }
}

std::expected<Beside, std::string> start_server(Prepared& made, const RunOptions& options, const std::string& program,
                                                bool late) {
    auto server = Beside::start([&](const Beside::Link& link) { serve(made, options, program, late, link); });
    if (!server) return std::unexpected(no_process("the server", server.error()));
    if (late) return std::move(*server);
    // The program starts beside a server that is there, or plain.
    auto said = server->hear(-1);
    if (!said) return std::unexpected("the server cannot begin: " + server->ending());
    if (said->what == Said::ready) return std::move(*server);
    return std::unexpected(std::move(said->text));
}

struct Farewell {
    End end;
    std::string summary{};  // empty: the server failed, or nobody has asked
    std::string note{};     // why it failed
};

End end_of(const Child& child, std::uint64_t since_ns) {
    return {child.how(), static_cast<double>(now_ns() - since_ns) / 1e9};
}

std::string why_unheard(const Beside& server, Silence silence, int limit) {
    if (silence == Silence::late) return given_up(server.pid(), limit);
    return kEndedEarly + server.ending();
}

// To the end of a program that runs, and of what its server does after that, which is to say what there was.
Farewell wait_for_both(shim::Region& region, Child& child, Beside& server, std::uint64_t since_ns, bool late,
                       bool silent) {
    std::optional<End> over;
    auto said = std::expected<Saying, Silence>(Saying{late ? Said::nothing : Said::ready, {}});
    int limit = 0;
    while (said && (said->what == Said::nothing || said->what == Said::ready)) {
        limit = said->what == Said::ready ? kServersLast : kUntilReady;
        if (!over && child.wait_or_read(server.descriptor())) {
            over = end_of(child, since_ns);
            if (silent) break;
            server.program_is_over(over->how, over->seconds, region.asleep);
        }
        said = server.hear(over ? limit : -1);
    }
    region.server = 0;  // programs go on plain
    if (!over) {
        child.wait();
        over = end_of(child, since_ns);
    }
    if (silent) return {*over};
    if (!said) return {*over, {}, why_unheard(server, said.error(), limit)};
    if (said->what == Said::failed) return {*over, {}, kEndedEarly + said->text};
    return {*over, std::move(said->text), {}};
}

std::string summary_of_failure(const RunOptions& options, const Prepared& made, const End& end, std::string note) {
    Summary summary = summary_without(options, made, end);
    // A server that has heard of no process has counted nothing of what the program did.
    if (made.region && made.region->get().stats.processes != 0) summary.figures = figures_of(made.region->get().stats);
    if (options.rewrite && made.region) summary.rewriting = rewriting_of(made.region->get().rewriting);
    summary.report.notes.push_back(std::move(note));
    if (std::exchange(summary.explain, false))
        summary.report.notes.push_back("what the program opened is not known (--explain): that is told to the server");
    return words_of(options, summary);
}

// The rest of a run that has a server; what is to be said in the end, if anything.
std::string accompany(Prepared& made, const RunOptions& options, Child& child, Beside& server, std::uint64_t since_ns,
                      bool late) {
    shadow::remove_left_overs_in_last_base();  // while program and server begin
    Farewell farewell = wait_for_both(made.region->get(), child, server, since_ns, late, options.silent());
    if (!farewell.summary.empty() || options.silent()) return std::move(farewell.summary);
    return summary_of_failure(options, made, farewell.end, std::move(farewell.note));
}

// The same of a program that has ended, and has said nothing to a server that there would have been.
std::string summary_of_unused(Prepared& made, const RunOptions& options, const std::string& program, const End& end) {
    auto spec = load_spec(options.spec);
    if (!spec) return summary_of_failure(options, made, end, kEndedEarly + spec.error().message);
    made.spec = std::move(*spec);
    return words_of(options, summary_of(options, made, program, end));
}

// Prints it, and ends as the program has. A server that has said all ends meanwhile.
[[noreturn]] void end_run(Prepared& made, const RunOptions& options, std::optional<Beside> server, const Child& child,
                          const std::string& summary) {
    print_summary(options, summary);
    server.reset();
    made.region.reset();  // its folder is removed, which end_like() would leave
    end_like(child.how());
}

// A program that runs already.
[[noreturn]] void accompany_started(const RunOptions& options, const Started& started, const std::string& program) {
    Prepared made;
    made.spec.name = options.spec.name;
    give_up_privileges(made.notes);
    Child child = Child::adopt(started.program, started.signals, options.follow, started.earlier);
    while (::waitpid(-1, nullptr, __WCLONE | WNOHANG) > 0) {}  // who looked at arguments for the launcher
    std::optional<Beside> server;
    std::string summary, failure;
    try {
        auto region = shadow::RegionFile::adopt(started.region, started.lock);
        if (region) {
            made.region.emplace(std::move(*region));
            if (child.ended() && !anything_posted(made.region->get())) {
                summary = summary_of_unused(made, options, program, end_of(child, started.since_ns));
            } else if (auto begun = start_server(made, options, program, true)) {
                leave_folder(options);
                server.emplace(std::move(*begun));
                summary = accompany(made, options, child, *server, started.since_ns, true);
            } else {
                failure = begun.error();
            }
        } else {
            failure = region.error();
        }
    } catch (const std::exception& error) {
        failure = in_words(error);
    }
    if (!failure.empty()) {
        if (made.region) made.region->get().server = 0;  // it goes on plain
        child.wait();
        summary = summary_of_failure(options, made, end_of(child, started.since_ns), kEndedEarly + failure);
    }
    end_run(made, options, std::move(server), child, summary);
}

}  // namespace

int run(const RunOptions& given) {
    guard_standard_descriptors();
    RunOptions options = given;
    options.summary_descriptor = kept_descriptor(given.summary_file);
    const std::string& name = options.words.front();
    const auto program = find_program(name);
    if (const auto started = take_started()) accompany_started(options, *started, program.value_or(name));
    if (!program) {
        say(fmt::format("{}: {}", diag::escaped(name), program.error().why));
        return program.error().exit_code;
    }
    auto made = try_to_prepare(options, *program);
    // The server is not heard: a probe of what it does itself would keep it busy without end.
    if (made) made->probes->count_this_process(false);
    auto server = made ? start_server(*made, options, *program, false) : std::unexpected(std::string());
    if (made && !server) made = std::unexpected(SpecError{false, tool::kExitSystem, server.error()});
    if (!made) {
        const SpecError& error = made.error();
        if (!error.refuses && !options.strict) return run_plain(options, *program, error.message);
        // chainc's own words have their form already.
        const bool is_diagnostic = error.message.find('\n') != std::string::npos;
        if (is_diagnostic) (void)write_unharmed(2, error.message + "\n");
        say(is_diagnostic   ? fmt::format("`{}` does not compile; {} was not started", diag::escaped(options.spec.name),
                                          diag::escaped(name))
            : error.refuses ? error.message
                            : not_plain(options, error.message));
        return error.exit_code;
    }
    const std::uint64_t start = now_ns();
    made->probes->count_this_process(true);
    // Probes are attached. What this process gives up the program still has, and is not to get as something new, which
    // would leave it without a core file.
    auto child =
        Child::start({*program, options.words, environment_for(made->library, made->region_path, options.rewrite)},
                     options.follow, [&made] { give_up_privileges(made->notes); });
    made->probes->count_this_process(false);
    if (!child) {
        server = std::unexpected(std::string());
        made = std::unexpected(SpecError{});  // removes the region
        return not_started(options, *program, child.error());
    }
    let_go_of_descriptors();
    leave_folder(options);
    const std::string summary = accompany(*made, options, *child, *server, start, false);
    end_run(*made, options, std::move(*server), *child, summary);
}

}  // namespace chainio::run
