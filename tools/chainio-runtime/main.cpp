// `chainio-runtime --spec app.bpf.o`: says what it would run with which engine and why, and serves call requests.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "runtime/net/interface.h"
#include "runtime/service/listen.h"
#include "tools/chainio-runtime/check_system.h"
#include "tools/chainio-runtime/plan.h"
#include "tools/chainio-runtime/say.h"
#include "tools/chainio-runtime/serve.h"
#include "tools/chainio/named.h"
#include "tools/chainio/parse_end.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/sizes.h"
#include "tools/chainio/standard_files.h"
#include "tools/chainio/summary.h"
#include "tools/chainio/whole.h"
#include "tools/chainio/words.h"

namespace chainio::runtime_tool {
namespace {

// An interface may have further names (altname). One that is not there yet is known by its name alone.
std::string given_twice(const std::vector<std::string>& interfaces) {
    std::map<unsigned, std::string> names;
    for (auto it = interfaces.begin(); it != interfaces.end(); ++it) {
        if (std::find(interfaces.begin(), it, *it) != it)
            return fmt::format("--interface is given twice for '{}'; keep one of the two", *it);
        const auto found = net::find_interface(*it);
        if (!found) continue;
        if (const auto [there, first] = names.emplace(found->index, *it); !first)
            return fmt::format("--interface is given twice for '{}', as '{}' and as '{}'; keep one of the two",
                               found->device, there->second, *it);
    }
    return {};
}

// What has nothing to do with the machine would be taken for checked.
std::string not_checked(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
        const std::string name = option->get_name();
        if (option->count() != 0 && name != "--check-system" && name != "--interface" && name != "--json")
            names.push_back(name);
    }
    if (names.empty()) return {};
    return fmt::format(
        "--check-system looks at the machine, and at each --interface: it goes not with {}; `--check` "
        "looks at a spec and what is given with it",
        fmt::join(names, ", "));
}

constexpr std::uint64_t kMostSpin = 1'000'000;  // us

// What --socket-mode and --rings-mode take: a file's mode, as chmod has it. It becomes the number in decimals.
std::string mode_of(std::string& text) {
    const bool octal = !text.empty() && text.size() <= 4 && text.find_first_not_of("01234567") == std::string::npos;
    const unsigned long mode = octal ? std::stoul(text, nullptr, 8) : ULONG_MAX;
    if (mode > 0777) return fmt::format("'{}' is no mode of a file, 0 to 777 in octal", diag::escaped(text));
    text = std::to_string(mode);
    return {};
}

// What --spin takes, as take_spin() reads it.
std::string spin_of(std::string& text) {
    if (text == "auto") return {};
    const auto us = tool::parse_whole(text);
    if (!us || *us > kMostSpin)
        return fmt::format("'{}' is neither `auto` nor 0 to {} microseconds", diag::escaped(text), kMostSpin);
    text = std::to_string(*us);
    return {};
}

void take_spin(Options& options, const std::string& text) {
    constexpr unsigned kAutoUs = 50;  // a processor of a virtual machine takes as long to wake up
    options.spin_auto = text == "auto";
    options.spin_us = kAutoUs;
    if (!options.spin_auto) CLI::detail::lexical_cast(text, options.spin_us);  // what it has checked
}

void add_sockets(CLI::App& app, Options& options) {
    app.add_option("--socket", options.socket, "serve call requests, one JSON object a line, at this path")
        ->check(tool::no_name);
    const auto mode = CLI::Validator(mode_of, "OCTAL");
    app.add_option("--socket-mode", options.socket_mode, "who may connect there, as chmod has it (600)")
        ->transform(mode);
    app.add_option("--rings", options.rings, "serve requests by shared memory to who comes to this path")
        ->check(tool::no_name);
    app.add_option("--rings-mode", options.rings_mode, "who may come there, as chmod has it (600)")->transform(mode);
}

void add_interfaces(CLI::App& app, Options& options) {
    app.add_option("--interface", options.server.interfaces, "take the datagrams of `via xdp` off this interface")
        ->check(tool::no_name)
        ->allow_extra_args(false)
        ->take_all();
    app.add_option("--xdp-copy", options.xdp_copy, "what AF_XDP is to do with packets")
        ->check(CLI::IsMember({"automatic", "copy", "zero-copy"}))
        ->capture_default_str();
    app.add_option("--xdp-attach", options.xdp_attach, "where the XDP program runs: in the driver, or behind it")
        ->check(CLI::IsMember({"automatic", "native", "generic"}))
        ->capture_default_str();
    app.add_flag("--xdp-share", options.server.share,
                 "let XDP programs of others come to the interfaces, by libxdp's dispatcher");
}

int run(const Options& options) {
    if (options.check_system) {
        const auto facts = check_system(options.server.interfaces);
        tool::print_out("{}{}", options.json ? facts_json(facts) : facts_text(facts), options.json ? "\n" : "");
        return tool::printed("chainio-runtime", can_serve(facts) ? kExitOk : kExitSystem);
    }
    if (options.spec.empty()) return fail(kExitUsage, "--spec ARTIFACT is wanted (or --check-system)");
    const bool kernel = options.engine == "kernel";
    if (kernel && (options.no_ring || options.interpret))
        return fail(kExitUsage, "--engine=kernel goes neither with --no-ring nor with --interpret");
    if (options.spin_auto && kernel)
        return fail(kExitUsage, "--spin auto goes not with --engine=kernel: say how many microseconds");
    if (options.spin_us != 0 && options.no_ring)
        return fail(kExitUsage, "--spin goes not with --no-ring: a pread sleeps at once");
    if (const std::string twice = given_twice(options.server.interfaces); !twice.empty())
        return fail(kExitUsage, twice);
    // As given: what interfaces take comes on top of it.
    if (const std::string wrong = engine::wrong_options({.in_flight = options.in_flight, .umem_bytes = options.memory});
        !wrong.empty())
        return fail(kExitUsage, wrong);
    auto loaded = load(options);
    if (!loaded) return fail(loaded.error().code, loaded.error().message);
    metrics::Fallbacks fallbacks;
    // Where there is none, that matters only if something needs it, and is said then.
    auto ring = make_ring(options, (*loaded)->module(), fallbacks);
    auto edition = make_edition(options, *loaded, ring ? ring->get() : nullptr);
    if (!edition) return fail(edition.error().code, edition.error().message);

    if (options.check) {
        if (auto looked = look_at_given(options, **edition); !looked)
            return fail(looked.error().code, looked.error().message);
    }

    // The table's last line has the reason once, and JSON has no such line.
    const std::string chosen = options.json ? (*edition)->engine->choice() : "auto: the last line says why";
    const std::string why = kernel ? "kernel engine (as asked)"
                                   : fmt::format("user engine ({})", tries(options) ? chosen : why_untried(options));
    const std::string no_ring = ring ? std::string() : ring.error();
    const auto rows = plan_of(**edition, why, (*edition)->engine->choosing(), no_ring);
    if (options.json) {
        tool::print_out("{}\n", plan_json(rows));
    } else {
        tool::print_out("{}{}\n", plan_text(rows), (*edition)->engine->describe());
    }
    if (options.check) {
        say(tool::fallbacks_text((*edition)->engine->fallbacks()) + tool::fallbacks_text(fallbacks));
        return tool::printed("chainio-runtime", kExitOk);
    }
    tool::flush_printed();
    return serve(options, std::move(fallbacks), ring ? std::move(*ring) : nullptr, std::move(*edition));
}

}  // namespace
}  // namespace chainio::runtime_tool

int main(int argc, char** argv) {
    if (!chainio::tool::hold_standard_files("chainio-runtime")) return chainio::runtime_tool::kExitSystem;
    try {
        chainio::runtime_tool::Options options;
        CLI::App app{"Says what an artifact's parts run with, and serves its call chains over a Unix socket.",
                     "chainio-runtime"};
        app.set_version_flag("--version", std::string("chainio-runtime ") + CHAINIO_VERSION);
        app.add_option("--spec", options.spec, "what chainc -o wrote")->check(chainio::tool::no_name);
        app.add_flag("--check", options.check, "print what would run, and exit");
        app.add_flag("--check-system", options.check_system, "print what this machine offers, and exit");
        chainio::runtime_tool::add_sockets(app, options);
        app.add_option("--file", options.files, "open a file for the service: CLASS=PATH")
            ->allow_extra_args(false)
            ->take_all();
        app.add_option("--in-flight", options.in_flight, "chains at once")
            ->transform(chainio::tool::Whole(1, 65536))
            ->capture_default_str();
        app.add_option("--bind", options.server.address, "address that the spec's services listen at")
            ->check(CLI::Validator(chainio::service::wrong_address, ""))
            ->capture_default_str();
        app.add_option("--port", options.ports, "another port for a service: SERVICE=PORT; 0 lets the kernel choose")
            ->allow_extra_args(false)
            ->take_all();
        app.add_option("--connections", options.server.connections, "connections of services at once")
            ->transform(chainio::tool::Whole(1, 65536))
            ->capture_default_str();
        app.add_option("--requests", options.server.requests, "requests of services that run at once")
            ->transform(chainio::tool::Whole(1, 65535))
            ->capture_default_str();
        app.add_option("--waiting", options.server.waiting, "requests that wait for their turn; more are shed")
            ->transform(chainio::tool::Whole(1, 65536))
            ->capture_default_str();
        app.add_option("--request-bytes", options.server.request_bytes, "longest request, over tcp or in a datagram")
            ->transform(chainio::tool::Whole(1, 65536))
            ->capture_default_str();
        app.add_option("--datagram-bytes", options.server.datagram_bytes,
                       "longest datagram of a reply that is cut into several")
            ->transform(chainio::tool::Whole(256, 65507))
            ->capture_default_str();
        chainio::runtime_tool::add_interfaces(app, options);
        app.add_option("--timeout", options.timeout_ms,
                       "milliseconds for the rest of a request, and for a client to take a reply")
            ->transform(chainio::tool::Whole(1, 3'600'000))
            ->capture_default_str();
        app.add_option("--idle", options.idle_ms,
                       "milliseconds after which a tcp connection on which nothing is asked is closed; 0: never")
            ->transform(chainio::tool::Whole(0, 86'400'000))
            ->capture_default_str();
        app.add_option("--memory", options.memory, "bytes for blocks, 256 KiB and more")
            ->transform(chainio::tool::Size());
        app.add_option("--engine", options.engine, "user, kernel, or auto: user until kernel was tried and no worse")
            ->check(CLI::IsMember({"auto", "user", "kernel"}));
        app.add_option_function<std::string>(
               "--spin", [&options](const std::string& text) { chainio::runtime_tool::take_spin(options, text); },
               "microseconds that it looks for completions and requests before it sleeps; auto: 50 where that pays")
            ->transform(CLI::Validator(chainio::runtime_tool::spin_of, "auto or INT in [0 - 1000000]"));
        app.add_option("--zero-copy", options.zero_copy,
                       "over tcp, results of that many bytes and more are sent without a copy (49152); inside the "
                       "kernel, replies (16384); 0: none")
            ->transform(chainio::tool::Whole(0, 65536));
        app.add_flag("--interpret", options.interpret, "run steps by the IR interpreter");
        app.add_flag("--no-ring", options.no_ring, "read by plain preads instead of io_uring");
        app.add_flag("--json", options.json, "print tables as JSON");
        app.footer(
            "Request: {\"id\": 1, \"chain\": \"lookup\", \"args\": {\"db\": \"main.db\", \"key\": 42}}, answers come "
            "as chains end;\n"
            "{\"op\": \"stats\"} answers with counters, {\"op\": \"reload\"} does what SIGHUP does, "
            "{\"op\": \"invalidate\"} forgets replies that drivers keep.\n"
            "The spec's services that this version has the engine for are served as well. SIGTERM ends the service "
            "after what it has taken on; SIGHUP has the artifact and the "
            "files opened anew.");
        try {
            app.parse(chainio::tool::for_parser(app, argc, argv));
        } catch (const CLI::ParseError& error) {
            return chainio::tool::parse_end(app, error);
        }
        if (options.check_system) {
            if (const std::string wrong = chainio::runtime_tool::not_checked(app); !wrong.empty())
                return chainio::runtime_tool::fail(chainio::runtime_tool::kExitUsage, wrong);
        }
        return chainio::runtime_tool::run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "chainio-runtime: %s\n", chainio::tool::in_words(error));
        return 3;
    }
}
