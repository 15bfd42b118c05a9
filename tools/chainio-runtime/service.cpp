#include "tools/chainio-runtime/service.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "runtime/engine/owners.h"
#include "runtime/net/port.h"

namespace chainio::runtime_tool {
namespace {

std::unexpected<std::string> system_error(const std::string& what) {
    return std::unexpected(what + ": " + std::strerror(errno));
}

// What a descriptor that is waited for belongs to, and which one of these.
enum class Source : std::uint8_t { signals, listener, progress, preparation, look, manager, client };
constexpr unsigned kLinesATurn = 16;                 // of a client of the control socket
constexpr std::chrono::milliseconds kShortage{100};  // of descriptors: until it may be over
constexpr std::chrono::milliseconds kShortOfMemory{10};
constexpr unsigned kSourceShift = 56;

std::uint64_t key_of(Source source, std::uint64_t number) {
    return static_cast<std::uint64_t>(source) << kSourceShift | number;
}

// Whether somebody has frames who gives them back: not those that an interface keeps to receive into. Inside the kernel
// chains have memory of their own.
bool lends_frames(const engine::Engine& engine) {
    if (engine.in_kernel()) return false;
    const auto lent = [](umem::Owner owner) { return owner >= engine::kHandedOut && !net::Owners::keep(owner); };
    return !engine.slab().is_alone([](umem::Frame) { return false; }, lent);
}

}  // namespace

Service::Service(const Options& options, Manager& manager, metrics::Fallbacks fallbacks,
                 std::unique_ptr<ring::Shared> ring, std::unique_ptr<Edition> edition)
    : options_(options),
      manager_(manager),
      fallbacks_(std::move(fallbacks)),
      ring_(std::move(ring)),
      now_(std::move(edition)),
      done_(now_->engine->capacity()) {}

Service::~Service() {
    if (signals_ >= 0) close(signals_);
}

std::expected<void, std::string> Service::listen(const std::string& path) {
    auto listening = SocketFile::listen(path, SOCK_STREAM, options_.socket_mode, "--socket");
    if (!listening) return std::unexpected(listening.error());
    control_ = std::move(*listening);
    return {};
}

std::expected<void, std::string> Service::watch_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return system_error("sigprocmask");
    signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) return system_error("signalfd");
    auto waits = Waits::create(ring_.get());
    if (!waits) return std::unexpected(waits.error());
    waits_ = std::move(*waits);
    // A daemon that heard of no signal could not be stopped.
    if (waits_->want(signals_, EPOLLIN, key_of(Source::signals, 0))) return {};
    const char* const remedy = errno == ENOSPC ? "; raise fs.epoll.max_user_watches (sysctl)" : "";
    return std::unexpected(fmt::format("signals cannot be waited for: {}{}", std::strerror(errno), remedy));
}

void Service::accept_clients() {
    while (clients_.size() < kMostClients) {
        const int fd = accept4(control_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno != EAGAIN) accept_again_ = std::chrono::steady_clock::now() + kShortage;
            return;
        }
        clients_.emplace(next_client_++, std::make_unique<Client>(fd));
    }
}

// False: the line has to wait until chains have ended.
bool Service::start(std::uint64_t key, Client& client, const std::string& line) {
    auto request = parse_request(line, *now_->loaded, now_->files);
    if (!request) {
        client.send(error_line(request.error().id, request.error().message));
        return true;
    }
    switch (request->op) {
        case Op::stats: {
            nlohmann::ordered_json json;
            json["id"] = request->id;
            if (server_ != nullptr) server_->look_for_dropped();
            json["stats"] = stats();
            client.send(json_line(json));
            return true;
        }
        case Op::reload:
        case Op::invalidate:
            if (request->op == Op::invalidate && server_ != nullptr) server_->forget_replies();
            (request->op == Op::reload ? asked_ : forgetting_).push_back({key, std::move(request->id)});
            client.in_flight++;
            return true;
        case Op::call: break;
    }
    if (!may_start()) return false;
    const std::uint32_t slot = now_->free.back();
    auto submitted = now_->engine->submit(request->chain, request->args, slot);
    if (!submitted) {
        client.send(error_line(request->id, submitted.error().message));
        return true;
    }
    now_->free.pop_back();
    now_->calls[slot] = {key, std::move(*request)};
    client.in_flight++;
    return true;
}

void Service::answer(std::uint64_t client, const std::string& line) {
    const auto found = clients_.find(client);
    if (found == clients_.end()) return;
    found->second->send(line);
    found->second->in_flight--;
}

bool Service::may_start() const { return !now_->free.empty() && now_->engine->in_flight() < now_->engine->capacity(); }

bool Service::may_take_line(const Client& client) const {
    return client.has_line() && client.may_answer() && (!client.waits() || may_start());
}

void Service::take_lines(std::uint64_t key, Client& client) {
    // What was sent before the peer closed its side is answered as well. The rest goes with the next turn, so that no
    // client keeps the services waiting.
    for (unsigned taken = 0; taken < kLinesATurn && may_take_line(client); taken++) {
        auto line = client.next_line();
        if (!line->empty() && !start(key, client, *line)) return client.put_back(std::move(*line));
    }
}

// Whether an engine makes progress only while it is asked to.
bool Service::must_be_waited_for(engine::Engine& engine) {
    return engine.in_flight() > 0 && engine.poll_fd() < 0 && !engine.by_turns();
}

// How many chains have ended, at most so many of each edition.
std::expected<unsigned, std::string> Service::collect(unsigned most) {
    auto count = collect_from(*now_, most);
    if (!count || !before_) return count;
    auto more = collect_from(*before_, most);
    if (!more) return more;
    return *count + *more;
}

std::expected<unsigned, std::string> Service::collect_from(Edition& edition, unsigned most) {
    engine::Engine& engine = *edition.engine;
    const auto room = std::span(done_).first(std::min<std::size_t>(most, done_.size()));
    auto count = engine.reap(room, must_be_waited_for(engine) ? 1 : 0);
    if (!count) return std::unexpected(count.error());
    for (unsigned i = 0; i < *count; i++) {
        if ((done_[i].user_data & service::kOurs) != 0) {
            server_->completed(engine, done_[i]);
            continue;
        }
        const auto slot = static_cast<std::uint32_t>(done_[i].user_data);
        if (done_[i].outcome == CIO_NO_MEMORY && waits_for_memory(edition, slot)) continue;
        end_call(edition, slot, completion_line(edition.calls[slot].request.id, *edition.loaded, done_[i]));
    }
    return *count;
}

void Service::end_call(Edition& edition, std::uint32_t slot, const std::string& line) {
    Edition::Call& call = edition.calls[slot];
    answer(call.client, line);
    call = {};
    edition.free.push_back(slot);
    answered_++;
}

// Of a call that has ended for want of a frame, whether it is to be made again: frames that replies lie in come back.
bool Service::waits_for_memory(Edition& edition, std::uint32_t slot) {
    if (!frames_return_ || !lends_frames(*edition.engine)) return false;
    Edition::Call& call = edition.calls[slot];
    const auto now = std::chrono::steady_clock::now();
    if (call.short_since == std::chrono::steady_clock::time_point{}) call.short_since = now;
    if (now - call.short_since >= std::chrono::milliseconds(options_.timeout_ms)) return false;
    edition.short_calls.push_back(slot);
    call_again_ = now + kShortOfMemory;
    fallbacks_.note("short-of-memory",
                    "calls waited for memory that replies to clients of services lay in; --memory gives more");
    return true;
}

// Those that found no memory, once frames may have come back, and not at every turn, as they read from the beginning.
void Service::call_again(Edition& edition) {
    if (edition.short_calls.empty() || std::chrono::steady_clock::now() < call_again_) return;
    for (const std::uint32_t slot : std::exchange(edition.short_calls, {})) {
        const Request& request = edition.calls[slot].request;
        const auto submitted = edition.engine->submit(request.chain, request.args, slot);
        if (submitted) continue;
        if (submitted.error().kind == engine::SubmitError::Kind::full)
            edition.short_calls.push_back(slot);
        else
            end_call(edition, slot, error_line(request.id, submitted.error().message));
    }
}

// Takes a turn, and does what descriptors ask for.
std::expected<void, std::string> Service::wait(int timeout_ms) {
    waits_->want(signals_, EPOLLIN, key_of(Source::signals, 0));
    // Who cannot be accepted would be told of at every turn.
    const bool short_of = std::chrono::steady_clock::now() < accept_again_;
    if (short_of) timeout_ms = timeout_ms < 0 ? kShortage.count() : std::min<int>(timeout_ms, kShortage.count());
    if (stops_ == 0 && !short_of && clients_.size() < kMostClients)
        waits_->want(control_.fd(), EPOLLIN, key_of(Source::listener, 0));
    for (Edition* edition : {now_.get(), before_.get()}) {
        if (edition == nullptr) continue;
        if (edition->engine->in_flight() == 0 && edition->engine->reads_under_way() == 0) continue;
        waits_->want(edition->engine->poll_fd(), EPOLLIN, key_of(Source::progress, edition->number));
    }
    // What the kernel answers asks for nothing until its loop has ended.
    if (inside_ != nullptr && !inside_->loop().ended())
        waits_->want(inside_->loop().poll_fd(), EPOLLIN, key_of(Source::progress, 0));
    if (preparing_ != nullptr) waits_->want(preparing_->fd(), EPOLLIN, key_of(Source::preparation, 0));
    // Nobody takes what it finds before a reload, or at the end.
    else if (watch_.is_looking() && stops_ == 0)
        waits_->want(watch_.fd(), EPOLLIN | EPOLLET, key_of(Source::look, now_->number));
    if (manager_.keeps()) waits_->want(manager_.fd(), EPOLLOUT, key_of(Source::manager, 0));
    for (const auto& [key, client] : clients_) {
        // While the engine is full, requests wait in the sockets. Who has hung up and is neither read from nor written
        // to is not to be heard of: that would be so at every turn.
        const bool read = stops_ == 0 && client->may_read();
        waits_->want(client->fd(), (read ? EPOLLIN : 0u) | (client->wants_write() ? EPOLLOUT : 0u),
                     key_of(Source::client, key));
    }
    if (const int soon = server_ != nullptr ? server_->flush(timeout_ms == 0) : -1; soon >= 0)
        timeout_ms = timeout_ms < 0 ? soon : std::min(timeout_ms, soon);
    if (!now_->short_calls.empty() || (before_ && !before_->short_calls.empty()))
        timeout_ms = timeout_ms < 0 ? kShortOfMemory.count() : std::min<int>(timeout_ms, kShortOfMemory.count());
    const auto events = waits_->wait(timeout_ms);
    if (!events) return std::unexpected(events.error());
    call_again(*now_);
    if (before_) call_again(*before_);
    for (const epoll_event& event : *events) {
        switch (static_cast<Source>(event.data.u64 >> kSourceShift)) {
            case Source::signals: take_signals(); break;
            case Source::listener: accept_clients(); break;
            case Source::progress:
            case Source::preparation:
            case Source::look: break;
            case Source::manager: manager_.tell_kept(); break;
            case Source::client:
                serve_client(event.data.u64 & ~(~std::uint64_t{0} << kSourceShift), event.events);
                break;
        }
    }
    return {};
}

void Service::take_signals() {
    signalfd_siginfo signal;
    while (read(signals_, &signal, sizeof signal) == sizeof signal) {
        if (signal.ssi_signo == SIGHUP)
            hung_up_ = true;
        else
            stops_++;
    }
}

void Service::serve_client(std::uint64_t key, std::uint32_t events) {
    const auto found = clients_.find(key);
    if (found == clients_.end()) return;
    Client& client = *found->second;
    bool alive = (events & EPOLLERR) == 0;
    if (alive && (events & (EPOLLIN | EPOLLHUP)) != 0 && stops_ == 0 && client.may_read()) alive = client.read_some();
    if (alive && (events & EPOLLOUT) != 0) alive = client.write_some();
    if (!alive) clients_.erase(found);
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

}  // namespace chainio::runtime_tool
