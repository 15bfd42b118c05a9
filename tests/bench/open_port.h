// An interface for a program that may be begun as soon as another one has ended.
#pragma once
#include <chrono>
#include <memory>
#include <thread>

#include "runtime/net/port.h"

namespace chainio::bench {

// The kernel frees the queues of a process a moment after its end.
inline std::expected<std::unique_ptr<net::Port>, net::Refusal> open_port(const net::PortOptions& options,
                                                                         umem::Slab& slab,
                                                                         metrics::Fallbacks& fallbacks) {
    constexpr unsigned kTries = 100;
    auto opened = net::Port::open(options, slab, fallbacks);
    for (unsigned i = 0; i < kTries && !opened && opened.error().why == net::Refusal::Why::busy; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        opened = net::Port::open(options, slab, fallbacks);
    }
    return opened;
}

}  // namespace chainio::bench
