// `chainio-runtime --spec app.bpf.o`: says what it would run with which engine and why, and serves call requests.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "tools/chainio-runtime/check_system.h"
#include "tools/chainio-runtime/plan.h"
#include "tools/chainio-runtime/service.h"
#include "tools/chainio/call_args.h"
#include "tools/chainio/summary.h"

namespace chainio::runtime_tool {
namespace {

constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitSystem = 3;

struct Options {
    std::string spec, socket, engine = "auto";
    std::vector<std::string> files;
    unsigned in_flight = 64;
    std::uint64_t memory = 0;
    bool check = false, check_system = false, json = false, interpret = false, no_ring = false;
};

int fail(int code, const std::string& message) {
    fmt::print(stderr, "chainio-runtime: {}\n", message);
    return code;
}

std::expected<std::vector<OpenFile>, int> open_files(const Options& options, engine::Engine& engine) {
    std::vector<OpenFile> files;
    std::vector<std::string> names;
    for (const auto& file : engine.spec().module().files) names.push_back(file.name);
    for (const std::string& pair : options.files) {
        const std::size_t equals = pair.find('=');
        if (equals == std::string::npos)
            return std::unexpected(fail(kExitUsage, fmt::format("--file wants CLASS=PATH, not '{}'", pair)));
        const std::string name = pair.substr(0, equals), path = pair.substr(equals + 1);
        const auto index = engine.spec().find_file_class(name);
        if (!index) {
            return std::unexpected(fail(kExitUsage, fmt::format("there is no file class '{}'{}", name,
                                                                tool::suggestion(name, names, "file classes"))));
        }
        auto handle = engine.open_file(*index, path);
        if (!handle)
            return std::unexpected(fail(handle.error().system ? kExitSystem : kExitFailed, handle.error().message));
        files.push_back({path, path.substr(path.rfind('/') + 1), *index, *handle});
    }
    return files;
}

int serve(const Options& options, engine::Engine& engine) {
    auto files = open_files(options, engine);
    if (!files) return files.error();
    Service service(engine, std::move(*files));
    if (auto listening = service.listen(options.socket); !listening) return fail(kExitSystem, listening.error());
    fmt::print(stderr, "{}serving at {}\n", tool::fallbacks_text(engine), options.socket);
    if (auto served = service.run(); !served) return fail(kExitSystem, served.error());
    fmt::print(stderr, "stopped after {} answers\n", service.answered());
    return kExitOk;
}

int run(const Options& options) {
    if (options.check_system) {
        const auto facts = check_system();
        fmt::print("{}{}", options.json ? facts_json(facts) : facts_text(facts), options.json ? "\n" : "");
        return kExitOk;
    }
    if (options.spec.empty()) return fail(kExitUsage, "--spec ARTIFACT is wanted (or --check-system)");
    if (options.engine == "kernel")
        return fail(kExitUsage, "the kernel engine is not part of this version; --engine=user runs every call chain");
    auto loaded = spec::Loaded::open(options.spec, {.use_native = !options.interpret});
    if (!loaded) return fail(loaded.error().system ? kExitSystem : kExitFailed, loaded.error().message);
    auto engine = engine::Engine::create(
        *loaded, {.in_flight = options.in_flight, .umem_bytes = options.memory, .use_ring = !options.no_ring});
    if (!engine) return fail(kExitSystem, engine.error());

    const std::string why =
        options.engine == "auto" ? "user engine (auto: this version has no other)" : "user engine (as asked)";
    const auto rows = plan_of(**loaded, why);
    if (options.json) {
        fmt::print("{}\n", plan_json(rows));
    } else {
        fmt::print("{}{}\n", plan_text(rows), (*engine)->describe());
    }
    std::fflush(stdout);
    if (options.check) {
        fmt::print(stderr, "{}", tool::fallbacks_text(**engine));
        return kExitOk;
    }
    const bool any = std::any_of(rows.begin(), rows.end(),
                                 [](const PlanRow& row) { return row.kind == "chain" && row.state == "runs"; });
    if (!any)
        return fail(kExitFailed, fmt::format("'{}' has no call chain, so there is nothing to serve", options.spec));
    if (options.socket.empty())
        return fail(kExitUsage, "--socket PATH is wanted to serve call requests, or --check to only look");
    return serve(options, **engine);
}

}  // namespace
}  // namespace chainio::runtime_tool

int main(int argc, char** argv) {
    try {
        chainio::runtime_tool::Options options;
        CLI::App app{"Says what an artifact's parts run with, and serves its call chains over a Unix socket.",
                     "chainio-runtime"};
        app.set_version_flag("--version", std::string("chainio-runtime ") + CHAINIO_VERSION);
        app.add_option("--spec", options.spec, "what chainc -o wrote");
        app.add_flag("--check", options.check, "print what would run, and exit");
        app.add_flag("--check-system", options.check_system, "print what this machine offers, and exit");
        app.add_option("--socket", options.socket, "serve call requests, one JSON object a line, at this path");
        app.add_option("--file", options.files, "open a file for the service: CLASS=PATH")
            ->allow_extra_args(false)
            ->take_all();
        app.add_option("--in-flight", options.in_flight, "chains at once")
            ->check(CLI::Range(1, 65536))
            ->capture_default_str();
        app.add_option("--memory", options.memory, "bytes for blocks")->transform(CLI::AsSizeValue(false));
        app.add_option("--engine", options.engine, "auto, user or kernel")
            ->check(CLI::IsMember({"auto", "user", "kernel"}));
        app.add_flag("--interpret", options.interpret, "run steps by the IR interpreter");
        app.add_flag("--no-ring", options.no_ring, "read by plain preads instead of io_uring");
        app.add_flag("--json", options.json, "print tables as JSON");
        app.footer(
            "Request: {\"id\": 1, \"chain\": \"lookup\", \"args\": {\"db\": \"main.db\", \"key\": 42}}, answers come "
            "as chains end;\n"
            "{\"op\": \"stats\"} answers with counters. SIGTERM ends the service after what it has taken on.");
        try {
            app.parse(argc, argv);
        } catch (const CLI::ParseError& error) {
            return app.exit(error) == 0 ? 0 : 2;
        }
        return chainio::runtime_tool::run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "chainio-runtime: %s\n", error.what());
        return 3;
    }
}
