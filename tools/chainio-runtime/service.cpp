#include "tools/chainio-runtime/service.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "tools/chainio/summary.h"

namespace chainio::runtime_tool {
namespace {

constexpr int kDrainMs = 5000;  // how long peers may take to read their last answers

std::unexpected<std::string> system_error(const std::string& what) {
    return std::unexpected(what + ": " + std::strerror(errno));
}

// Whether somebody answers at a socket file, or it was left by a process that is gone.
bool is_served(const sockaddr_un& address) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return true;
    const bool served = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    return served;
}

}  // namespace

Service::~Service() {
    if (listener_ >= 0) {
        close(listener_);
        unlink(path_.c_str());
    }
    if (signals_ >= 0) close(signals_);
}

std::expected<void, std::string> Service::listen(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        return std::unexpected(
            fmt::format("the socket path must have 1 to {} characters", sizeof address.sun_path - 1));
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    struct stat info{};
    if (lstat(path.c_str(), &info) == 0) {
        if (!S_ISSOCK(info.st_mode)) return std::unexpected(fmt::format("'{}' exists and is not a socket", path));
        if (is_served(address)) return std::unexpected(fmt::format("another process serves '{}'", path));
        unlink(path.c_str());
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return system_error("socket");
    // Whoever may connect may read the files, so that only the owner may.
    const mode_t before = umask(0177);
    const int bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    umask(before);
    if (bound != 0 || ::listen(fd, 64) != 0) {
        auto error = system_error(fmt::format("cannot listen at '{}'", path));
        close(fd);
        return error;
    }
    listener_ = fd;
    path_ = path;
    return {};
}

std::expected<void, std::string> Service::watch_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return system_error("sigprocmask");
    signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) return system_error("signalfd");
    in_flight_.resize(engine_.capacity());
    done_.resize(engine_.capacity());
    for (std::uint32_t i = engine_.capacity(); i-- > 0;) free_.push_back(i);
    return {};
}

void Service::accept_clients() {
    while (clients_.size() < kMostClients) {
        const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        clients_.emplace(next_client_++, std::make_unique<Client>(fd));
    }
}

void Service::start(std::uint64_t key, Client& client, const std::string& line) {
    auto request = parse_request(line, engine_.spec(), files_);
    if (!request) return client.send(error_line(request.error().id, request.error().message));
    if (request->stats) {
        nlohmann::ordered_json json;
        json["id"] = request->id;
        json["stats"] = nlohmann::ordered_json::parse(stats());
        return client.send(json.dump() + "\n");
    }
    const std::uint32_t slot = free_.back();
    auto submitted = engine_.submit(request->chain, request->args, slot);
    if (!submitted) return client.send(error_line(request->id, submitted.error().message));
    free_.pop_back();
    in_flight_[slot] = {key, std::move(request->id), true};
    client.in_flight++;
}

void Service::take_lines(std::uint64_t key, Client& client) {
    // What was sent before the peer closed its side is answered as well.
    while (!free_.empty() && engine_.in_flight() < engine_.capacity()) {
        auto line = client.next_line();
        if (!line) return;
        if (!line->empty()) start(key, client, *line);
    }
}

// How many chains have ended.
std::expected<unsigned, std::string> Service::collect() {
    const unsigned wait = engine_.poll_fd() < 0 && engine_.in_flight() > 0 ? 1 : 0;
    auto count = engine_.reap(done_, wait);
    if (!count) return std::unexpected(count.error());
    for (unsigned i = 0; i < *count; i++) {
        if ((done_[i].user_data & service::kOurs) != 0) {
            server_->completed(done_[i]);
            continue;
        }
        const auto slot = static_cast<std::uint32_t>(done_[i].user_data);
        InFlight& entry = in_flight_[slot];
        if (auto client = clients_.find(entry.client); client != clients_.end()) {
            client->second->send(completion_line(entry.id, engine_.spec(), done_[i]));
            client->second->in_flight--;
        }
        entry = {};
        free_.push_back(slot);
        answered_++;
    }
    return *count;
}

void Service::poll_once(int timeout_ms) {
    std::vector<pollfd> fds{{signals_, POLLIN, 0}, {listener_, static_cast<short>(stops_ == 0 ? POLLIN : 0), 0}};
    if (server_ != nullptr) fds.push_back({server_->poll_fd(), POLLIN, 0});
    const bool ring = engine_.in_flight() > 0 && engine_.poll_fd() >= 0;
    if (ring) fds.push_back({engine_.poll_fd(), POLLIN, 0});
    const std::size_t first_client = fds.size();
    std::vector<std::uint64_t> keys;
    for (const auto& [key, client] : clients_) {
        // While the engine is full, requests wait in the sockets.
        const bool read = stops_ == 0 && client->may_read() && !free_.empty();
        const int events = (read ? POLLIN : 0) | (client->wants_write() ? POLLOUT : 0);
        fds.push_back({client->fd(), static_cast<short>(events), 0});
        keys.push_back(key);
    }
    if (poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
    signalfd_siginfo signal;
    while ((fds[0].revents & POLLIN) != 0 && read(signals_, &signal, sizeof signal) == sizeof signal) stops_++;
    if ((fds[1].revents & POLLIN) != 0) accept_clients();
    for (std::size_t i = 0; i < keys.size(); i++) {
        const short events = fds[first_client + i].revents;
        Client& client = *clients_[keys[i]];
        bool alive = (events & (POLLERR | POLLNVAL)) == 0;
        if (alive && (events & (POLLIN | POLLHUP)) != 0 && stops_ == 0 && client.may_read()) alive = client.read_some();
        if (alive && (events & POLLOUT) != 0) alive = client.write_some();
        if (!alive) clients_.erase(keys[i]);
    }
}

void Service::drop_finished() {
    for (auto it = clients_.begin(); it != clients_.end();) {
        Client& client = *it->second;
        const bool answered = client.in_flight == 0 && !client.has_line();
        if (!client.write_some() || (client.closing() && answered && !client.wants_write()))
            it = clients_.erase(it);
        else
            ++it;
    }
}

std::expected<void, std::string> Service::run() {
    while (stops_ == 0) {
        for (auto& [key, client] : clients_) take_lines(key, *client);
        if (auto stepped = server_ != nullptr ? server_->step() : std::expected<void, std::string>{}; !stepped)
            return stepped;
        auto collected = collect();
        if (!collected) return std::unexpected(collected.error());
        drop_finished();
        // A request that goes on may have started another chain, whose reads go out with the next turn; lines may wait
        // for nothing but theirs.
        bool ready = server_ != nullptr && (*collected > 0 || server_->has_work());
        for (const auto& [key, client] : clients_) ready = ready || (client->has_line() && !free_.empty());
        const bool blocking_backend = engine_.in_flight() > 0 && engine_.poll_fd() < 0;
        poll_once(ready || blocking_backend ? 0 : server_ != nullptr ? server_->next_timeout_ms() : -1);
    }
    if (auto drained = drain_server(); !drained) return drained;
    // What was taken on is answered; lines that were not started are not.
    while (engine_.in_flight() > 0 && stops_ < 2) {
        if (auto collected = collect(); !collected) return std::unexpected(collected.error());
        if (engine_.in_flight() > 0) poll_once(engine_.poll_fd() < 0 ? 0 : -1);
    }
    for (int waited = 0; waited < kDrainMs && stops_ < 2; waited += 100) {
        bool left = false;
        for (auto it = clients_.begin(); it != clients_.end();) {
            if (!it->second->write_some()) {
                it = clients_.erase(it);
                continue;
            }
            left = left || it->second->wants_write();
            ++it;
        }
        if (!left) break;
        poll_once(100);
    }
    return {};
}

// What the services' clients have sent is answered, and they are told that there is no more.
std::expected<void, std::string> Service::drain_server() {
    if (server_ == nullptr) return {};
    server_->drain();
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDrainMs);
    while (!server_->drained() && stops_ < 2 && std::chrono::steady_clock::now() < until) {
        if (auto stepped = server_->step(); !stepped) return stepped;
        auto collected = collect();
        if (!collected) return std::unexpected(collected.error());
        const bool blocking_backend = engine_.in_flight() > 0 && engine_.poll_fd() < 0;
        const bool ready = *collected > 0 || server_->has_work() || blocking_backend;
        if (!server_->drained()) poll_once(ready ? 0 : server_->next_timeout_ms());
    }
    return {};
}

nlohmann::ordered_json Service::service_stats() const {
    auto json = nlohmann::ordered_json::array();
    const auto& services = engine_.spec().module().services;
    for (const service::Listening& at : server_->listening()) {
        const service::ServiceCounters& counters = server_->counters(at.service);
        json.push_back({{"name", services[at.service].name},
                        {"transport", "tcp"},
                        {"address", at.address},
                        {"port", at.port},
                        {"connections", counters.open},
                        {"accepted", counters.accepted},
                        {"refused", counters.refused},
                        {"requests", counters.requests},
                        {"answered", counters.answered},
                        {"malformed", counters.malformed},
                        {"failed", counters.failed},
                        {"shed", counters.shed},
                        {"too_long", counters.too_long},
                        {"timeouts", counters.timeouts},
                        {"vanished", counters.vanished},
                        {"bytes_in", counters.bytes_in},
                        {"bytes_out", counters.bytes_out},
                        {"p50_ns", counters.latency_ns.percentile(50)},
                        {"p99_ns", counters.latency_ns.percentile(99)}});
    }
    return json;
}

std::string Service::stats() const {
    nlohmann::ordered_json json;
    json["engine"] = engine_.describe();
    json["in_flight"] = engine_.in_flight();
    json["clients"] = clients_.size();
    json["chains"] = nlohmann::ordered_json::array();
    const auto& chains = engine_.spec().module().chains;
    for (std::uint32_t i = 0; i < chains.size(); i++) {
        if (chains[i].mode != ir::ChainMode::call) continue;
        json["chains"].push_back(nlohmann::ordered_json::parse(tool::summary_json(engine_, i, 0)));
    }
    if (server_ != nullptr) {
        json["network"] = server_->describe();
        json["services"] = service_stats();
    }
    return json.dump();
}

}  // namespace chainio::runtime_tool
