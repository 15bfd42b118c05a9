// bench_xdp serve|ping|serve-udp|ping-udp: UDP requests answered, and asked, over AF_XDP or over sockets. Used by
// tools/bench xdp and tests/e2e/xdp_*.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstring>
#include <exception>

#include "tests/bench/xdp/bench_xdp.h"

namespace chainio::bench {
namespace {

std::atomic<bool> stop_asked{false};

}  // namespace

bool stopped() { return stop_asked.load(std::memory_order_relaxed); }

void stop_on_signals() {
    struct sigaction action{};
    action.sa_handler = [](int) { stop_asked.store(true, std::memory_order_relaxed); };
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
}

void write_payload(std::uint8_t* payload, std::size_t bytes, std::uint64_t serial) {
    payload[0] = 'E';
    std::memset(payload + 1, static_cast<int>(serial & 0xff), bytes - 1);
    std::memcpy(payload + 1, &serial, sizeof serial);
}

bool payload_is_right(const std::uint8_t* payload, std::size_t bytes, std::size_t expected) {
    if (bytes != expected || payload[0] != 'E') return false;
    std::uint64_t serial = 0;
    std::memcpy(&serial, payload + 1, sizeof serial);
    for (std::size_t at = 1 + sizeof serial; at < bytes; at++) {
        if (payload[at] != static_cast<std::uint8_t>(serial)) return false;
    }
    return true;
}

int print_pings(std::uint64_t answers, std::uint64_t wrong, double seconds, const std::vector<float>& times) {
    std::vector<float> sorted = times;
    std::ranges::sort(sorted);
    const auto at = [&](double share) {
        return sorted.empty() ? 0.0
                              : sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))] * 1e6;
    };
    fmt::print("{{\"answers\": {}, \"wrong\": {}, \"seconds\": {:.6f}, \"p50_us\": {:.3f}, \"p99_us\": {:.3f}}}\n",
               answers, wrong, seconds, at(0.5), at(0.99));
    return wrong == 0 && answers > 0 ? 0 : 1;
}

}  // namespace chainio::bench

int main(int argc, char** argv) {
    using namespace chainio;
    bench::Options options;
    std::string attach = "automatic", copy = "automatic";
    bool single_buffer = false;
    CLI::App app{"UDP requests over AF_XDP and over sockets", "bench_xdp"};
    app.require_subcommand(1);
    app.fallthrough();
    CLI::App* serve = app.add_subcommand("serve", "answers over AF_XDP");
    CLI::App* ping = app.add_subcommand("ping", "asks over AF_XDP");
    CLI::App* serve_udp = app.add_subcommand("serve-udp", "answers over recvmmsg");
    CLI::App* ping_udp = app.add_subcommand("ping-udp", "asks over sendmmsg");
    app.add_option("--interface", options.port.interface);
    app.add_option("--port", options.port.ports, "UDP ports to take")->allow_extra_args(false)->take_all();
    app.add_option("--queues", options.port.queues);
    app.add_option("--entries", options.port.entries);
    app.add_option("--attach", attach)->check(CLI::IsMember({"automatic", "native", "generic"}));
    app.add_option("--copy", copy)->check(CLI::IsMember({"automatic", "copy", "zero-copy"}));
    app.add_flag("--single-buffer", single_buffer);
    app.add_option("--file", options.file, "serve: what 'R' requests read");
    app.add_flag("--worker", options.worker, "serve: another process makes the answers");
    app.add_option("--own", options.own, "ping: 10.0.0.1:port; serve-udp: where to listen");
    app.add_option("--peer", options.peer, "ping: 10.0.0.2:port");
    app.add_option("--peer-mac", options.peer_mac, "ping");
    app.add_option("--seconds", options.seconds);
    app.add_option("--outstanding", options.outstanding)->check(CLI::Range(1, 512));
    app.add_option("--bytes", options.bytes)->check(CLI::Range(16, 1400));
    CLI11_PARSE(app, argc, argv);
    options.port.attach = attach == "native"    ? net::Attach::native
                          : attach == "generic" ? net::Attach::generic
                                                : net::Attach::automatic;
    options.port.copy = copy == "copy"        ? net::Copy::copy
                        : copy == "zero-copy" ? net::Copy::zero_copy
                                              : net::Copy::automatic;
    options.port.multi_buffer = !single_buffer;
    bench::stop_on_signals();
    try {
        if (serve->parsed()) return bench::serve(options);
        if (ping->parsed()) return bench::ping_xdp(options);
        if (serve_udp->parsed()) return bench::serve_udp(options);
        if (ping_udp->parsed()) return bench::ping_udp(options);
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_xdp: {}\n", error.what());
    }
    return 3;
}
