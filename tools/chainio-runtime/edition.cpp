#include "tools/chainio-runtime/edition.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <thread>

#include "compiler/ir/kernel_handlers.h"
#include "runtime/net/interface.h"
#include "tools/chainio-runtime/service.h"
#include "tools/chainio/call_args.h"

namespace chainio::runtime_tool {
namespace {

constexpr std::size_t kMemoryForInterfaces = std::size_t{64} << 20;  // for blocks, where packets are sent from them
constexpr unsigned kLeastEntries = 1024, kMostEntries = 4096;        // of the ring
constexpr unsigned kSeats = 4;  // of the sockets, of two editions, and of what is waited for beside them

// One that comes later has as many queues as there are processors, unless somebody has set it up otherwise. What is
// wrong with one is said when it is opened.
std::size_t packet_memory(const std::vector<std::string>& interfaces) {
    const unsigned usual = std::clamp(std::thread::hardware_concurrency(), 1u, net::kMostQueues);
    std::size_t bytes = 0;
    for (const std::string& name : interfaces) {
        const auto interface = net::find_interface(name);
        bytes += service::Server::packet_bytes(interface ? std::min(interface->queues, net::kMostQueues) : usual);
    }
    return bytes;
}

std::unexpected<Problem> problem(int code, std::string message) {
    return std::unexpected(Problem{code, std::move(message)});
}

std::expected<OpenFile, Problem> open_file(engine::Engine& engine, std::uint32_t file_class, const std::string& path) {
    auto handle = engine.open_file(file_class, path);
    if (!handle) return problem(handle.error().system ? kExitSystem : kExitFailed, handle.error().message);
    return OpenFile{path, path.substr(path.rfind('/') + 1), file_class, *handle};
}

// A class whose pattern is one file needs no --file.
std::vector<std::uint32_t> classes_of_one_file(const Options& options, const ir::Module& module) {
    std::vector<std::uint32_t> classes;
    for (std::uint32_t i = 0; i < module.files.size(); i++) {
        const std::string& pattern = module.files[i].pattern;
        if (!pattern.starts_with('/') || pattern.find_first_of("*?[\\") != std::string::npos) continue;
        const std::string given = module.files[i].name + "=";
        if (std::ranges::none_of(options.files, [&](const std::string& pair) { return pair.starts_with(given); }))
            classes.push_back(i);
    }
    return classes;
}

std::size_t count_files(const Options& options, const ir::Module& module) {
    return options.files.size() + classes_of_one_file(options, module).size();
}

// What is wrong with how many there are.
std::string too_many_files(const Options& options, const ir::Module& module) {
    const std::size_t given = options.files.size(), count = count_files(options, module);
    if (count <= engine::kMostFiles) return {};
    const std::size_t more = count - given;
    const std::string beside =
        more == 0 ? "" : fmt::format(", and {} more class{} one file", more, more == 1 ? " is" : "es are");
    return fmt::format("{} --file are given{}, where at most {} are opened", given, beside, engine::kMostFiles);
}

// What is wrong with the names alone, which no file has to be opened for.
std::expected<void, Problem> look_at_classes(const Options& options, const spec::Loaded& loaded) {
    std::vector<std::string> names;
    for (const auto& file : loaded.module().files) names.push_back(file.name);
    for (const std::string& pair : options.files) {
        const std::size_t equals = pair.find('=');
        if (equals == std::string::npos)
            return problem(kExitUsage, fmt::format("--file wants CLASS=PATH, not '{}'", pair));
        const std::string name = pair.substr(0, equals);
        if (!loaded.find_file_class(name))
            return problem(kExitUsage, fmt::format("there is no file class '{}'{}", name,
                                                   tool::suggestion(name, names, "file classes")));
    }
    return {};
}

std::expected<std::vector<OpenFile>, Problem> open_given(const Options& options, engine::Engine& engine) {
    std::vector<OpenFile> files;
    if (std::string wrong = too_many_files(options, engine.spec().module()); !wrong.empty())
        return problem(kExitUsage, std::move(wrong));
    if (auto named = look_at_classes(options, engine.spec()); !named) return std::unexpected(named.error());
    for (const std::string& pair : options.files) {
        const std::size_t equals = pair.find('=');
        const auto index = engine.spec().find_file_class(pair.substr(0, equals));
        auto file = open_file(engine, *index, pair.substr(equals + 1));
        if (!file) return std::unexpected(file.error());
        files.push_back(std::move(*file));
    }
    return files;
}

std::expected<std::vector<OpenFile>, Problem> open_files(const Options& options, engine::Engine& engine) {
    auto given = open_given(options, engine);
    if (!given) return given;
    std::vector<OpenFile>& files = *given;
    for (const std::uint32_t i : classes_of_one_file(options, engine.spec().module())) {
        auto file = open_file(engine, i, engine.spec().module().files[i].pattern);
        if (!file) return std::unexpected(file.error());
        files.push_back(std::move(*file));
    }
    return given;
}

std::expected<std::vector<service::GivenPort>, Problem> ports_of(const Options& options, const ir::Module& module) {
    std::vector<service::GivenPort> ports;
    std::vector<std::string> names;
    for (const auto& service : module.services) names.push_back(service.name);
    for (const std::string& pair : options.ports) {
        const std::size_t equals = std::min(pair.find('='), pair.size());
        const std::string name = pair.substr(0, equals), number = pair.substr(std::min(equals + 1, pair.size()));
        std::uint16_t port = 0;
        const auto read = std::from_chars(number.data(), number.data() + number.size(), port);
        if (number.empty() || read.ec != std::errc{} || read.ptr != number.data() + number.size())
            return problem(kExitUsage, fmt::format("--port wants SERVICE=PORT, 0 to 65535, not '{}'", pair));
        const auto found = std::ranges::find(names, name);
        if (found == names.end())
            return problem(kExitUsage,
                           fmt::format("there is no service '{}'{}", name, tool::suggestion(name, names, "services")));
        const auto index = static_cast<std::uint32_t>(found - names.begin());
        if (std::ranges::find(ports, index, &service::GivenPort::service) != ports.end())
            return problem(kExitUsage,
                           fmt::format("--port is given twice for service '{}'; keep one of the two", name));
        for (const bool tcp : {true, false}) {
            const auto several = std::ranges::count(module.services[index].endpoints, tcp, &ir::Endpoint::tcp);
            if (port != 0 && several > 1)
                return problem(kExitUsage, fmt::format("service '{}' has {} ports over {}, of which --port can give a "
                                                       "number to none: give 0, or other ports in the spec",
                                                       name, several, tcp ? "tcp" : "udp"));
        }
        ports.push_back({index, port});
    }
    return ports;
}

// None of a service's requests could be answered otherwise.
std::expected<void, Problem> look_at_room(const Options& options, const ir::Module& module,
                                          const service::Plan& plans) {
    for (const service::EndpointPlan& plan : plans) {
        if (!plan.refused.empty()) continue;
        const ir::Service& of = module.services[plan.service];
        const std::size_t least = service::shortest_request(of, of.endpoints[plan.endpoint].tcp);
        if (least <= options.server.request_bytes) continue;
        return problem(kExitUsage,
                       fmt::format("service '{}': its requests are longer than --request-bytes {}; give at least {}",
                                   of.name, options.server.request_bytes, least));
    }
    return {};
}

}  // namespace

service::Files Edition::named_files() const {
    std::vector<service::NamedFile> named;
    for (const OpenFile& file : files) named.push_back({file.path, file.file_class, file.handle});
    return service::Files(std::move(named));
}

std::string Edition::endpoint_text(const service::EndpointPlan& of) const {
    ir::Endpoint endpoint = loaded->module().services[of.service].endpoints[of.endpoint];
    if (of.refused.empty()) endpoint.port = service::port_of(loaded->module(), of, ports);
    return service::endpoint_text(endpoint);
}

std::vector<std::string> Edition::not_served() const {
    std::vector<std::string> out;
    for (const service::EndpointPlan& each : plan)
        if (!each.refused.empty())
            out.push_back(fmt::format("service '{}' is not served at {}: {}",
                                      loaded->module().services[each.service].name, endpoint_text(each), each.refused));
    return out;
}

bool Edition::serves() const {
    return std::ranges::any_of(plan, [](const service::EndpointPlan& each) { return each.refused.empty(); });
}

bool Edition::serves_inside() const { return std::ranges::any_of(plan, &service::EndpointPlan::inside); }

bool tries(const Options& options) {
    return options.engine == "auto" && !options.no_ring && !options.interpret && options.server.interfaces.empty();
}

std::string why_untried(const Options& options) {
    if (options.engine == "user") return "as asked";
    const char* option = options.no_ring ? "--no-ring" : options.interpret ? "--interpret" : "--interface";
    return fmt::format("auto: the kernel engine is not tried with {}", option);
}

std::expected<std::shared_ptr<const spec::Loaded>, Problem> load(const Options& options) {
    auto loaded = spec::Loaded::open(options.spec, {.use_native = !options.interpret});
    if (!loaded) return problem(loaded.error().system ? kExitSystem : kExitFailed, loaded.error().message);
    return *loaded;
}

unsigned file_slots(const Options& options, const ir::Module& module) {
    return std::clamp(static_cast<unsigned>(count_files(options, module)), engine::EngineOptions{}.max_files,
                      engine::kMostFiles);
}

std::expected<std::unique_ptr<ring::Shared>, std::string> make_ring(const Options& options, const ir::Module& module,
                                                                    metrics::Fallbacks& fallbacks) {
    ring::SharedOptions wanted;
    wanted.entries = std::bit_ceil(std::clamp(options.server.connections, kLeastEntries, kMostEntries));
    wanted.cq_entries = 4 * wanted.entries;
    wanted.seats = kSeats;
    wanted.file_slots = file_slots(options, module);
    // Inside the kernel the engine looks by itself, on a thread of its own.
    wanted.spin_us = options.engine == "kernel" ? 0 : options.spin_us;
    wanted.spin_where_it_pays = options.spin_auto;
    return ring::Shared::create(wanted, fallbacks);
}

engine::EngineOptions engine_options(const Options& options, const ir::Module& module, ring::Shared* ring) {
    engine::EngineOptions wanted{.in_flight = options.in_flight,
                                 .umem_bytes = options.memory,
                                 .max_files = file_slots(options, module),
                                 .use_ring = !options.no_ring,
                                 .ring = ring,
                                 .kernel = options.engine == "kernel",
                                 .spin_us = options.spin_us_said(),
                                 .all_memory_at_once = !options.check};
    // Beside connections a pause for the verifier would be felt, so that the program is loaded before there are any.
    if (tries(options)) wanted.trial = engine::TrialOptions{.load_first = true};
    if (!options.server.interfaces.empty()) {
        // Packets are received into the memory that blocks are read into, and blocks are sent from it.
        wanted.least_frame = net::kChunk;
        if (wanted.umem_bytes == 0) wanted.umem_bytes = kMemoryForInterfaces * options.server.interfaces.size();
        wanted.packet_bytes = packet_memory(options.server.interfaces);
    }
    return wanted;
}

std::expected<std::unique_ptr<Edition>, Problem> make_edition(const Options& options,
                                                              std::shared_ptr<const spec::Loaded> loaded,
                                                              ring::Shared* ring,
                                                              std::optional<engine::Engine::Memory> memory) {
    const engine::EngineOptions wanted = engine_options(options, loaded->module(), ring);
    auto ports = ports_of(options, loaded->module());
    if (!ports) return std::unexpected(ports.error());
    if (auto named = look_at_classes(options, *loaded); !named) return std::unexpected(named.error());
    auto plan = service::plan_of(loaded->module(), wanted.kernel);
    if (auto room = look_at_room(options, loaded->module(), plan); !room) return std::unexpected(room.error());
    auto engine =
        memory ? engine::Engine::create(loaded, wanted, std::move(*memory)) : engine::Engine::create(loaded, wanted);
    if (!engine) return problem(kExitSystem, engine.error());
    auto edition = std::make_unique<Edition>();
    edition->plan = std::move(plan);
    edition->ports = std::move(*ports);
    edition->loaded = std::move(loaded);
    edition->engine = std::move(*engine);
    edition->calls.resize(edition->engine->capacity());
    for (std::uint32_t i = edition->engine->capacity(); i-- > 0;) edition->free.push_back(i);
    return edition;
}

std::expected<void, std::string> make_room(const Options& options, const Edition& edition) {
    constexpr rlim_t kOthers = 128 + Service::kMostClients, kOfInterface = 128;
    // For connections that come while idle ones end for them: as many may do so at once as there are. Those for which
    // there is no descriptor wait, so that no more than these have to be had.
    constexpr rlim_t kLeastSpare = 256;
    const rlim_t connections = edition.serves() ? options.server.connections : 0;
    const rlim_t spare = connections != 0 ? kLeastSpare : 0;
    const rlim_t wanted = kOthers + connections + spare + 2 * count_files(options, edition.loaded->module()) +
                          kOfInterface * options.server.interfaces.size();
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
    for (const rlim_t each : {wanted - spare + std::max(spare, connections), wanted}) {
        if (limit.rlim_cur >= each) return {};
        const rlimit raised{each, std::max(limit.rlim_max, each)};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return {};
    }
    const std::string of = connections != 0 ? fmt::format("{} connections want", connections) : "the daemon wants";
    return std::unexpected(
        fmt::format("{} {} open files, and this process may have {}: raise its limit (`ulimit -n {}`, LimitNOFILE= of "
                    "a systemd unit){}",
                    of, wanted, limit.rlim_cur, wanted, connections != 0 ? ", or give fewer --connections" : ""));
}

std::expected<void, Problem> look_at_given(const Options& options, Edition& edition) {
    const std::string twice = service::Server::given_twice(edition.loaded->module(), edition.plan, edition.ports);
    if (!twice.empty()) return problem(kExitSystem, twice);
    auto files = open_given(options, *edition.engine);
    if (!files) return std::unexpected(files.error());
    if (files->empty()) return {};
    const ir::Module& module = edition.loaded->module();
    edition.files = std::move(*files);
    for (const std::uint32_t i : classes_of_one_file(options, module))
        edition.files.push_back({module.files[i].pattern, {}, i, 0});
    const service::Files named = edition.named_files();
    for (const service::EndpointPlan& plan : edition.plan) {
        if (!plan.refused.empty()) continue;
        const ir::Service& of = module.services[plan.service];
        const std::string missing = service::missing_file(module, of, of.endpoints[plan.endpoint].tcp, named);
        if (!missing.empty())
            return problem(kExitSystem, fmt::format("service '{}' cannot be served: {}", of.name, missing));
    }
    return {};
}

void ask_for_files(const Options& options, const ir::Module& module) {
    std::vector<std::string> paths;
    for (const std::string& pair : options.files) paths.push_back(pair.substr(pair.find('=') + 1));
    for (const std::uint32_t i : classes_of_one_file(options, module)) paths.push_back(module.files[i].pattern);
    for (const std::string& path : paths) {
        // To look at it would not do: what a file system of a network has said before may be known, and an open asks.
        const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd >= 0) close(fd);
    }
}

std::expected<void, Problem> open_edition(const Options& options, Edition& edition) {
    const ir::Module& module = edition.loaded->module();
    const bool calls = ir::has_call_chain(module);
    std::string refused;
    for (const std::string& each : edition.not_served()) refused += "; " + each;
    if (!calls && !edition.serves())
        return problem(kExitFailed,
                       fmt::format("'{}' has no call chain{}, so there is nothing to serve{}", options.spec,
                                   refused.empty() ? "" : ", and its services are refused", refused));
    if (options.socket.empty() && !edition.serves())
        return problem(kExitUsage, "--socket PATH is wanted to serve call requests, or --check to only look" + refused);
    auto files = open_files(options, *edition.engine);
    if (!files) return std::unexpected(files.error());
    edition.files = std::move(*files);
    return {};
}

}  // namespace chainio::runtime_tool
