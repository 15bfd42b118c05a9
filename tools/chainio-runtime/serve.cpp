#include "tools/chainio-runtime/serve.h"

#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "tools/chainio-runtime/notify.h"
#include "tools/chainio-runtime/say.h"
#include "tools/chainio-runtime/service.h"

namespace chainio::runtime_tool {

int fail(int code, const std::string& message) {
    say(fmt::format("chainio-runtime: {}\n", message));
    return code;
}

namespace {

// Raises the limit of open files as far as it goes; what does not do is said here, and not by clients who wait.
std::expected<void, std::string> make_room(const Options& options, const Edition& edition) {
    constexpr rlim_t kOthers = 128 + Service::kMostClients, kOfInterface = 128;
    const unsigned connections = edition.serves() ? options.server.connections : 0;
    const rlim_t wanted =
        kOthers + connections + 2 * options.files.size() + kOfInterface * options.server.interfaces.size();
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return {};
    const rlimit raised{wanted, std::max(limit.rlim_max, wanted)};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return {};
    return std::unexpected(
        fmt::format("{} connections want {} open files, and this process may have {}: raise its limit (`ulimit -n {}`, "
                    "LimitNOFILE= of a systemd unit), or give fewer --connections",
                    connections, wanted, limit.rlim_cur, wanted));
}

}  // namespace

int serve(const Options& options, metrics::Fallbacks fallbacks, std::unique_ptr<ring::Shared> ring,
          std::unique_ptr<Edition> edition) {
    if (auto room = make_room(options, *edition); !room) return fail(kExitSystem, room.error());
    std::signal(SIGPIPE, SIG_IGN);  // whoever reads what is said may go
    if (auto opened = open_edition(options, *edition); !opened)
        return fail(opened.error().code, opened.error().message);
    const bool serves = edition->serves();
    Service service(options, std::move(fallbacks), std::move(ring), std::move(edition));
    if (auto watched = service.watch_signals(); !watched) return fail(kExitSystem, watched.error());
    if (auto begun = service.begin(); !begun) return fail(kExitSystem, begun.error());
    if (!options.socket.empty()) {
        if (auto listening = service.listen(options.socket); !listening) return fail(kExitSystem, listening.error());
    }
    if (!serves && !options.server.interfaces.empty())
        say("chainio-runtime: --interface is for services, and the spec has none that is served\n");
    say(service.report());
    if (!options.socket.empty()) say(fmt::format("serving at {}\n", options.socket));
    notify_manager("READY=1\nSTATUS=edition 1 of '" + options.spec + "' runs");
    if (auto served = service.run(); !served) return fail(kExitSystem, served.error());
    say(fmt::format("stopped after {} answers\n", service.answered()));
    return kExitOk;
}

}  // namespace chainio::runtime_tool
