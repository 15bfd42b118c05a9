// `chainio top [PID]`: what a running `chainio run` does, chain by chain and class by class.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

#include "compiler/diag/utf8.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/run/attach.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/report.h"
#include "tools/chainio/run/screen.h"
#include "tools/chainio/whole.h"

namespace chainio::tool {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> g_quit{false}, g_resized{false};
void on_quit(int) { g_quit.store(true); }
void on_resize(int) { g_resized.store(true); }

struct TopGiven {
    int pid = 0;
    bool once = false, json = false;
    double interval = 1;
};

std::string page(int server, const run::Figures& now) {
    return fmt::format("chainio run {}: {} process{}, {} events lost, server busy for {}\n", server, now.processes,
                       now.processes == 1 ? "" : "es", now.lost_events,
                       run::human_time(static_cast<double>(now.server_ns))) +
           run::figures_table(now);
}

// Whoever wants no more (SIGPIPE ignored) knows why; of anything else it is said.
bool print(const std::string& text) {
    if (run::write_whole(1, text)) return true;
    if (errno != EPIPE) say_not_printed("chainio top", std::strerror(errno));
    return false;
}

// In the place of the page before, as much of it as there is room for.
bool show(const std::string& text) { return print("\x1b[H\x1b[2J" + run::fitted(text, run::size_of_terminal(1))); }

constexpr std::chrono::seconds kLook{1};  // how often it is looked whether the run still is there

// Signals that come between a look at what they have set and the sleep behind it wait for that sleep, which they end.
class Held {
  public:
    Held() {
        sigset_t ours;
        sigemptyset(&ours);
        for (const int signal : {SIGINT, SIGTERM, SIGWINCH}) sigaddset(&ours, signal);
        ::sigprocmask(SIG_BLOCK, &ours, &before_);
    }
    ~Held() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    void sleep(Clock::duration time) const {
        const auto whole = std::chrono::floor<std::chrono::seconds>(time);
        const timespec left{.tv_sec = whole.count(), .tv_nsec = std::chrono::nanoseconds(time - whole).count()};
        ::ppoll(nullptr, 0, &left, &before_);
    }

  private:
    sigset_t before_{};
};

// Until it is time for the next page, or the run has ended. A terminal whose size changes meanwhile, or while the page
// was on its way to it, has the same page in that size.
bool wait_until(Clock::time_point due, const run::Attached& run, const std::string& shown) {
    const Held held;
    while (!g_quit.load() && run.alive()) {
        if (g_resized.exchange(false) && !show(shown)) return false;
        const auto left = due - Clock::now();
        if (left <= Clock::duration::zero()) break;
        held.sleep(std::min<Clock::duration>(left, kLook));
    }
    return true;
}

// On a terminal each page, of which the first comes at once, replaces the one before; elsewhere they follow one
// another.
int watch(const run::Attached& run, const TopGiven& options) {
    std::signal(SIGINT, on_quit);
    std::signal(SIGTERM, on_quit);
    const bool terminal = ::isatty(1) == 1 && !options.json;
    if (terminal) std::signal(SIGWINCH, on_resize);
    run::Figures before = run::figures_of(run.region().stats);
    std::string text = page(run.server(), before);
    if (terminal && !show(text)) return kExitSystem;
    auto then = Clock::now();
    const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.interval));
    while (!g_quit.load() && run.alive()) {
        if (!wait_until(then + interval, run, text)) return kExitSystem;
        const run::Figures now = run::figures_of(run.region().stats);
        const double seconds = std::chrono::duration<double>(Clock::now() - then).count();
        text = options.json ? run::figures_json(now) + "\n"
                            : page(run.server(), now) + run::rates_text(now, before, seconds);
        if (!(terminal ? show(text) : print(text))) return kExitSystem;
        before = now;
        then = Clock::now();
    }
    if (terminal) print("\n");
    if (!options.json && !run.alive()) print("the run has ended\n");
    return kExitOk;
}

std::expected<int, std::string> only_run() {
    auto runs = run::running_runs();
    // One that is not served any more is named only where there is no other: attach() says what there is to say.
    if (std::ranges::any_of(runs, &run::RunningRun::serves))
        std::erase_if(runs, [](const run::RunningRun& each) { return !each.serves; });
    if (runs.size() == 1) return runs.front().server;
    if (runs.empty()) return std::unexpected("no `chainio run` is running that this user may look at");
    std::string list = "several runs: name one by its process id";
    for (const auto& each : runs) list += fmt::format("\n  {}  {}", each.server, diag::escaped(each.command_line));
    return std::unexpected(std::move(list));
}

int top(const TopGiven& options) {
    const auto fail = [](const std::string& why) {
        say("chainio top: {}\n", why);
        return kExitFailed;
    };
    int pid = options.pid;
    if (pid == 0) {
        const auto found = only_run();
        if (!found) return fail(found.error());
        pid = *found;
    }
    const auto attached = run::attach(pid);
    if (!attached) return fail(attached.error());
    if (!options.once) return watch(**attached, options);
    const run::Figures now = run::figures_of((*attached)->region().stats);
    return print(options.json ? run::figures_json(now) + "\n" : page((*attached)->server(), now)) ? kExitOk
                                                                                                  : kExitSystem;
}

}  // namespace

void add_top(CLI::App& root, int& exit_code) {
    auto parsed = std::make_shared<TopGiven>();
    auto* command = root.add_subcommand("top", "Watch a running `chainio run`");
    command
        ->add_option("pid", parsed->pid,
                     "of the `chainio run`, or of a process that it has started; needed when there are several")
        ->transform(Whole(1, 1 << 22));  // the most that pid_max can be
    command->add_flag("--once", parsed->once, "print the figures once and end");
    command->add_flag("--json", parsed->json, "one JSON object a line");
    command->add_option("--interval", parsed->interval, "seconds between pages (default 1)")
        ->check(CLI::Range(0.1, 3600.0))
        ->check([](const std::string& text) {  // which no bound keeps out
            return text.find_first_of("nN") == std::string::npos ? "" : text + " is no number of seconds";
        });
    command->callback([parsed, &exit_code] { exit_code = top(*parsed); });
}

}  // namespace chainio::tool
