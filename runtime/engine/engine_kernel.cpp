// The kernel engine behind the same interface: chains start in memory that the kernel sees, and come back when they
// have ended.
#include <cerrno>
#include <cstring>

#include "runtime/engine/engine.h"

namespace chainio::engine {

std::expected<std::unique_ptr<KernelLoop>, std::string> Engine::make_loop(const std::vector<ClassRank>& ranks,
                                                                          metrics::Fallbacks& fallbacks) {
    return KernelLoop::create(*spec_, ranks,
                              {.flights = static_cast<std::uint32_t>(flights_.size()),
                               .memory_bytes = options_.umem_bytes,
                               .file_slots = options_.max_files,
                               .spin_us = options_.spin_us,
                               .huge_pages = options_.huge_pages,
                               .names = options_.names},
                              fallbacks);
}

std::expected<void, std::string> Engine::use_kernel(const std::vector<ClassRank>& ranks) {
    auto loop = make_loop(ranks, fallbacks_);
    if (!loop) return std::unexpected(loop.error());
    kernel_ = std::move(*loop);
    inside_ = true;
    for (std::uint32_t i = 0; i < flights_.size(); i++) flights_[i].io = io_of(i);
    return {};
}

void Engine::collect_ended() {
    KernelLoop::Ended ended;
    while (kernel_->take_ended(ended)) {
        Flight& flight = flights_[ended.flight];
        flight.hops = ended.hops;
        finish(ended.flight, ended.outcome == CIO_OK ? result_of(ended.flight, ended.block) : ended.outcome);
    }
    kernel_->count(counters_);
}

std::expected<unsigned, std::string> Engine::reap_kernel(std::span<Completion> out, unsigned min) {
    const auto run = [&](unsigned wanted) -> std::expected<void, std::string> {
        const unsigned before = started();
        const int result = kernel_->run(wanted);
        collect_ended();
        if (result == -EINTR || (result >= 0 && (wanted == 0 || started() < before || kernel_->busy()))) return {};
        if (result >= 0) return std::unexpected(std::string("the kernel engine's program ended no chain"));
        std::string why = std::string("io_uring_enter: ") + std::strerror(-result);
        if (result == -EEXIST) why += " (an engine belongs to the thread that reaped first)";
        if (result == -EFAULT) why += " (the kernel engine's program is no longer attached to the ring)";
        return std::unexpected(why);
    };
    unsigned count = hand_over(out, 0);
    if (min == 0 && started() > 0) {
        if (auto ran = run(0); !ran) return count_or(count, ran.error());
        count = hand_over(out, count);
    }
    while (count < min && started() > 0) {
        if (auto ran = run(std::min(min - count, started())); !ran) return count_or(count, ran.error());
        count = hand_over(out, count);
    }
    return count;
}

}  // namespace chainio::engine
