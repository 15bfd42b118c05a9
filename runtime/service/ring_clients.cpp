#include "runtime/service/ring_clients.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/ipc/meeting.h"
#include "runtime/net/clock.h"

namespace chainio::service {
namespace {

std::unexpected<std::string> not_taken_on(const std::string& why) {
    return std::unexpected("the server cannot take on another client: " + why);
}

}  // namespace

RingClients::RingClients(int listener, ring::Shared& ring, RingHost host)
    : listener_(listener), ring_(ring), host_(std::move(host)), clients_(kPlaces) {
    host_.watch(0, listener_);
    ring_.set_beside(this);
}

void RingClients::came(std::uint32_t number, bool more) {
    if (number == 0) {
        if (!draining_) accept();
        if (!more && !draining_) host_.watch(0, listener_);
        if (!more && draining_) listening_ = false;
        return;
    }
    const std::uint32_t index = (number - 1) / 2;
    Client& client = clients_[index];
    if (!more) client.watched--;
    if (client.leaving) return free_if_over(index);
    const bool of_socket = number == socket_of(index);
    if (of_socket) hear(index);
    if (!more && client.used && !client.leaving) {
        client.watched++;
        host_.watch(number, of_socket ? client.socket.get() : client.bell.get());
    }
}

// So many that whoever connects again and again does not keep others waiting: more are told of by the next one, or
// looked for like those for whom there was no descriptor.
void RingClients::accept() {
    for (std::uint32_t accepted = 0;; accepted++) {
        if (accepted == kPlaces) {
            shortage_ = EAGAIN;
            return;
        }
        const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        shortage_ = fd < 0 && errno != EAGAIN ? errno : 0;
        if (fd < 0) return;
        ipc::OwnFd socket(fd);
        const auto place = std::ranges::find(clients_, false, &Client::used);
        if (place == clients_.end()) continue;
        *place = {};
        place->socket = std::move(socket);
        place->used = true;
        place->watched = 1;
        place->since_ns = net::now_ns();
        used_++;
        unheard_++;
        host_.watch(socket_of(static_cast<std::uint32_t>(place - clients_.begin())), fd);
    }
}

// A client says one thing, and then no more: what comes behind that is its end.
void RingClients::hear(std::uint32_t index) {
    Client& client = clients_[index];
    char byte = 0;
    const ssize_t there = recv(client.socket.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    if (there < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (there <= 0 || client.end) return leave(index);
    if (auto joined = join(client, index); !joined) {
        if (!joined.error().empty()) ipc::refuse(client.socket.get(), joined.error());
        leave(index);
    }
}

void RingClients::give_up_unheard(std::uint64_t now_ns, std::uint64_t timeout_ns) {
    for (std::uint32_t index = 0; index < kPlaces && unheard_ != 0; index++) {
        const Client& client = clients_[index];
        if (client.used && !client.end && !client.leaving && now_ns - client.since_ns >= timeout_ns) leave(index);
    }
}

std::expected<void, std::string> RingClients::join(Client& client, std::uint32_t index) {
    auto hello = ipc::hear_hello(client.socket.get());
    if (!hello) return std::unexpected(hello.error());
    const auto service = host_.find(hello->service);
    if (!service) return std::unexpected(service.error());
    if (joined_ == kMost)
        return std::unexpected("the server has " + std::to_string(kMost) +
                               " clients of rings already, and takes no more; end one of them first");
    client.bell = ipc::OwnFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!client.bell) return not_taken_on(std::string("no doorbell can be made: ") + std::strerror(errno));
    auto end = ipc::ServerEnd::create(hello->shape);
    if (!end) return not_taken_on(end.error());
    if (!ipc::welcome(client.socket.get(), end->region().fd(), client.bell.get()))
        return std::unexpected(std::string());
    client.end.emplace(std::move(*end));
    unheard_--;
    joined_++;
    client.name = std::move(hello->service);
    client.service = *service;
    if (asleep_) client.end->fall_asleep();
    client.watched++;
    host_.watch(bell_of(index), client.bell.get());
    host_.joined(client.name);
    return {};
}

unsigned RingClients::take(std::span<RingRequest> out) {
    unsigned count = 0;
    std::optional<std::uint32_t> last;
    for (std::uint32_t i = 0, left = used_; i < kPlaces && left != 0; i++) {
        const std::uint32_t index = (next_ + i) % kPlaces;
        if (!clients_[index].used) continue;
        left--;
        if (!clients_[index].end || clients_[index].leaving) continue;
        const unsigned taken = take_from(index, out.subspan(count));
        count += taken;
        if (taken != 0) last = index;
    }
    if (last) next_ = (*last + 1) % kPlaces;  // whoever has had the last turn has the last one of the next round
    return count;
}

unsigned RingClients::take_from(std::uint32_t index, std::span<RingRequest> out) {
    Client& client = clients_[index];
    client.left_for_room = !host_.has_room(client.service);
    if (client.left_for_room || out.empty()) return 0;
    const std::size_t most = std::min<std::size_t>(client.ending ? client.left : kAtOnce, out.size());
    for (unsigned taken = 0; taken < most; taken++) {
        ipc::Request request;
        const auto there = client.end->take(request);
        if (!there) break_with(index, there.error());
        // There was more when the end began: who takes that back waits for nothing any more.
        if (there && !*there && client.ending) {
            client.left = 0;
            end_if_done(index);
        }
        if (!there || !*there) return taken;
        client.left -= client.ending ? 1 : 0;
        out[taken] = {index, request.number, client.service, request.bytes};
    }
    return static_cast<unsigned>(most);
}

std::span<std::uint8_t> RingClients::room(std::uint32_t client, std::uint32_t frame) const {
    return clients_[client].end->frame(frame);
}

void RingClients::give_back(std::uint32_t index, std::uint32_t frame, std::optional<std::uint32_t> length) {
    Client& client = clients_[index];
    const auto given = length ? client.end->answer(frame, *length) : client.end->release(frame);
    if (client.leaving) return free_if_over(index);
    if (!given) return break_with(index, given.error());
    if (*given) ipc::wake(client.socket.get());
    if (client.ending) end_if_done(index);
}

// What it sends now is to be taken now.
bool RingClients::is_heard(const Client& client) const {
    if (client.ending && client.left == 0) return false;
    return !client.left_for_room || host_.has_room(client.service);  // there may be some since
}

bool RingClients::any_came() {
    bool any = false;
    for_each([&](std::uint32_t, Client& client) { any = any || (is_heard(client) && client.end->any_came()); });
    return any;
}

bool RingClients::fall_asleep() {
    bool nothing = true;
    for_each([&](std::uint32_t, Client& client) {
        if (is_heard(client)) nothing = client.end->fall_asleep() && nothing;
    });
    asleep_ = true;
    return nothing;
}

void RingClients::awake() {
    if (!std::exchange(asleep_, false)) return;
    for_each([](std::uint32_t, Client& client) { client.end->awake(); });
}

void RingClients::break_with(std::uint32_t index, umem::Fault fault) {
    host_.broken(clients_[index].service, umem::name_of(fault));
    leave(index);
}

void RingClients::leave(std::uint32_t index) {
    Client& client = clients_[index];
    if (std::exchange(client.leaving, true)) return;
    // What it waits for is not answered, of which it hears at once.
    shutdown(client.socket.get(), SHUT_RDWR);
    host_.stop_watching(socket_of(index));
    if (client.end) {
        host_.stop_watching(bell_of(index));
        joined_--;
        host_.left(client.name);
    } else {
        unheard_--;
    }
    free_if_over(index);
}

// Its region stays as long as requests of it run, and its numbers as long as somebody is to hear of them.
void RingClients::free_if_over(std::uint32_t index) {
    Client& client = clients_[index];
    if (client.watched != 0 || (client.end && client.end->held() != 0)) return;
    client = {};
    used_--;
}

void RingClients::find_anew() {
    for_each([this](std::uint32_t index, Client& client) {
        const auto service = host_.find(client.name);
        if (!service) return leave(index);
        client.service = *service;
    });
}

void RingClients::drain() {
    if (std::exchange(draining_, true)) return;
    host_.stop_watching(0);
    for (std::uint32_t index = 0; index < kPlaces; index++) {
        Client& client = clients_[index];
        if (!client.used || client.leaving) continue;
        client.ending = true;
        client.left = client.end ? std::min(client.end->came(), client.end->shape().frames) : 0;
        end_if_done(index);
    }
}

void RingClients::end_if_done(std::uint32_t index) {
    Client& client = clients_[index];
    if (client.left == 0 && (!client.end || client.end->held() == 0)) leave(index);
}

}  // namespace chainio::service
