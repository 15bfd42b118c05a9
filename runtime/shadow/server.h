// The server beside unmodified programs: reads their events, runs the spec's shadow chains, fetches what those say, and
// keeps score of what it was good for. One thread; what it keeps is bounded (docs/shadow.md).
#pragma once
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/probe/poller.h"
#include "runtime/shadow/region.h"
#include "runtime/shim/protocol.h"
#include "runtime/spec/loaded.h"

namespace chainio::shadow {

constexpr unsigned kMostInFlight = 1024;

struct ServerOptions {
    unsigned in_flight = 128;                              // fetches and chain walks together
    std::size_t memory_bytes = std::size_t{32} << 20;      // blocks of walks and scratch of fetches
    std::uint64_t ahead_bytes = std::uint64_t{256} << 20;  // fetched and not read yet, at most
    std::uint64_t served_bytes = std::uint64_t{64} << 20;  // memory for files that are read with O_DIRECT; 0: none
    bool explain = false;                                  // collect why files and sockets matched or did not
    bool gate = true;                                      // switch chains off that do not pay
    std::uint32_t spin_ns = 50'000;                        // how long an idle server looks before it sleeps
    std::uint64_t last_look_ns = 1'000'000'000;            // how long chains are shown what rings hold at the end
};

// What is wrong with them; empty when nothing is.
std::string wrong_options(const ServerOptions& options);

struct Explained {     // --explain: one line a file or socket
    std::string what;  // path or address
    std::string by;    // the class, or empty
    std::string why;   // why nothing matched, or what does not help
    std::uint64_t times = 0;
};

struct Report {
    std::vector<std::string> notes;    // fallbacks with their counts, in words
    std::vector<Explained> explained;  // with ServerOptions::explain
    std::vector<std::string> refused;  // chains that cannot run here, by name, and why
};

class Server {
  public:
    // Makes the region's file and directory (removed by the destructor). The error names place, cause and remedy.
    static std::expected<std::unique_ptr<Server>, std::string> create(std::shared_ptr<const spec::Loaded> spec,
                                                                      const ServerOptions& options);
    // In a region that programs may look at already (launch_region).
    static std::expected<std::unique_ptr<Server>, std::string> create(std::shared_ptr<const spec::Loaded> spec,
                                                                      const ServerOptions& options, RegionFile region);
    virtual ~Server() = default;
    virtual const std::string& region_path() const = 0;
    virtual const shim::Region& region() const = 0;
    // A futex at which run() sleeps while it is 1: who stores 0 and wakes it has `stop` asked.
    virtual std::atomic<std::uint32_t>& sleeping() = 0;
    // Where the events of `on probe` chains come from; without it those chains rest. Before run(), which it must
    // outlive.
    virtual void listen_to(probe::Poller& probes) = 0;
    // Nothing will come of the probe: its chains are shown as switched off. Before run().
    virtual void lacks(std::uint16_t probe) = 0;
    // Serves until `stop` says so (asked between events, and at least every 0.16 s); then has programs go on plain, and
    // drains what the rings hold.
    // Interrupted system calls only make it ask again.
    virtual std::expected<void, std::string> run(const std::function<bool()>& stop) = 0;
    virtual Report report() const = 0;
};

}  // namespace chainio::shadow
