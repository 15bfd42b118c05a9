// bench_http_load --port P --files N --bytes B --connections C --seed S: asks a web server for every file /f0 to /fN-1
// once, in a random order, over C connections that stay open, and compares every body. Prints one JSON object.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

struct Options {
    std::uint16_t port = 0;
    unsigned files = 1, connections = 1;
    std::size_t bytes = 0;
    std::uint64_t seed = 1;
    std::string make;
};

// What file `number` holds.
std::string body_of(unsigned number, std::size_t bytes) {
    std::string body(bytes, '\0');
    std::uint64_t state = number * 0x9e3779b97f4a7c15 + 1;
    for (std::size_t at = 0; at < bytes; ++at) {
        if (at % 8 == 0) state = state * 6364136223846793005 + 1442695040888963407;
        body[at] = static_cast<char>(state >> (8 * (at % 8)));
    }
    return body;
}

struct Connection {
    int fd = -1;
    unsigned file = 0;
    std::string got;
    std::size_t wanted = 0;  // head and body, once the head is there
    std::size_t head = 0;
    std::chrono::steady_clock::time_point asked;
};

class Load {
  public:
    explicit Load(const Options& options)
        : options_(options), order_(options.files), poll_(::epoll_create1(EPOLL_CLOEXEC)) {
        std::iota(order_.begin(), order_.end(), 0U);
        std::shuffle(order_.begin(), order_.end(), std::mt19937_64(options.seed));
        connections_.resize(options.connections);
    }
    int run();

  private:
    bool connect(Connection& connection);
    void ask(Connection& connection);
    void receive(Connection& connection);
    bool whole(Connection& connection);

    Options options_;
    std::vector<unsigned> order_;
    std::vector<Connection> connections_;
    std::vector<double> took_us_;
    std::size_t next_ = 0;
    unsigned done_ = 0, wrong_ = 0;
    int poll_;
};

bool Load::connect(Connection& connection) {
    connection.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(options_.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(connection.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
    epoll_event event = {.events = EPOLLIN, .data = {.ptr = &connection}};
    return ::epoll_ctl(poll_, EPOLL_CTL_ADD, connection.fd, &event) == 0;
}

void Load::ask(Connection& connection) {
    if (next_ >= order_.size()) return;
    connection.file = order_[next_++];
    connection.got.clear();
    connection.wanted = 0;
    connection.asked = std::chrono::steady_clock::now();
    const std::string request = "GET /f" + std::to_string(connection.file) + " HTTP/1.1\r\nHost: x\r\n\r\n";
    if (::send(connection.fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) ++wrong_;
}

bool Load::whole(Connection& connection) {
    if (connection.wanted == 0) {
        const std::size_t end = connection.got.find("\r\n\r\n");
        if (end == std::string::npos) return false;
        const std::size_t length = connection.got.find("Content-Length: ");
        std::size_t bytes = 0;
        if (length < end) std::from_chars(connection.got.data() + length + 16, connection.got.data() + end, bytes);
        connection.head = end + 4;
        connection.wanted = connection.head + bytes;
    }
    return connection.got.size() >= connection.wanted;
}

void Load::receive(Connection& connection) {
    char block[65536];
    const ssize_t got = ::recv(connection.fd, block, sizeof block, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        ++wrong_;
        ++done_;
        ::close(connection.fd);
        if (connect(connection)) ask(connection);
        return;
    }
    connection.got.append(block, static_cast<std::size_t>(got));
    if (!whole(connection)) return;
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - connection.asked;
    took_us_.push_back(took.count());
    ++done_;
    if (!connection.got.starts_with("HTTP/1.1 200 ") ||
        connection.got.compare(connection.head, std::string::npos, body_of(connection.file, options_.bytes)) != 0)
        ++wrong_;
    ask(connection);
}

int Load::run() {
    for (Connection& connection : connections_) {
        if (!connect(connection)) return std::perror("bench_http_load: connect"), 1;
    }
    const auto begin = std::chrono::steady_clock::now();
    for (Connection& connection : connections_) ask(connection);
    while (done_ < options_.files) {
        epoll_event ready[64];
        const int count = ::epoll_wait(poll_, ready, 64, 30'000);
        if (count == 0) return std::fputs("bench_http_load: no answer for 30 s\n", stderr), 1;
        for (int i = 0; i < count; ++i) receive(*static_cast<Connection*>(ready[i].data.ptr));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::sort(took_us_.begin(), took_us_.end());
    const auto at = [&](double part) {
        return took_us_.empty() ? 0
                                : took_us_[static_cast<std::size_t>(part * static_cast<double>(took_us_.size() - 1))];
    };
    std::printf("{\"requests\": %u, \"wrong\": %u, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", done_,
                wrong_, took.count(), at(0.5), at(0.99));
    return wrong_ == 0 ? 0 : 1;
}

int make_files(const Options& options) {
    for (unsigned i = 0; i < options.files; ++i) {
        std::FILE* file = std::fopen((options.make + "/f" + std::to_string(i)).c_str(), "wbe");
        const std::string body = body_of(i, options.bytes);
        if (!file || std::fwrite(body.data(), 1, body.size(), file) != body.size() || std::fclose(file) != 0)
            return std::perror("bench_http_load"), 1;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Asks a web server for files and compares them");
    Options options;
    app.add_option("--port", options.port);
    app.add_option("--files", options.files)->required();
    app.add_option("--bytes", options.bytes)->required();
    app.add_option("--connections", options.connections);
    app.add_option("--seed", options.seed);
    app.add_option("--make", options.make, "instead: write the files into this folder");
    CLI11_PARSE(app, argc, argv);
    return options.make.empty() ? Load(options).run() : make_files(options);
}
