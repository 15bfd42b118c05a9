#include "tools/chainio-runtime/serve.h"

#include <fmt/format.h>

#include "tools/chainio-runtime/notify.h"
#include "tools/chainio-runtime/service.h"

namespace chainio::runtime_tool {

int fail(int code, const std::string& message) {
    fmt::print(stderr, "chainio-runtime: {}\n", message);
    return code;
}

int serve(const Options& options, metrics::Fallbacks fallbacks, std::unique_ptr<ring::Shared> ring,
          std::unique_ptr<Edition> edition) {
    if (auto opened = open_edition(options, *edition); !opened)
        return fail(opened.error().code, opened.error().message);
    Service service(options, std::move(fallbacks), std::move(ring), std::move(edition));
    if (auto watched = service.watch_signals(); !watched) return fail(kExitSystem, watched.error());
    if (auto begun = service.begin(); !begun) return fail(kExitSystem, begun.error());
    if (!options.socket.empty()) {
        if (auto listening = service.listen(options.socket); !listening) return fail(kExitSystem, listening.error());
    }
    fmt::print(stderr, "{}", service.report());
    if (!options.socket.empty()) fmt::print(stderr, "serving at {}\n", options.socket);
    notify_manager("READY=1\nSTATUS=edition 1 of '" + options.spec + "' runs");
    if (auto served = service.run(); !served) return fail(kExitSystem, served.error());
    fmt::print(stderr, "stopped after {} answers\n", service.answered());
    return kExitOk;
}

}  // namespace chainio::runtime_tool
