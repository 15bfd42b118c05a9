// How a client comes in.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/ipc/client.h"

namespace chainio::ipc {
namespace {

std::unexpected<Trouble> trouble_at(const std::string& path, int number, const std::string& why) {
    return std::unexpected(Trouble{number, "'" + path + "' " + why});
}

// Each of them with what to do.
std::unexpected<Trouble> not_connected(const std::string& path, int error, unsigned open_ms) {
    const auto nobody = [&](const std::string& remedy) {
        return std::unexpected(
            Trouble{error, "nobody answers at '" + path + "': " + std::strerror(error) + "; " + remedy});
    };
    switch (error) {
        case EAGAIN:
            return trouble_at(
                path, ETIMEDOUT,
                "has let nobody in within " + std::to_string(open_ms) + " ms; is its chainio-runtime stopped?");
        case EACCES:
        case EPERM:
            return std::unexpected(
                Trouble{error, "this user may not ask at '" + path + "': " + std::strerror(error) +
                                   "; be the user that started chainio-runtime, or root, or have its "
                                   "--rings-mode let others in"});
        case EPROTOTYPE:
            return trouble_at(path, error, "is a socket of another kind; give what chainio-runtime got as --rings");
        case ECONNREFUSED: return nobody("start chainio-runtime with --rings " + path);
        default: return nobody("is it what chainio-runtime got as --rings, and does that run?");
    }
}

std::expected<OwnFd, Trouble> connect_to(const std::string& path, unsigned open_ms) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty()) return std::unexpected(Trouble{EINVAL, "the path of the socket is empty"});
    if (path.size() >= sizeof address.sun_path)
        return trouble_at(path, ENAMETOOLONG,
                          "is too long for the path of a socket, which has at most " +
                              std::to_string(sizeof address.sun_path - 1) +
                              " bytes; give a shorter one, as from another folder");
    std::memcpy(address.sun_path, path.data(), path.size());
    OwnFd peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!peer) {
        const int error = errno;
        return std::unexpected(Trouble{error, std::string("no socket can be made: ") + std::strerror(error)});
    }
    // It waits behind others whom a daemon that is stopped has not let in. A signal does not begin the time anew.
    const Deadline deadline(static_cast<int>(open_ms));
    int connected = 0;
    do {
        const int left_ms = std::max(deadline.left_ms(), 1);
        const timeval limit{left_ms / 1000, left_ms % 1000 * 1000L};
        setsockopt(peer.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        connected = connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    } while (connected != 0 && errno == EINTR && !deadline.is_over());
    if (connected != 0) return not_connected(path, errno == EINTR ? EAGAIN : errno, open_ms);
    return peer;
}

// Whether there is an answer, or an end, within that time.
bool is_answered(int socket, unsigned open_ms) {
    const Deadline deadline(static_cast<int>(open_ms));
    pollfd one{socket, POLLIN, 0};
    int there = 0;
    do {
        there = poll(&one, 1, deadline.left_ms());
    } while (there < 0 && errno == EINTR && !deadline.is_over());
    return there > 0;
}

// Of both that a reply, or the server's end, is known by.
OwnFd watch_of(int bell, int socket) {
    OwnFd watch(epoll_create1(EPOLL_CLOEXEC));
    epoll_event came{.events = EPOLLIN, .data = {}}, woken{.events = EPOLLIN | EPOLLRDHUP, .data = {}};
    if (epoll_ctl(watch.get(), EPOLL_CTL_ADD, bell, &came) != 0) return {};
    if (epoll_ctl(watch.get(), EPOLL_CTL_ADD, socket, &woken) != 0) return {};
    return watch;
}

// What the system refused has its own number.
int number_of_attach() { return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? errno : EPROTO; }

}  // namespace

std::expected<Client, Trouble> Client::open(const std::string& path, std::string_view service,
                                            const ClientOptions& options) {
    auto peer = connect_to(path, options.open_ms);
    if (!peer) return std::unexpected(std::move(peer.error()));
    const auto refused = [&](const Trouble& trouble) {
        if (trouble.number == EAGAIN)
            return trouble_at(
                path, ETIMEDOUT,
                "has not answered within " + std::to_string(options.open_ms) + " ms; is its chainio-runtime stopped?");
        const std::string refuses = trouble.number == ECONNREFUSED ? "refuses: " : "cannot be asked: ";
        return trouble_at(path, trouble.number, refuses + trouble.why);
    };
    if (auto said = say_hello(peer->get(), {std::string(service), options.shape}); !said)
        return said.error().number == EINVAL ? std::unexpected(std::move(said.error())) : refused(said.error());
    if (!is_answered(peer->get(), options.open_ms)) return refused({EAGAIN, {}});
    auto welcome = hear_answer(peer->get());
    if (!welcome) return refused(welcome.error());
    errno = 0;
    auto end = ClientEnd::attach(welcome->region.get());
    if (!end) return refused({number_of_attach(), end.error()});
    if (end->shape().frames < options.shape.frames || end->shape().frame_bytes < options.shape.frame_bytes)
        return refused({EPROTO, "the server has made a smaller channel than was asked for"});
    OwnFd own_bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    OwnFd watch = watch_of(own_bell.get(), peer->get());
    if (!watch) return refused({errno, std::string("its doorbell cannot be watched: ") + std::strerror(errno)});
    return Client(std::move(*end), std::move(*peer), std::move(welcome->server_bell), std::move(own_bell),
                  std::move(watch), options.spin_us);
}

}  // namespace chainio::ipc
