#include "tools/chainio-runtime/serve.h"

#include <fmt/format.h>

#include <csignal>

#include "compiler/diag/utf8.h"
#include "tools/chainio-runtime/notify.h"
#include "tools/chainio-runtime/say.h"
#include "tools/chainio-runtime/service.h"

namespace chainio::runtime_tool {

int fail(int code, const std::string& message) {
    say(fmt::format("chainio-runtime: {}\n", diag::escaped(message)));
    return code;
}

int serve(const Options& options, metrics::Fallbacks fallbacks, std::unique_ptr<ring::Shared> ring,
          std::unique_ptr<Edition> edition) {
    if (auto room = make_room(options, *edition); !room) return fail(kExitSystem, room.error());
    std::signal(SIGPIPE, SIG_IGN);  // whoever reads what is said may go
    std::signal(SIGXFSZ, SIG_IGN);  // and the file that it goes to may be as long as files may be
    if (auto opened = open_edition(options, *edition); !opened)
        return fail(opened.error().code, opened.error().message);
    const bool serves = edition->serves();
    Manager manager;
    Service service(options, manager, std::move(fallbacks), std::move(ring), std::move(edition));
    if (auto watched = service.watch_signals(); !watched) return fail(kExitSystem, watched.error());
    if (auto begun = service.begin(); !begun) return fail(kExitSystem, begun.error());
    if (!options.socket.empty()) {
        if (auto listening = service.listen(options.socket); !listening) return fail(kExitSystem, listening.error());
    }
    if (!serves && !options.server.interfaces.empty())
        say("chainio-runtime: --interface is for services, and the spec has none that is served\n");
    if (!serves && !options.rings.empty())
        say("chainio-runtime: --rings is for services, and the spec has none that is served\n");
    say(service.report());
    if (!options.socket.empty()) say(fmt::format("serving at {}\n", diag::escaped(options.socket)));
    wait_for_no_reader();
    manager.tell("READY=1\nSTATUS=edition 1 of '" + diag::escaped(options.spec) + "' runs");
    if (auto served = service.run(); !served) return fail(kExitSystem, served.error());
    service.leave_if_held();
    const std::uint64_t answered = service.answered();
    service.end();
    say(fmt::format("stopped after {} answers\n", answered));
    return kExitOk;
}

}  // namespace chainio::runtime_tool
