// How the load generator's requests go out and its replies come in: over connections, one for each request on its way,
// or as datagrams by AF_XDP, so that the generator costs as little as can be.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tests/bench/kv/bench_kv.h"

namespace chainio::bench_kv {

// memcached's frame, whose first two bytes are the request's id, and what it asks; `sum` as net::sum_of() has it of
// both.
struct Request {
    std::span<const char> frame, text;
    std::uint16_t sum = 0;
};

class Wire {
  public:
    // What came: the id of the request that it answers, and the reply without memcached's frame.
    using Take = std::function<void(std::uint16_t id, std::span<const char> reply)>;
    virtual ~Wire() = default;
    // False: it did not leave.
    virtual bool send(std::uint32_t slot, const Request& request) = 0;
    // Hands over what is there, and what was to be sent. False: nothing more can come.
    virtual bool turn(const Take& take) = 0;
    // Datagrams may be lost.
    virtual bool loses() const = 0;
};

// Nothing, with the reason on standard error.
std::unique_ptr<Wire> connect_streams(const Load& load, std::uint32_t slots);
std::unique_ptr<Wire> open_xdp(const Load& load);

}  // namespace chainio::bench_kv
