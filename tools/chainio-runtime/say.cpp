#include "tools/chainio-runtime/say.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace chainio::runtime_tool {
namespace {

constexpr std::size_t kAtOnce = 4096;  // PIPE_BUF: a pipe that has any room has room for so much

bool may_wait = true;

bool has_room() {
    pollfd room{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    return poll(&room, 1, 0) != 0;
}

}  // namespace

void say(std::string_view text) noexcept {
    while (!text.empty() && (may_wait || has_room())) {
        const ssize_t written = write(STDERR_FILENO, text.data(), std::min(text.size(), kAtOnce));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

void wait_for_no_reader() noexcept { may_wait = false; }

}  // namespace chainio::runtime_tool
