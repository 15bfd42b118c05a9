// A server of rings whose replies are what the requests ask for. It says where it is, and serves one client after the
// other until its standard input ends. `none` has no reply, `gone` ends the channel, and `hold` is replied to behind
// the next one; any other request comes back in brackets. The service `away` is refused, and `mute` is not answered.
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "tests/support/ring_server.h"

namespace {

using chainio::tests::Guest;

void serve(Guest& guest) {
    std::optional<std::uint32_t> held;
    while (const auto request = guest.take()) {
        const std::string text = chainio::tests::text_of(*request);
        if (text == "gone") return;
        if (text == "hold" && !held) {
            held = request->number;
            continue;
        }
        text == "none" ? guest.release(request->number) : guest.answer(request->number, "[" + text + "]");
        if (held) guest.answer(*held, "held");
        held.reset();
    }
}

bool meet(int socket, const chainio::ipc::Hello& hello) {
    if (hello.service == "away") chainio::ipc::refuse(socket, "there is no service 'away'; there is 'echo'");
    if (hello.service == "mute") {
        pollfd gone{socket, POLLRDHUP, 0};
        poll(&gone, 1, chainio::tests::kRingPatience);
    }
    return hello.service != "away" && hello.service != "mute";
}

}  // namespace

int main() {
    const chainio::tests::RingServer server(serve, meet);
    std::printf("%s\n", server.path().c_str());
    std::fflush(stdout);
    char rest[256];
    while (read(STDIN_FILENO, rest, sizeof rest) > 0) {}
}
