// `bench_kv load`, `serve-…`, `make`, `fill`: the parts of tools/bench kv.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/bench/kv/bench_kv.h"

namespace chainio::bench_kv {

volatile bool g_stop = false;

int bound_socket(const Serve& serve) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(serve.port);
    const int fd = socket(AF_INET, (serve.udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    const int on = 1, room = 4 << 20;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (fd < 0 || inet_pton(AF_INET, serve.address.c_str(), &address.sin_addr) != 1 ||
        bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        (!serve.udp && listen(fd, 1024) != 0)) {
        std::fprintf(stderr, "bench_kv: %s port %u: %s\n", serve.address.c_str(), serve.port, std::strerror(errno));
        return -1;
    }
    return fd;
}

void announce() {
    struct sigaction action{};
    action.sa_handler = [](int) { g_stop = true; };
    sigaction(SIGTERM, &action, nullptr);  // without SA_RESTART: whatever waits returns
    std::puts("serving");
    std::fflush(stdout);
}

}  // namespace chainio::bench_kv

int main(int argc, char** argv) {
    using namespace chainio::bench_kv;
    CLI::App app{"Parts of tools/bench kv", "bench_kv"};
    app.require_subcommand(1);
    int code = 0;
    Load load;
    Serve serve;
    std::string lines;
    const auto items = [](CLI::App* command, Items& of) {
        command->add_option("--items", of.count)->required();
        command->add_option("--value", of.value_bytes)->required()->check(CLI::Range(8u, unsigned{kMostValue}));
    };
    for (const char* name : {"load", "fill"}) {
        auto* command = app.add_subcommand(name);
        items(command, load.items);
        command->add_option("--address", load.address)->required();
        command->add_option("--port", load.port)->required();
        command->add_flag("--udp", load.udp);
        command->add_flag("--echo", load.echo);
        command->add_option("--interface", load.interface);
        command->add_option("--own", load.own);
        command->add_option("--peer-mac", load.peer_mac);
        command->add_option("--hot", load.hot);
        command->add_option("--outstanding", load.outstanding)->check(CLI::Range(1, 1024));
        command->add_option("--seconds", load.seconds);
        command->add_option("--rate", load.rate);
        command->add_option("--seed", load.seed);
        command->callback([&, fill = name[0] == 'f'] { code = fill ? run_fill(load) : run_load(load); });
    }
    const struct {
        const char* name;
        int (*run)(const Serve&);
    } servers[] = {{"serve-pread", serve_pread},
                   {"serve-fixed", serve_fixed},
                   {"serve-memory", serve_memory},
                   {"serve-echo", serve_echo}};
    for (const auto& server : servers) {
        auto* command = app.add_subcommand(server.name);
        items(command, serve.items);
        command->add_option("--address", serve.address)->required();
        command->add_option("--port", serve.port)->required();
        command->add_option("--file", serve.file);
        command->add_option("--interface", serve.interface);
        command->add_option("--spin", serve.spin_us);
        command->add_flag("!--tcp", serve.udp);
        command->callback([&, run = server.run] { code = run(serve); });
    }
    auto* make = app.add_subcommand("make");
    items(make, load.items);
    make->add_option("lines", lines, "for chainio store build")->required();
    make->add_option("flat", serve.file, "an item a block")->required();
    make->callback([&] { code = run_make(lines, serve.file, load.items); });
    CLI11_PARSE(app, argc, argv);
    return code;
}
