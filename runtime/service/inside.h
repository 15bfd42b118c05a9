// The services of a spec that the kernel engine answers by itself: their sockets, and the loop that takes them.
#pragma once
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/kernel_server.h"
#include "runtime/service/files.h"
#include "runtime/service/server.h"

namespace chainio::service {

class Inside {
  public:
    struct Options {
        std::string address;
        unsigned connections = 1024;
        std::uint64_t timeout_ns = 0;
        std::uint32_t spin_us = 0;
        std::uint32_t zero_copy_bytes = 0;
    };
    // The endpoints that the plan puts inside; the engine's files stay open for as long as this lives.
    static std::expected<std::unique_ptr<Inside>, std::string> create(
        const engine::Engine& engine, std::shared_ptr<const spec::Loaded> spec, const Files& files,
        const Options& options, const Plan& plan, const std::vector<GivenPort>& ports, metrics::Fallbacks& fallbacks);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    engine::KernelServer& loop() { return *loop_; }
    const engine::KernelServer& loop() const { return *loop_; }
    const std::vector<Listening>& listening() const { return listening_; }
    std::vector<std::uint32_t> services() const;  // each once

  private:
    Inside() = default;
    std::vector<Listening> listening_;
    std::vector<int> sockets_;
    std::unique_ptr<engine::KernelServer> loop_;
};

}  // namespace chainio::service
