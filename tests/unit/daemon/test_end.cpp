// The daemon's end: whether the last edition has its frames back is looked at as it is for those before.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/service/compiled.h"
#include "tools/chainio-runtime/serve.h"

namespace chainio::runtime_tool {
namespace {

constexpr const char* kSpec = R"(
app kv { files rows = "*.rows" { immutable } }
chain row(file: file rows) -> bytes(max 64) hops 1 { step s(b: block at 0 for 12 in file) { return b } }
service lines on tcp 7001 via uring, udp 7001 via uring {
  text Line { "hello\n" }
  request { line: Line }
  on request { reply "hello\n" }
}
)";

// What the daemon says that is ended as soon as it serves; its engine has handed out so many frames.
std::string said_at_the_end(unsigned frames) {
    // Held back until the daemon looks for it.
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before);
    raise(SIGTERM);
    Options options;
    options.engine = "user";
    options.ports = {"lines=0"};
    options.server.address = "127.0.0.1";
    options.server.connections = 4;
    metrics::Fallbacks fallbacks;
    auto ring = make_ring(options, {}, fallbacks);
    EXPECT_TRUE(ring) << ring.error();
    auto edition = make_edition(options, service::compiled(kSpec), ring->get());
    EXPECT_TRUE(edition) << edition.error().message;
    for (unsigned i = 0; i < frames; i++) EXPECT_NE((*edition)->engine->take_frame(4096), umem::kNoFrame);
    testing::internal::CaptureStderr();
    const int code = serve(options, std::move(fallbacks), std::move(*ring), std::move(*edition));
    std::string said = testing::internal::GetCapturedStderr();
    sigprocmask(SIG_SETMASK, &before, nullptr);
    EXPECT_EQ(code, kExitOk) << said;
    EXPECT_NE(said.find("stopped after 0 answers\n"), std::string::npos) << said;
    return said;
}

unsigned leaks_in(const std::string& said) {
    unsigned count = 0;
    for (std::size_t at = 0; (at = said.find("edition 1 has not given back: ", at)) != std::string::npos; at++) count++;
    return count;
}

TEST(End, FramesOfTheLastEditionAreLookedAfter) {
    for (const unsigned planted : {0u, 1u, 3u}) {
        const std::string said = said_at_the_end(planted);
        EXPECT_EQ(leaks_in(said), planted) << said;
    }
}

}  // namespace
}  // namespace chainio::runtime_tool
