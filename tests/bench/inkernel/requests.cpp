// bench_inkernel_requests write|serve|ask …: what tests/bench/inkernel/services measures services with.
#include "tests/bench/inkernel/requests.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/bench/inkernel/tree.h"

int main(int argc, char** argv) {
    std::string path;
    unsigned depth = 6;
    chainio::bench::Asking asking;
    CLI::App app("Requests that look keys up in a tree");
    app.require_subcommand(1);
    CLI::App* write = app.add_subcommand("write", "Writes the tree");
    write->add_option("path", path, "of a file or a disk, which is overwritten")->required();
    write->add_option("--depth", depth, "reads of a lookup")->check(CLI::Range(2, 16));
    CLI::App* serve = app.add_subcommand("serve", "Answers requests by preads, and prints its port first");
    serve->add_option("path", path)->required();
    CLI::App* ask =
        app.add_subcommand("ask", "Asks a server, and prints what a request cost the machine besides asking");
    ask->add_option("--port", asking.port)->required();
    ask->add_option("--server", asking.server, "its process")->required();
    ask->add_option("--depth", asking.depth, "of the tree")->check(CLI::Range(2, 16));
    ask->add_option("--connections", asking.connections)->required()->delimiter(',')->check(CLI::Range(1, 256));
    ask->add_option("--requests", asking.requests, "of a round")->capture_default_str();
    ask->add_option("--rounds", asking.rounds, "besides the one that counts system calls")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        const auto done = write->parsed()   ? chainio::bench::write_tree(path, chainio::bench::shape_of(depth))
                          : serve->parsed() ? chainio::bench::serve_by_preads(path)
                                            : chainio::bench::ask_for_keys(asking);
        if (!done) std::fprintf(stderr, "bench_inkernel_requests: %s\n", done.error().c_str());
        return done ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_inkernel_requests: %s\n", error.what());
        return 3;
    }
}
