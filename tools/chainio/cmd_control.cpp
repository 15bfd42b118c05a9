// `chainio control SOCKET stats|reload|invalidate`: asks a running chainio-runtime.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <expected>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/diag/utf8.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/whole.h"

namespace chainio::tool {
namespace {

// Of an answer: those with all that can be counted are far shorter.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
// Of an answer that cannot be understood.
constexpr std::size_t kMostShown = 300;

struct ControlGiven {
    std::string path, op;
    unsigned timeout_s = 60;
};

class Socket {
  public:
    explicit Socket(int fd) : fd_(fd) {}
    ~Socket() {
        if (fd_ >= 0) close(fd_);
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    int get() const { return fd_; }

  private:
    int fd_;
};

// Until when an answer is waited for, however many pieces it comes in.
class Deadline {
  public:
    explicit Deadline(unsigned seconds) : at_(Clock::now() + std::chrono::seconds(seconds)) {}
    int left_ms() const {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
        return static_cast<int>(std::max(left, decltype(left){0}));
    }

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point at_;
};

// The answer's line; the error says what to look at.
std::expected<std::string, std::string> ask(const ControlGiven& parsed) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (parsed.path.size() >= sizeof address.sun_path)
        return std::unexpected(fmt::format("'{}' is too long for the path of a socket", parsed.path));
    std::memcpy(address.sun_path, parsed.path.data(), parsed.path.size());
    const std::string late = fmt::format("'{}' has not answered within {} s", parsed.path, parsed.timeout_s);
    const Deadline deadline(parsed.timeout_s);
    const Socket peer(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // Also for who waits in vain to be let in, behind others whom a daemon that is stopped has not taken.
    const timeval limit{static_cast<time_t>(parsed.timeout_s), 0};
    setsockopt(peer.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (peer.get() < 0 || connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        if (errno == EAGAIN) return std::unexpected(late);
        if (errno == EACCES)
            return std::unexpected(
                fmt::format("this user may not ask at '{}': {}; be the user that started chainio-runtime, or root",
                            parsed.path, std::strerror(errno)));
        return std::unexpected(fmt::format("nobody answers at '{}': {}; is it what chainio-runtime got as --socket?",
                                           parsed.path, std::strerror(errno)));
    }
    const std::string request = fmt::format("{{\"op\": \"{}\"}}\n", parsed.op);
    if (send(peer.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
        return std::unexpected(fmt::format("'{}': {}", parsed.path, std::strerror(errno)));
    std::string answer;
    while (!answer.ends_with('\n')) {
        pollfd ready{peer.get(), POLLIN, 0};
        char buffer[4096];
        const int polled = poll(&ready, 1, deadline.left_ms());
        if (polled == 0) return std::unexpected(late);
        const ssize_t got = polled < 0 ? -1 : recv(peer.get(), buffer, sizeof buffer, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return std::unexpected(fmt::format("'{}' closed without an answer", parsed.path));
        answer.append(buffer, static_cast<std::size_t>(got));
        if (answer.size() > kMostBytes)
            return std::unexpected(fmt::format("'{}' answers without an end; no chainio-runtime does", parsed.path));
    }
    answer.pop_back();
    return answer;
}

// What others have named, as paths in an error of the daemon, may hold any byte.
int refused(int code, const std::string& message) {
    say("chainio control: {}\n", diag::escaped(message));
    return code;
}

int control(const ControlGiven& parsed) {
    const auto answer = ask(parsed);
    if (!answer) return refused(kExitSystem, answer.error());
    auto json = nlohmann::ordered_json::parse(*answer, nullptr, false);
    const bool is_error = json.is_object() && json.contains("error");
    if (!json.is_object() || (is_error && !json["error"].is_string()))
        return refused(kExitFailed, "no chainio-runtime answers so: " + answer->substr(0, kMostShown));
    if (is_error) {
        const bool goes_on = json.contains("edition") && json["edition"].is_number_unsigned();
        return refused(
            kExitFailed,
            json["error"].get<std::string>() +
                (goes_on ? fmt::format("; edition {} goes on", json["edition"].get<std::uint64_t>()) : std::string()));
    }
    json.erase("id");
    print_out(
        "{}\n",
        (json.contains("stats") ? json["stats"] : json).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kExitOk;
}

}  // namespace

void add_control(CLI::App& root, int& exit_code) {
    auto parsed = std::make_shared<ControlGiven>();
    auto* command =
        root.add_subcommand("control", "Ask a running chainio-runtime for its counters, to reload, or to forget");
    command->add_option("socket", parsed->path, "what it got as --socket")->required();
    command
        ->add_option("op", parsed->op,
                     "stats: print its counters; reload: open its artifact and files anew; invalidate: forget the "
                     "replies that drivers "
                     "keep, and see whether files are others")
        ->required()
        ->check(CLI::IsMember({"stats", "reload", "invalidate"}));
    command->add_option("--timeout", parsed->timeout_s, "seconds to wait for the answer")
        ->transform(Whole(1, 86400))
        ->capture_default_str();
    command->callback([parsed, &exit_code] { exit_code = control(*parsed); });
}

}  // namespace chainio::tool
