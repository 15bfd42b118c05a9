#include "tools/chainio/start/launch.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <span>

#include "runtime/probe/privileges.h"
#include "runtime/shadow/launch_region.h"
#include "runtime/shadow/region.h"
#include "tools/chainc/stdlib.h"
#include "tools/chainio/run/cache.h"
#include "tools/chainio/run/child.h"
#include "tools/chainio/run/descriptor_name.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/handover.h"
#include "tools/chainio/run/held.h"
#include "tools/chainio/run/passing.h"
#include "tools/chainio/run/posted.h"
#include "tools/chainio/run/preload.h"
#include "tools/chainio/run/program.h"
#include "tools/chainio/run/signals.h"
#include "tools/chainio/start/arguments.h"
#include "tools/chainio/start/asking.h"
#include "tools/chainio/start/expects.h"

namespace chainio::start {
namespace {

constexpr const char* kRun = "chainio-run";

// Returns only when it cannot.
void become(const char* name, char** argv) {
    const std::string program = chainc::executable_folder() + "/" + name;
    run::hold_loader_variables();
    ::execv(program.c_str(), argv);
    const int error = errno;
    run::release_loader_variables();
    const std::string text = "chainio: cannot execute " + program +
                             ", which this program becomes: " + std::strerror(error) +
                             "; install all of ChainIO's programs into one folder\n";
    (void)run::write_unharmed(2, text);
}

// What the cache has for programs of this spec.
std::optional<std::string> launch_for(const Arguments& arguments) {
    const std::string stdlib = chainc::find_stdlib({});
    const auto places = run::places_of(arguments.spec, stdlib);
    const auto found = std::ranges::find_if(places, run::is_file);
    if (found == places.end() || run::descriptor_named(*found)) return std::nullopt;
    const std::string shadow = run::shadow_file_beside(*found, stdlib);
    const run::CompileRequest wanted{run::find_compiler(), shadow.empty() ? *found : shadow,
                                     arguments.spec.include_dirs, arguments.spec.params, stdlib};
    return run::Cache::of_user().find_launch(run::key_of(wanted));
}

struct Begun {
    shadow::RegionFile region;
    run::Child child;
    std::uint64_t since_ns;
    std::string program;
};

std::uint64_t monotonic_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// Nothing, and nothing done, where the whole program has to look closer or has something to say.
std::optional<Begun> begin(const Arguments& arguments) {
    const auto launch = launch_for(arguments);
    if (!launch || launch->empty()) return std::nullopt;
    const auto program = run::find_program(arguments.words.front());
    if (!program || !run::cannot_preload(*program).empty() || !run::cannot_be_parent().empty()) return std::nullopt;
    const auto library = run::find_library(arguments.library);
    if (!library) return std::nullopt;
    auto region = shadow::RegionFile::create();
    std::string_view steps;
    if (!region || !shadow::launch_region(*launch, arguments.explain, region->get(), steps)) return std::nullopt;
    shadow::put_beside(steps, *region);
    const std::uint64_t since = monotonic_ns();
    run::guard_standard_descriptors();
    auto child = run::Child::start({*program, arguments.words, run::environment_for(*library, region->path(), false)},
                                   arguments.follow);
    if (!child) return std::nullopt;
    // After the program has got what was inherited. A kernel that does not let go of it is no reason against the
    // program.
    (void)probe::drop_privileges();
    run::let_go_of_descriptors();
    return Begun{std::move(*region), *child, since, *program};
}

// Until the program has opened something that matches, or is expected to, or a child has ended. No thread, no ring, no
// clock.
void wait_for_use(shim::Region& region, const run::Child& child, const std::optional<Asking>& asking) {
    run::wake_at_changes(&region.asleep);
    while (true) {
        region.asleep.store(1);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (child.any_over() || run::anything_posted(region) || (asking && asking->is_yes())) break;
        ::syscall(SYS_futex, &region.asleep, FUTEX_WAIT, 1, nullptr, nullptr, 0);
    }
    run::wake_at_changes(nullptr);
    region.asleep.store(0);
}

// The program goes on as a child of what this process becomes; where that cannot be, it goes on plain.
void hand_over(const Begun& begun, char** argv) {
    const run::SignalSet signals = run::block_signals(run::kAllSignals);
    const std::string variable =
        run::variable_of({begun.child.pid(), begun.since_ns, signals, begun.region.hand_on_lock(),
                          begun.child.earlier(), begun.region.path()});
    const std::size_t name = variable.find('=');
    // What is not told of the program would start it once more.
    if (::setenv(variable.substr(0, name).c_str(), variable.c_str() + name + 1, 1) == 0) {
        run::ignore_as_before();
        become(kRun, argv);
    } else {
        (void)run::write_unharmed(2,
                                  "chainio: there is no memory for what chainio-run has to be told; the program goes "
                                  "on plain\n");
    }
    run::block_signals(signals);
}

bool is_run(int argc, char** argv) { return argc > 1 && std::strcmp(argv[1], "run") == 0; }

}  // namespace

void launch(int argc, char** argv) {
    const auto arguments = understand({argv, static_cast<std::size_t>(argc)});
    auto begun = arguments ? begin(*arguments) : std::nullopt;
    if (!begun) return become(is_run(argc, argv) ? kRun : "chainio-main", argv);
    // The server of a program that will need one comes up while the program does.
    shim::Region& region = begun->region.get();
    const auto words = std::span(arguments->words).subspan(1);
    const Guess expected = expects_at_once(region.plan, begun->program, words);
    if (expected == Guess::a_match) hand_over(*begun, argv);
    std::optional<Asking> asking;
    const auto ask = [&] { return expects_matches(region.plan, begun->program, words); };
    if (expected == Guess::unknown) asking.emplace(ask, region.asleep);
    wait_for_use(region, begun->child, asking);
    const bool is_over = begun->child.any_over();
    asking.reset();
    // With --follow there may be others than the program to wait for.
    if (!arguments->silent || arguments->follow || !is_over) hand_over(*begun, argv);
    begun->region.get().server = 0;
    begun->child.wait();
    const run::Ended how = begun->child.how();
    begun.reset();  // removes the region's file, which end_like() would leave
    run::end_like(how);
}

}  // namespace chainio::start
