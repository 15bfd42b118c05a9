#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/bench/inkernel/counts.h"
#include "tests/bench/inkernel/requests.h"
#include "tests/bench/inkernel/tree.h"
#include "tests/bench/lookup/contender.h"
#include "tests/bench/lookup/os.h"

namespace chainio::bench {
namespace {

constexpr std::size_t kValue = 32;

// What this thread has executed: the clock counts instructions.
std::uint64_t own_instructions() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

std::filesystem::path tasks_of(pid_t server) { return "/proc/" + std::to_string(server) + "/task"; }

std::uint64_t sleeps_of(pid_t server) {
    std::uint64_t sum = 0;
    for (const auto& task : std::filesystem::directory_iterator(tasks_of(server))) {
        std::ifstream status(task.path() / "status");
        for (std::string word; status >> word;) {
            std::uint64_t count = 0;
            if (word == "voluntary_ctxt_switches:" && status >> count) sum += count;
        }
    }
    return sum;
}

// The connections to a server, each of which waits for one reply at a time.
class Clients {
  public:
    Clients(const Clients&) = delete;
    Clients& operator=(const Clients&) = delete;
    Clients() = default;
    ~Clients() {
        for (const int fd : fds_) ::close(fd);
    }
    std::expected<void, std::string> connect(std::uint16_t port, unsigned count);
    // One request of each, then one reply of each; how many replies were others than they have to be.
    std::uint64_t ask(std::span<const std::uint64_t> ranks) const;
    std::size_t size() const { return fds_.size(); }

  private:
    std::vector<int> fds_;
};

std::expected<void, std::string> Clients::connect(std::uint16_t port, unsigned count) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    for (unsigned i = 0; i < count; i++) {
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0) fds_.push_back(fd);
        if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
            return std::unexpected(errno_text("connect"));
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return {};
}

std::uint64_t Clients::ask(std::span<const std::uint64_t> ranks) const {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < fds_.size(); i++) {
        const std::uint64_t key = tree_key(ranks[i]);
        wrong += ::send(fds_[i], &key, sizeof key, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof key);
    }
    for (std::size_t i = 0; i < fds_.size(); i++) {
        std::array<std::uint8_t, kValue> value{};
        const ssize_t got = ::recv(fds_[i], value.data(), value.size(), MSG_WAITALL);
        wrong += got != static_cast<ssize_t>(kValue) || hash_value(value) != tree_value_hash(ranks[i]);
    }
    return wrong;
}

struct Round {
    double instructions = 0, syscalls = 0, switches = 0;  // a request's
    std::uint64_t wrong = 0;
};

// The system calls of a server's threads; of none when they are not counted.
std::expected<std::vector<SyscallCount>, std::string> calls_of(pid_t server, bool counted) {
    std::vector<SyscallCount> calls;
    if (!counted) return calls;
    for (const auto& task : std::filesystem::directory_iterator(tasks_of(server))) {
        auto count = SyscallCount::start(static_cast<pid_t>(std::stol(task.path().filename())));
        if (!count) return std::unexpected(count.error());
        calls.push_back(std::move(*count));
    }
    return calls;
}

std::expected<Round, std::string> run_round(const Asking& asking, const Clients& clients,
                                            std::span<const std::uint64_t> ranks, const IdleTime& idle, bool counted) {
    const auto calls = calls_of(asking.server, counted);
    if (!calls) return std::unexpected(calls.error());
    // What was set up before leaves something to be freed.
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    const std::uint64_t slept = sleeps_of(asking.server);
    Meter meter(idle, nullptr);
    Round round;
    const std::uint64_t own = own_instructions();
    meter.begin();
    for (std::size_t at = 0; at < ranks.size(); at += clients.size())
        round.wrong += clients.ask(ranks.subspan(at, clients.size()));
    meter.end();
    const auto each = static_cast<double>(ranks.size());
    round.instructions = static_cast<double>(meter.counts().instructions - (own_instructions() - own)) / each;
    round.switches = static_cast<double>(sleeps_of(asking.server) - slept) / each;
    for (const SyscallCount& count : *calls) round.syscalls += static_cast<double>(count.read()) / each;
    return round;
}

}  // namespace

std::expected<void, std::string> ask_for_keys(const Asking& asking) {
    const auto idle = IdleTime::start();
    if (!idle) return std::unexpected(idle.error());
    if (const std::string wrong = clock_obstacle(**idle); !wrong.empty()) return std::unexpected(wrong);
    std::mt19937_64 random(1);
    for (const unsigned connections : asking.connections) {
        Clients clients;
        if (auto connected = clients.connect(asking.port, connections); !connected) return connected;
        std::vector<std::uint64_t> ranks((asking.requests + connections - 1) / connections * connections);
        nlohmann::json instructions = nlohmann::json::array();
        std::uint64_t wrong = 0;
        Round round;
        for (unsigned i = 0; i <= asking.rounds; i++) {
            for (auto& rank : ranks) rank = random() % shape_of(asking.depth).keys();
            if (i == 0) wrong += clients.ask(ranks);  // what is done once
            auto ran = run_round(asking, clients, ranks, **idle, i == asking.rounds);
            if (!ran) return std::unexpected(ran.error());
            round = *ran;
            wrong += round.wrong;
            if (i != asking.rounds) instructions.push_back(round.instructions);
        }
        const nlohmann::json line = {{"connections", connections},
                                     {"instructions", instructions},
                                     {"syscalls", round.syscalls},
                                     {"switches", round.switches},
                                     {"requests", ranks.size() * (asking.rounds + 1)},
                                     {"wrong", wrong}};
        std::printf("%s\n", line.dump().c_str());
        std::fflush(stdout);
    }
    return {};
}

}  // namespace chainio::bench
