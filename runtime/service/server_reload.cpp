// The endpoints that a server listens at, and what happens to them and to connections when another spec takes over.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "compiler/ir/dump_stmt.h"
#include "compiler/ir/names.h"
#include "runtime/net/clock.h"
#include "runtime/service/listen.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

std::string code_of(const ir::Module& module, std::int32_t program) {
    std::string text;
    if (program < 0) return text;
    const ir::Program& from = module.programs[static_cast<std::size_t>(program)];
    ir::dump_body(module, from, from.body, 0, text);
    // Of a literal it says no more than its place.
    if (text.contains(std::string(ir::name_of(ir::Space::literal)) + "["))
        text.append(module.literals.begin(), module.literals.end());
    return text;
}

// Whether what one service takes for a request of a stream the other does, too.
bool same_framing(const ir::Module& module_a, const ir::Framing& a, const ir::Module& module_b, const ir::Framing& b) {
    return a.bytes == b.bytes && a.end == b.end && code_of(module_a, a.length) == code_of(module_b, b.length);
}

}  // namespace

// A daemon that serves goes on when there is no memory for another one.
std::expected<std::unique_ptr<Generation>, std::string> Server::make_generation(engine::Engine& engine, Files files,
                                                                                const ServerOptions& options) {
    try {
        const Places places{
            .run = options.requests, .shed = kShedPlaces, .parked = std::min(options.connections, kMostParked)};
        auto made = std::make_unique<Generation>(engine, std::move(files), places, options.timeout_ns);
        if (made->requests.has_memory()) return made;
    } catch (const std::bad_alloc&) {  // the same
    }
    return std::unexpected(fmt::format(
        "no memory for the requests of {} connections, {} at once; ask for fewer (--connections, --requests)",
        options.connections, options.requests));
}

// One that no other endpoint has taken yet: a service may have several for which the kernel has chosen the port.
const Server::Listener* Server::find_listener(const std::string& service, std::uint16_t wanted, bool tcp,
                                              std::span<const Listener> taken) const {
    for (const Listener& listener : listeners_) {
        if (listener.fd < 0 || listener.wanted != wanted || listener.tcp != tcp || listener.leaving) continue;
        if (std::ranges::find(taken, listener.fd, &Listener::fd) != taken.end()) continue;
        if (wanted != 0 || listener.generation->module.services[listener.service].name == service) return &listener;
    }
    return nullptr;
}

std::expected<Server::Listener, std::string> Server::listen(std::uint32_t service, std::uint16_t port, bool tcp) const {
    auto bound = listen_at(options_.address, port, tcp);
    if (!bound) return std::unexpected(bound.error());
    Listener listener;
    listener.fd = bound->fd;
    listener.service = service;
    listener.wanted = port;
    listener.port = bound->port;
    listener.address = bound->address;
    listener.link = bound->link;
    listener.tcp = tcp;
    return listener;
}

std::string Server::given_twice(const ir::Module& module, const Plan& plan, const std::vector<GivenPort>& ports) {
    struct At {
        bool tcp;
        std::uint16_t port;
        std::uint32_t service;
    };
    std::vector<At> taken;
    for (const EndpointPlan& each : plan) {
        if (!each.in_user_space()) continue;
        const ir::Service& service = module.services[each.service];
        const bool tcp = service.endpoints[each.endpoint].tcp;
        const std::uint16_t port = port_of(module, each, ports);
        const auto same = std::ranges::find_if(
            taken, [&](const At& other) { return port != 0 && other.port == port && other.tcp == tcp; });
        if (same != taken.end())
            return fmt::format(
                "service '{}': {} port {} is that of service '{}' as well; give one of the two "
                "another port (--port SERVICE=PORT)",
                service.name, tcp ? "tcp" : "udp", port, module.services[same->service].name);
        taken.push_back({tcp, port, each.service});
    }
    return {};
}

// A listener for each endpoint that is served: those that are there already, and new ones.
std::expected<std::vector<Server::Listener>, std::string> Server::listeners_for(
    Generation& generation, const Plan& plan, const std::vector<GivenPort>& ports) const {
    std::vector<Listener> wanted;
    std::vector<int> opened;
    const auto failed = [&](const std::string& message) {
        for (const int fd : opened) close(fd);
        return std::unexpected(message);
    };
    const ir::Module& module = generation.module;
    if (const std::string twice = given_twice(module, plan, ports); !twice.empty()) return failed(twice);
    for (const EndpointPlan& each : plan) {
        if (!each.in_user_space()) continue;
        const ir::Service& service = module.services[each.service];
        const ir::Endpoint& endpoint = service.endpoints[each.endpoint];
        const std::string missing = missing_file(module, service, endpoint.tcp, generation.files);
        if (!missing.empty()) return failed(fmt::format("service '{}' cannot be served: {}", service.name, missing));
        const std::uint16_t port = port_of(module, each, ports);
        if (const Listener* there = find_listener(service.name, port, endpoint.tcp, wanted)) {
            wanted.push_back(*there);
        } else {
            auto listener = listen(each.service, port, endpoint.tcp);
            if (!listener) return failed(fmt::format("service '{}': {}", service.name, listener.error()));
            opened.push_back(listener->fd);
            wanted.push_back(std::move(*listener));
        }
        wanted.back().generation = &generation;
        wanted.back().service = each.service;
        wanted.back().xdp = endpoint.via == "xdp";
    }
    return wanted;
}

// Closes the listeners that are not wanted any more, and starts the new ones.
void Server::use_listeners(std::vector<Listener> wanted) {
    listening_.clear();
    const auto place = [&](int fd) { return std::ranges::find(listeners_, fd, &Listener::fd); };
    for (std::uint32_t i = 0; i < listeners_.size(); i++) {
        if (listeners_[i].fd < 0) continue;
        if (std::ranges::find(wanted, listeners_[i].fd, &Listener::fd) == wanted.end()) close_listener(i);
    }
    for (Listener& listener : wanted) {
        listening_.push_back({listener.service, listener.tcp, listener.port, listener.address});
        auto at = place(listener.fd);
        if (at != listeners_.end()) {
            at->generation = listener.generation;
            at->service = listener.service;
            at->xdp = listener.xdp;
            continue;
        }
        at = std::ranges::find_if(listeners_, [](const Listener& other) { return other.fd < 0 && !other.accepting; });
        if (at == listeners_.end()) at = listeners_.emplace(listeners_.end());
        *at = std::move(listener);
        if (!at->tcp) continue;  // settle_sockets() asks for what comes
        at->accepting = true;
        net_->accept(static_cast<std::uint32_t>(at - listeners_.begin()), at->fd);
    }
}

void Server::close_listener(std::uint32_t index) {
    Listener& listener = listeners_[index];
    if (!listener.tcp) return leave(listener);
    net_->stop_accepting(index);
    // Who has connected already is served. The ring may still take a connection between a look and an accept, and who
    // then waited would do so for another client.
    fcntl(listener.fd, F_SETFL, fcntl(listener.fd, F_GETFL) | O_NONBLOCK);
    for (;;) {
        const int fd = accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) add_connection(index, fd);
        if (fd < 0 && errno != EINTR && errno != ECONNABORTED) break;
    }
    close(listener.fd);
    listener.fd = -1;
    if (listener.accepting) listener.generation->closing++;
}

// Sockets hear at the interface that there was when they were made, and at no other that has its name later.
void Server::look_at_bound_link() {
    if (!is_of_link() || draining_ || !is_due(bound_looked_ns_, kLookAtBoundMs)) return;
    const auto now = net::linked_of(options_.address);
    if (!now && now.error().unasked) return;
    std::string lost = now ? std::string() : now.error().message;
    std::vector<Listener> wanted;
    std::vector<int> opened;
    for (const Listener& listener : listeners_) {
        if (!lost.empty() || listener.fd < 0 || listener.leaving) continue;
        wanted.push_back(listener);
        if (listener.link == now->link) continue;
        auto made = listen(listener.service, listener.port, listener.tcp);
        if (!made) {
            lost = made.error();
            continue;
        }
        opened.push_back(made->fd);
        made->wanted = listener.wanted;
        made->generation = listener.generation;
        made->xdp = listener.xdp;
        wanted.back() = std::move(*made);
    }
    if (!lost.empty()) {
        for (const int fd : opened) close(fd);
        if (std::exchange(bound_lost_, lost) != lost)
            fallbacks_->note("bind-lost",
                             fmt::format("{}; nobody is heard at {} until that is over", lost, options_.address));
        return;
    }
    bound_lost_.clear();
    if (opened.empty()) return;
    use_listeners(std::move(wanted));
    news_.push_back(
        fmt::format("services listen at {} anew, as its interface is another one by now", options_.address));
}

// What it holds is answered. What comes later, however much that is, keeps nobody waiting, and is not counted as what
// it had no room for.
void Server::leave(Listener& listener) {
    if (std::exchange(listener.leaving, true)) return;
    listener.leaving_until_ns = net::now_ns() + kParting;
    listener.generation->closing++;
    count_dropped(listener);
    take_no_more(listener.fd);
}

std::expected<void, std::string> Server::reload(engine::Engine& engine, Files files, const Plan& plan,
                                                const std::vector<GivenPort>& ports) {
    auto made = make_generation(engine, std::move(files), options_);
    if (!made) return std::unexpected(made.error());
    auto next = std::move(*made);
    auto listeners = listeners_for(*next, plan, ports);
    if (!listeners) return std::unexpected(listeners.error());
    next->inherit_counters(*now_);
    goes_to_.clear();
    for (const ir::Service& service : now_->module.services) {
        auto place = next->find(service.name);
        if (place &&
            !same_framing(now_->module, service.tcp_framing, next->module, next->module.services[*place].tcp_framing))
            place.reset();
        goes_to_.push_back(place);
    }
    before_ = std::move(now_);
    now_ = std::move(next);
    let_interfaces_go();
    use_listeners(std::move(*listeners));
    if (rings_) rings_->find_anew();

    std::vector<std::uint32_t> in_order;
    for (std::uint32_t index = waiting_.pop(); index != engine::kNoIndex; index = waiting_.pop())
        in_order.push_back(index);
    waiting_ = {lines_of(now_->module), WaitingLink{&connections_, &datagrams_}};
    // What is marked first is looked at first, and so stays the one that has been idle longest.
    for (std::uint32_t index = idle_.pop(); index != engine::kNoIndex; index = idle_.pop()) {
        connections_[index].idle_line = engine::kNoIndex;
        mark(index);
    }
    idle_ = {lines_of(now_->module), IdleLink{&connections_}};
    for (std::uint32_t i = 0; i < connections_.size(); i++) {
        Connection& connection = connections_[i];
        if (!connection.used()) continue;
        if (!goes_to_[connection.service]) part(i);
        mark(i);
    }
    for (const std::uint32_t index : in_order) {
        if (index >= kFirstDatagram) {
            rank(index) = rank_of(datagrams_[index - kFirstDatagram]);
        } else if (!connections_[index].parting()) {
            go_over(connections_[index]);
        }
        waiting_.push(line(index), index);
    }
    end_generation();
    return {};
}

void Server::go_over(Connection& connection) {
    connection.generation->connections--;
    connection.generation = now_.get();
    connection.generation->connections++;
    connection.service = *goes_to_[connection.service];
    connection.rank = now_->rank_of(connection.service);
}

// The newer spec does not know what this connection speaks.
void Server::part(std::uint32_t index) {
    Connection& connection = connections_[index];
    connection.parting_until_ns = net::now_ns() + kParting;
}

void Server::end_generation() {
    if (!before_) return close_gone();
    if (before_->connections != 0 || before_->closing != 0 || before_->requests.running() != 0) return;
    if (before_->lender.frames != 0) return;
    if (!interfaces_idle()) return;
    before_.reset();
    if (!draining_) open_interfaces();
}

}  // namespace chainio::service
