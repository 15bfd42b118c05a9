#include "tools/chainio-runtime/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace chainio::runtime_tool {
namespace {

constexpr std::chrono::milliseconds kAgain{100};  // until a manager without room is told once more

struct Address {
    sockaddr_un of{};
    socklen_t length = 0;
};

std::optional<Address> managers_address() {
    const char* path = std::getenv("NOTIFY_SOCKET");
    if (path == nullptr || (path[0] != '/' && path[0] != '@')) return std::nullopt;
    Address address;
    address.of.sun_family = AF_UNIX;
    const std::size_t length = std::strlen(path);
    if (length >= sizeof address.of.sun_path) return std::nullopt;
    std::memcpy(address.of.sun_path, path, length);
    if (path[0] == '@') address.of.sun_path[0] = 0;  // an abstract name
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
    return address;
}

// 0: there is none, or it is another process's, as that of the shell that has started this one.
std::chrono::microseconds watchdogs_time() {
    const auto number = [](const char* name) {
        const char* text = std::getenv(name);
        return text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
    };
    if (std::getenv("WATCHDOG_PID") != nullptr && number("WATCHDOG_PID") != getpid()) return {};
    return std::chrono::microseconds(std::max(number("WATCHDOG_USEC"), 0LL));
}

}  // namespace

Manager::Manager() {
    if (!managers_address()) return;
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    each_ = watchdogs_time() / 2;
}

Manager::~Manager() {
    if (fd_ >= 0) close(fd_);
}

void Manager::tell(std::string state) {
    kept_.clear();
    if (!send_to_it(state)) kept_ = std::move(state);
}

// False: it has no room. Nobody listening is no error.
bool Manager::send_to_it(const std::string& state) const {
    const auto address = managers_address();
    if (fd_ < 0 || !address) return true;
    // Each time anew, as a manager may have been started again; only who is connected hears of room there.
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address->of), address->length) != 0) return true;
    return send(fd_, state.data(), state.size(), MSG_NOSIGNAL) >= 0 || errno != EAGAIN;
}

void Manager::go_on(std::chrono::steady_clock::time_point now) {
    if (each_ == each_.zero() || now < due_) return;
    due_ = now + (send_to_it("WATCHDOG=1") ? each_ : std::min<std::chrono::steady_clock::duration>(each_, kAgain));
}

int Manager::next_ms(std::chrono::steady_clock::time_point now) const {
    if (each_ == each_.zero()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(due_ - now, each_.zero())).count();
    return static_cast<int>(std::min<std::int64_t>(left, INT_MAX));
}

}  // namespace chainio::runtime_tool
