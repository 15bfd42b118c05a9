#include "runtime/service/inside.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/service/listen.h"

namespace chainio::service {
namespace {

// What a peer does not acknowledge within the time limit is dropped, so that memory that is sent without a copy is let
// go.
void limit_waiting(int fd, std::uint64_t timeout_ns) {
    const auto patience = static_cast<unsigned>(timeout_ns / 1'000'000);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

std::string name_of(const ir::Module& module, const ir::Slice& at) {
    const auto begin = module.literals.begin() + static_cast<std::ptrdiff_t>(at.offset.value);
    return {begin, begin + static_cast<std::ptrdiff_t>(at.length.value)};
}

}  // namespace

std::expected<std::unique_ptr<Inside>, std::string> Inside::create(
    const engine::Engine& engine, std::shared_ptr<const spec::Loaded> spec, const Files& files, const Options& options,
    const Plan& plan, const std::vector<GivenPort>& ports, metrics::Fallbacks& fallbacks) {
    const ir::Module& module = spec->module();
    std::unique_ptr<Inside> inside(new Inside);
    std::vector<engine::KernelServer::Listener> listeners;
    for (const EndpointPlan& each : plan) {
        if (!each.inside) continue;
        const ir::Service& service = module.services[each.service];
        const auto failed = [&](const std::string& why) {
            return std::unexpected(fmt::format("service '{}': {}", service.name, why));
        };
        if (const std::string missing = missing_file(module, service, true, files); !missing.empty())
            return failed(missing);
        auto bound = listen_at(options.address, port_of(module, each, ports), true);
        if (!bound) return failed(bound.error());
        inside->sockets_.push_back(bound->fd);
        // Connections have what the socket has that they come by.
        keep_alive(bound->fd);
        limit_waiting(bound->fd, options.timeout_ns);
        inside->listening_.push_back({each.service, true, bound->port, bound->address});
        listeners.push_back({each.service, bound->fd});
    }
    const auto file_of = [&](const ir::CallFile& file) -> const engine::OpenedFile* {
        const auto handle = files.find(file.file_class, name_of(module, file.name));
        return handle ? engine.file(*handle) : nullptr;
    };
    auto loop = engine::KernelServer::create(std::move(spec), listeners, file_of,
                                             {.connections = options.connections,
                                              .timeout_ns = options.timeout_ns,
                                              .spin_us = options.spin_us,
                                              .zero_copy_bytes = options.zero_copy_bytes,
                                              .ranks = ranks_of(module)},
                                             fallbacks);
    if (!loop) return std::unexpected(loop.error());
    inside->loop_ = std::move(*loop);
    return inside;
}

Inside::~Inside() {
    loop_.reset();
    for (const int fd : sockets_) close(fd);
}

std::vector<std::uint32_t> Inside::services() const {
    std::vector<std::uint32_t> out;
    for (const Listening& at : listening_)
        if (out.empty() || out.back() != at.service) out.push_back(at.service);  // they come service by service
    return out;
}

}  // namespace chainio::service
