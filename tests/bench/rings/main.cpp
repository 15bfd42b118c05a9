// `bench_rings load`, `fill`, `serve-echo`: the parts of tools/bench rings.
#include <CLI/CLI.hpp>

#include "tests/bench/rings/bench_rings.h"

namespace {

using chainio::bench_rings::Load;

void add_load(CLI::App& command, Load& load) {
    command.add_option("--way", load.way)
        ->required()
        ->check(CLI::IsMember({"ring", "unix", "tcp", "udp", "pread", "uring"}));
    command.add_option("--asks", load.asks)->required()->check(CLI::IsMember({"memcached", "redis", "fixed", "value"}));
    command.add_option("--path", load.path);
    command.add_option("--port", load.port);
    command.add_option("--items", load.items.count)->check(CLI::Range(1, 100'000'000));
    command.add_option("--value", load.items.value_bytes)->check(CLI::Range(1, 1400));
    command.add_option("--hot", load.hot);
    command.add_option("--outstanding", load.outstanding)->check(CLI::Range(1, 512));
    command.add_option("--connections", load.connections)->check(CLI::Range(1, 512));
    command.add_option("--threads", load.threads)->check(CLI::Range(1, 512));
    command.add_option("--seconds", load.seconds);
    command.add_option("--spin", load.spin_us);
    command.add_option("--seed", load.seed);
    command.add_option("--server", load.server);
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"The parts of tools/bench rings."};
    app.require_subcommand(1);
    Load load;
    chainio::bench_rings::Serve serve;
    int code = 0;
    auto* asks = app.add_subcommand("load", "asks for a while, and prints what it took");
    add_load(*asks, load);
    asks->callback([&] { code = run_load(load); });
    auto* fills = app.add_subcommand("fill", "sets all items");
    add_load(*fills, load);
    fills->callback([&] { code = run_fill(load); });
    auto* echo = app.add_subcommand("serve-echo", "answers as rings.chain does, over a Unix socket");
    echo->add_option("path", serve.path)->required();
    echo->add_option("--spin", serve.spin_us);
    echo->callback([&] { code = serve_echo(serve); });
    CLI11_PARSE(app, argc, argv);
    return code;
}
