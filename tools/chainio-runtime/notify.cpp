#include "tools/chainio-runtime/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace chainio::runtime_tool {
namespace {

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

}  // namespace

Manager::Manager() {
    if (managers_address()) fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

Manager::~Manager() {
    if (fd_ >= 0) close(fd_);
}

void Manager::tell(std::string state) {
    kept_.clear();
    const auto address = managers_address();
    if (fd_ < 0 || !address) return;
    // Each time anew, as a manager may have been started again; only who is connected hears of room there.
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address->of), address->length) != 0) return;
    if (send(fd_, state.data(), state.size(), MSG_NOSIGNAL) < 0 && errno == EAGAIN) kept_ = std::move(state);
}

}  // namespace chainio::runtime_tool
