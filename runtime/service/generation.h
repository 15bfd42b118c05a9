// What requests run with under one spec: the engine, the files, the slots. Sockets and connections outlive it: a reload
// puts another one in its place, and the one before stays until what runs under it has ended.
#pragma once
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/metrics/histogram.h"
#include "runtime/net/replies.h"
#include "runtime/service/output.h"
#include "runtime/service/requests.h"

namespace chainio::service {

struct ServiceCounters {
    std::uint64_t accepted = 0, refused = 0, open = 0;  // connections; refused: there was no place
    std::uint64_t displaced = 0;                        // connections that were idle, for a more urgent one
    std::uint64_t idle_closed = 0;                      // those that were idle for too long
    std::uint64_t requests = 0, answered = 0, malformed = 0, failed = 0;
    std::uint64_t unanswered = 0;  // of bad form, and nothing could be said to whoever sent them
    std::uint64_t shed = 0, timeouts = 0, too_long = 0, vanished = 0;
    std::uint64_t bytes_in = 0, bytes_out = 0;
    std::uint64_t datagrams = 0, reply_too_long = 0;
    std::uint64_t dropped = 0;         // datagrams, by the kernel: a socket had no room
    std::uint64_t payload_copies = 0;  // of chains' results, by this program
    std::uint64_t zero_copy_sends = 0, zero_copy_copied = 0, zero_copy_refused = 0;  // copied: by the kernel, even so
    net::KeptCounters kept;         // of interfaces that are closed by now
    metrics::Histogram latency_ns;  // of those that were run, from the last byte to the end of the handler
};

struct Generation {
    Generation(engine::Engine& with, Files opened, const Places& places, std::uint64_t patience_ns);
    // Takes over the counters of the services that `before` has by the same names.
    void inherit_counters(const Generation& before);
    std::optional<std::uint32_t> find(std::string_view service) const;
    // The place of a service's class among all classes; those without one come behind the declared ones.
    std::uint16_t rank_of(std::uint32_t service) const;
    std::uint32_t priority_of(std::uint32_t service) const;
    bool any_short() const { return !short_of_memory.empty() || alone != engine::kNoIndex; }

    engine::Engine& engine;
    const ir::Module& module;
    const Files files;
    Requests requests;
    std::vector<std::uint32_t> starved, again;   // slots that the engine had no room for
    std::vector<std::uint32_t> yielding;         // slots that gave others their turn
    std::vector<std::uint32_t> short_of_memory;  // slots whose chains found no frame
    bool one_by_one = false;                     // of these one alone was gone on with last
    std::uint32_t alone = engine::kNoIndex;      // it, while no other one is to be gone on with
    std::uint64_t alone_until_ns = 0;
    // By service: of connections, of datagrams, of clients of rings.
    std::vector<std::shared_ptr<ServiceCounters>> counters, udp_counters, ring_counters;
    unsigned connections = 0;  // and datagrams, whose requests run here
    Lender lender;             // its frames that leave by connections
    unsigned closing = 0;      // listeners of it that may still hand over a connection
};

std::vector<engine::ClassRank> ranks_of(const ir::Module& module);
// Of the lines in which requests wait: first that of the edition before, whose places are its own, then one a rank.
inline constexpr std::uint32_t kLineBefore = 0;
std::vector<engine::ClassRank> lines_of(const ir::Module& module);

}  // namespace chainio::service
