#include "runtime/service/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace chainio::service {
namespace {

constexpr int kBacklog = 1024;
constexpr unsigned kEvents = 256, kMostRounds = 64;

std::vector<engine::ClassRank> ranks_of(const ir::Module& module) {
    constexpr std::uint32_t kDefaultPriority = 4;  // as the engine gives to what has no class
    std::vector<engine::ClassRank> ranks;
    for (const auto& entry : module.classes) ranks.push_back({entry.priority, entry.weight});
    ranks.push_back({kDefaultPriority, 1});
    return ranks;
}

// A peer that is gone without a word is noticed within some minutes.
void keep_alive(int fd) {
    const int on = 1, idle = 60, between = 10, probes = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

struct Address {
    sockaddr_storage storage{};
    socklen_t length = 0;
};

std::optional<Address> address_of(const std::string& text, std::uint16_t port) {
    Address out;
    auto& six = reinterpret_cast<sockaddr_in6&>(out.storage);
    auto& four = reinterpret_cast<sockaddr_in&>(out.storage);
    if (inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(port);
        out.length = sizeof six;
    } else if (inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
        four.sin_family = AF_INET;
        four.sin_port = htons(port);
        out.length = sizeof four;
    } else {
        return std::nullopt;
    }
    return out;
}

std::uint16_t port_of(int fd) {
    Address bound;
    bound.length = sizeof bound.storage;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) return 0;
    return ntohs(bound.storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound.storage).sin6_port
                                                     : reinterpret_cast<sockaddr_in&>(bound.storage).sin_port);
}

}  // namespace

Server::Server(engine::Engine& engine, Files files, const ServerOptions& options, std::unique_ptr<Net> net)
    : engine_(engine),
      module_(engine.spec().module()),
      files_(std::move(files)),
      options_(options),
      net_(std::move(net)),
      memory_(std::size_t{options.connections} * (kInput + kOutput)),
      held_next_(Net::kBuffers, engine::kNoIndex),
      held_from_(Net::kBuffers),
      held_length_(Net::kBuffers),
      arrived_ns_(options.connections),
      request_length_(options.connections),
      too_long_(options.connections),
      waiting_(ranks_of(module_), WaitingLink{&connections_}),
      requests_(engine, files_, options.requests + 1),
      counters_(module_.services.size()),
      events_(kEvents) {
    connections_.reserve(options.connections);
    for (unsigned i = 0; i < options.connections; i++) {
        std::uint8_t* at = memory_.base() + std::size_t{i} * (kInput + kOutput);
        connections_.emplace_back(at, at + kInput);
    }
    for (unsigned i = options.connections; i-- > 0;) free_.push_back(i);
    for (auto* list : {&dirty_, &starved_, &again_}) list->reserve(options.connections);
}

std::expected<std::unique_ptr<Server>, std::string> Server::create(engine::Engine& engine, Files files,
                                                                   const ServerOptions& options,
                                                                   const std::vector<Port>& ports,
                                                                   metrics::Fallbacks& fallbacks) {
    auto net = Net::create(options.connections, fallbacks);
    if (!net) return std::unexpected(net.error());
    std::unique_ptr<Server> server(new Server(engine, std::move(files), options, std::move(*net)));
    if (server->memory_.base() == nullptr)
        return std::unexpected(fmt::format("no memory for {} connections; ask for fewer", options.connections));
    const ir::Module& module = server->module_;
    for (const EndpointPlan& plan : plan_of(module)) {
        if (!plan.refused.empty()) continue;
        const ir::Service& service = module.services[plan.service];
        for (std::int32_t program : {service.on_request_tcp, service.on_malformed, service.on_failure}) {
            if (program < 0) continue;
            const std::string missing = missing_file(module, static_cast<std::uint32_t>(program), server->files_);
            if (!missing.empty())
                return std::unexpected(fmt::format("service '{}' cannot be served: {}", service.name, missing));
        }
        std::uint16_t port = service.endpoints[plan.endpoint].port;
        for (const Port& other : ports)
            if (other.service == plan.service) port = other.port;
        if (auto listening = server->listen(plan.service, port); !listening)
            return std::unexpected(fmt::format("service '{}': {}", service.name, listening.error()));
    }
    return server;
}

Server::~Server() {
    for (const Listener& listener : listeners_)
        if (listener.fd >= 0) close(listener.fd);
    for (std::uint32_t i = 0; i < connections_.size(); i++) {
        Connection& connection = connections_[i];
        if (!connection.used()) continue;
        if (connection.request != engine::kNoIndex) requests_.abandon(connection.request);
        close(connection.fd);
    }
}

std::expected<void, std::string> Server::listen(std::uint32_t service, std::uint16_t port) {
    std::string text = options_.address;
    auto address = address_of(text, port);
    if (!address)
        return std::unexpected(fmt::format("'{}' is no address; give one in numbers, as 127.0.0.1 or ::1", text));
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 && errno == EAFNOSUPPORT && text == "::") {
        text = "0.0.0.0";
        address = address_of(text, port);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    const auto failed = [&](const char* what) {
        auto error =
            std::unexpected(fmt::format("cannot {} tcp {} port {}: {}", what, text, port, std::strerror(errno)));
        if (fd >= 0) close(fd);
        return error;
    };
    if (fd < 0) return failed("open a socket for");
    const int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->storage.ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address->storage), address->length) != 0 ||
        ::listen(fd, kBacklog) != 0)
        return failed("listen at");
    listeners_.push_back({fd, service, true});
    listening_.push_back({service, port_of(fd), text});
    net_->accept(static_cast<std::uint32_t>(listeners_.size() - 1), fd);
    return {};
}

void Server::mark(std::uint32_t index) {
    if (connections_[index].dirty) return;
    connections_[index].dirty = true;
    dirty_.push_back(index);
}

std::expected<void, std::string> Server::step() {
    for (unsigned round = 0; round < kMostRounds; round++) {
        auto count = net_->enter(events_);
        if (!count) return std::unexpected(count.error());
        for (unsigned i = 0; i < *count; i++) take_event(events_[i]);
        again_.swap(starved_);
        for (const std::uint32_t slot : again_) go_on(slot);
        again_.clear();
        // What is settled may start requests, and requests that end leave their connections to be settled.
        const bool worked = *count != 0 || !dirty_.empty();
        while (!dirty_.empty()) {
            const std::uint32_t index = dirty_.back();
            dirty_.pop_back();
            connections_[index].dirty = false;
            settle(index);
            start_waiting();
        }
        if (!worked) break;
    }
    give_up_late();
    return {};
}

void Server::take_event(const NetEvent& event) {
    switch (event.op) {
        case NetOp::accept: return accepted(event);
        case NetOp::receive: return received(event);
        case NetOp::send: return was_sent(event);
        case NetOp::cancel: return;
    }
}

void Server::accepted(const NetEvent& event) {
    Listener& listener = listeners_[event.index];
    if (event.result >= 0) add_connection(event.index, event.result);
    if (event.more) return;
    listener.accepting = false;
    if (draining_ || listener.fd < 0) return;
    // A shortage of descriptors or memory ends the multishot accept; the connections wait in the backlog.
    listener.accepting = true;
    net_->accept(event.index, listener.fd);
}

void Server::add_connection(std::uint32_t listener, int fd) {
    ServiceCounters& counters = counters_[listeners_[listener].service];
    if (free_.empty()) {
        counters.refused++;
        close(fd);
        return;
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    keep_alive(fd);
    Connection& connection = connections_[index];
    connection.reset(fd);
    connection.service = listeners_[listener].service;
    const std::int32_t rank = module_.services[connection.service].priority_class;
    connection.rank = static_cast<std::uint16_t>(rank < 0 ? module_.classes.size() : static_cast<std::size_t>(rank));
    counters.accepted++;
    counters.open++;
    used_++;
    mark(index);
}

void Server::received(const NetEvent& event) {
    Connection& connection = connections_[event.index];
    if (!event.more) connection.receiving = connection.stopping = false;
    mark(event.index);
    if (event.result > 0) {
        const auto length = static_cast<std::uint32_t>(event.result);
        counters_of(connection).bytes_in += length;
        if (connection.broken || connection.lingering || connection.leaving) return net_->give_back(event.buffer);
        return hold(connection, event.buffer, length);
    }
    if (event.buffer != engine::kNoIndex) net_->give_back(event.buffer);
    // No buffer was free, or the receive was stopped for want of room: it is asked for again when there is some.
    if (event.result == -ENOBUFS) connection.no_buffer = true;
    if (event.result == -ENOBUFS || event.result == -ECANCELED || event.result == -EINTR) return;
    if (event.result == -EINVAL && net_->multishot()) return net_->without_multishot();
    connection.at_end = true;
    if (event.result < 0) connection.broken = true;
}

void Server::hold(Connection& connection, std::uint32_t buffer, std::uint32_t length) {
    held_next_[buffer] = engine::kNoIndex;
    held_from_[buffer] = 0;
    held_length_[buffer] = length;
    (connection.held_tail == engine::kNoIndex ? connection.held_head : held_next_[connection.held_tail]) = buffer;
    connection.held_tail = buffer;
    fill_input(connection);
}

// Moves received bytes to where requests are looked for. What finds no room stays in its buffer, and no more is asked
// for.
void Server::fill_input(Connection& connection) {
    while (connection.held_head != engine::kNoIndex) {
        const std::uint32_t buffer = connection.held_head;
        const auto bytes =
            net_->received(buffer, held_from_[buffer] + held_length_[buffer]).subspan(held_from_[buffer]);
        const auto taken = static_cast<std::uint32_t>(connection.input.add(bytes));
        held_from_[buffer] += taken;
        held_length_[buffer] -= taken;
        if (held_length_[buffer] != 0) return;
        connection.held_head = held_next_[buffer];
        if (connection.held_head == engine::kNoIndex) connection.held_tail = engine::kNoIndex;
        net_->give_back(buffer);
    }
}

}  // namespace chainio::service
