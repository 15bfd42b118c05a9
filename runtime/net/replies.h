// Replies that the XDP program of an interface keeps and sends by itself: the runtime fills them in, and forgets them.
// One thread writes; the program reads at any time.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <vector>

#include "bpf-templates/chainio_xdp.h"

namespace chainio::net {

// A service whose replies are kept: what ir::ServiceCache says of it.
struct KeptService {
    std::uint16_t port = 0;
    std::uint32_t entries = 0;  // 0: none is kept
    std::uint64_t ttl_ns = 0;
    std::vector<std::uint8_t> compared;
    std::vector<std::uint16_t> head;
};

struct KeptCounters {
    std::uint64_t hits = 0, misses = 0, stale = 0, no_room = 0;  // of the program
    std::uint64_t kept = 0;                                      // replies that were put in
};

// The program's arrays, in memory that both see.
struct ReplyMemory {
    std::span<cio_kept_set> sets;
    std::span<cio_kept_place> places;
    std::span<cio_kept_epoch> epochs;
};

class ReplyTable {
  public:
    explicit ReplyTable(std::vector<KeptService> services = {});
    // Sets that the services want together; at least one.
    std::uint32_t sets() const { return sets_; }
    std::size_t services() const { return services_.size(); }
    bool keeps_any() const {
        return std::ranges::any_of(looked_up_, [](const auto& each) { return each.sets != 0; });
    }
    // What the program has to know of a service.
    const cio_kept_service& service(std::size_t number) const { return looked_up_[number]; }
    cio_kept_service service_at(std::uint16_t port) const;
    void use(const ReplyMemory& memory, std::uint64_t seed);

    // To be asked before the first byte of a reply is read; 0: nothing is kept.
    std::uint64_t epoch(std::size_t number) const;
    // Puts a reply in that was made for `request` from what was read since `epoch` was asked, at `asked_ns`. False: it
    // is not kept, because it is late or too long, or its begin (of its first part) is not what the driver would write,
    // or it is there.
    bool keep(std::size_t number, std::uint64_t epoch, std::uint64_t asked_ns, std::span<const std::uint8_t> request,
              std::span<const std::span<const std::uint8_t>> reply);
    // What was kept is not sent from here on, and what is being made is not kept.
    void forget();
    // Likewise, for good.
    void stop();
    std::uint64_t kept(std::size_t number) const { return kept_[number]; }

  private:
    struct Looked {
        std::uint64_t hash = 0;
        std::uint32_t length = 0;
        std::array<std::uint8_t, CIO_KEPT_REQUEST> request;
    };
    Looked look(std::size_t number, std::span<const std::uint8_t> request) const;
    std::uint32_t place_for(const cio_kept_service& service, std::uint64_t hash, std::uint64_t now_ns) const;
    bool is_current(const cio_kept_place& place, std::uint64_t now_ns) const;
    bool head_matches(std::size_t number, std::span<const std::uint8_t> request,
                      std::span<const std::uint8_t> head) const;

    std::vector<KeptService> services_;
    std::vector<cio_kept_service> looked_up_;
    std::vector<std::uint64_t> kept_;
    std::uint32_t sets_ = 1;
    std::uint64_t seed_ = 0;
    ReplyMemory memory_;
};

}  // namespace chainio::net
