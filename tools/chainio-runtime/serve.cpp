#include "tools/chainio-runtime/serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "tools/chainio-runtime/service.h"
#include "tools/chainio/call_args.h"
#include "tools/chainio/summary.h"

namespace chainio::runtime_tool {
namespace {

std::expected<OpenFile, int> open_file(engine::Engine& engine, std::uint32_t file_class, const std::string& path) {
    auto handle = engine.open_file(file_class, path);
    if (!handle)
        return std::unexpected(fail(handle.error().system ? kExitSystem : kExitFailed, handle.error().message));
    return OpenFile{path, path.substr(path.rfind('/') + 1), file_class, *handle};
}

std::expected<std::vector<OpenFile>, int> open_files(const Options& options, engine::Engine& engine) {
    std::vector<OpenFile> files;
    std::vector<std::string> names;
    const auto& classes = engine.spec().module().files;
    for (const auto& file : classes) names.push_back(file.name);
    for (const std::string& pair : options.files) {
        const std::size_t equals = pair.find('=');
        if (equals == std::string::npos)
            return std::unexpected(fail(kExitUsage, fmt::format("--file wants CLASS=PATH, not '{}'", pair)));
        const std::string name = pair.substr(0, equals);
        const auto index = engine.spec().find_file_class(name);
        if (!index) {
            return std::unexpected(fail(kExitUsage, fmt::format("there is no file class '{}'{}", name,
                                                                tool::suggestion(name, names, "file classes"))));
        }
        auto file = open_file(engine, *index, pair.substr(equals + 1));
        if (!file) return std::unexpected(file.error());
        files.push_back(std::move(*file));
    }
    // A class whose pattern is one file needs no --file.
    for (std::uint32_t i = 0; i < classes.size(); i++) {
        const std::string& pattern = classes[i].pattern;
        if (!pattern.starts_with('/') || pattern.find_first_of("*?[\\") != std::string::npos) continue;
        if (std::ranges::any_of(files, [&](const OpenFile& file) { return file.file_class == i; })) continue;
        auto file = open_file(engine, i, pattern);
        if (!file) return std::unexpected(file.error());
        files.push_back(std::move(*file));
    }
    return files;
}

std::expected<std::vector<service::Server::Port>, int> ports_of(const Options& options, const ir::Module& module) {
    std::vector<service::Server::Port> ports;
    std::vector<std::string> names;
    for (const auto& service : module.services) names.push_back(service.name);
    for (const std::string& pair : options.ports) {
        const std::size_t equals = std::min(pair.find('='), pair.size());
        const std::string name = pair.substr(0, equals), number = pair.substr(std::min(equals + 1, pair.size()));
        std::uint16_t port = 0;
        const auto read = std::from_chars(number.data(), number.data() + number.size(), port);
        if (number.empty() || read.ec != std::errc{} || read.ptr != number.data() + number.size())
            return std::unexpected(
                fail(kExitUsage, fmt::format("--port wants SERVICE=PORT, 0 to 65535, not '{}'", pair)));
        const auto found = std::ranges::find(names, name);
        if (found == names.end()) {
            return std::unexpected(fail(kExitUsage, fmt::format("there is no service '{}'{}", name,
                                                                tool::suggestion(name, names, "services"))));
        }
        ports.push_back({static_cast<std::uint32_t>(found - names.begin()), port});
    }
    return ports;
}

bool any_served(const ir::Module& module) {
    return std::ranges::any_of(service::plan_of(module),
                               [](const service::EndpointPlan& plan) { return plan.refused.empty(); });
}

}  // namespace

int fail(int code, const std::string& message) {
    fmt::print(stderr, "chainio-runtime: {}\n", message);
    return code;
}

int serve(const Options& options, engine::Engine& engine) {
    const ir::Module& module = engine.spec().module();
    auto files = open_files(options, engine);
    if (!files) return files.error();
    auto ports = ports_of(options, module);
    if (!ports) return ports.error();
    std::unique_ptr<service::Server> server;
    if (any_served(module)) {
        std::vector<service::NamedFile> named;
        for (const OpenFile& file : *files) named.push_back({file.path, file.file_class, file.handle});
        service::ServerOptions wanted = options.server;
        wanted.timeout_ns = std::uint64_t{options.timeout_ms} * 1'000'000;
        auto made =
            service::Server::create(engine, service::Files(std::move(named)), wanted, *ports, engine.fallbacks());
        if (!made) return fail(kExitSystem, made.error());
        server = std::move(*made);
    }
    Service service(engine, std::move(*files), server.get());
    if (auto watched = service.watch_signals(); !watched) return fail(kExitSystem, watched.error());
    if (!options.socket.empty()) {
        if (auto listening = service.listen(options.socket); !listening) return fail(kExitSystem, listening.error());
    }
    fmt::print(stderr, "{}", tool::fallbacks_text(engine));
    if (server) {
        for (const service::Listening& at : server->listening())
            fmt::print(stderr, "service {} at tcp {} port {}: {}\n", module.services[at.service].name, at.address,
                       at.port, server->describe());
    }
    if (!options.socket.empty()) fmt::print(stderr, "serving at {}\n", options.socket);
    if (auto served = service.run(); !served) return fail(kExitSystem, served.error());
    std::uint64_t requests = 0;
    for (std::uint32_t i = 0; server && i < module.services.size(); i++) requests += server->counters(i).requests;
    fmt::print(stderr, "stopped after {} answers\n", service.answered() + requests);
    return kExitOk;
}

}  // namespace chainio::runtime_tool
