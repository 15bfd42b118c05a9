// One of the server's places for datagrams: what came in, the requests in it one after the other, and the reply.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/engine/flight.h"
#include "runtime/net/port.h"
#include "runtime/service/answer.h"
#include "runtime/service/generation.h"
#include "runtime/service/net.h"

namespace chainio::service {

struct Datagram {
    explicit Datagram(std::size_t longest_reply) : answer(longest_reply) {}

    Received received;
    Answer answer;
    std::span<std::uint8_t> rest;    // the request that is next or runs, and what is behind it
    std::size_t request_length = 0;  // of `rest`
    std::uint64_t arrived_ns = 0;
    Generation* generation = nullptr;                  // under which its requests run
    std::uint32_t service = 0;                         // of that
    int fd = -1;                                       // that its replies leave by
    std::uint32_t port = engine::kNoIndex;             // of the server's interfaces; else it came by a socket
    umem::Descriptor frame{};                          // that came by the interface
    std::uint32_t ring_client = engine::kNoIndex;      // whose ring it came by; else by none
    std::uint32_t ring_frame = 0, ring_length = 0;     // of it, and what replies have in it so far
    std::array<std::uint8_t, Net::kPeerBytes> peer{};  // of what came by the interface and is answered by a socket
    alignas(std::size_t) std::array<std::uint8_t, Net::kControlBytes> control{};
    std::uint32_t kept_number = 0;             // of the service among those whose replies the interface's program keeps
    std::uint64_t kept_epoch = 0;              // of those when the datagram came
    std::uint32_t request = engine::kNoIndex;  // the slot in which it runs
    unsigned sending = 0;                      // datagrams of the reply that the kernel has
    engine::QueueLink waiting_link;
    std::uint16_t rank = 0;
    bool used = false, waiting = false, dirty = false;
    bool dropped = false;  // the reply is more than fits, or is not whole; that is said instead, once

    // Bytes behind the request belong to it, as far as the datagram has so many.
    void skip(std::uint64_t length) { request_length += std::min<std::uint64_t>(length, rest.size() - request_length); }
};

}  // namespace chainio::service
