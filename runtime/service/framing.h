// Where requests end in a stream of bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace chainio::service {

enum class Cut : std::uint8_t {
    whole,  // the first `length` bytes are a request
    more,   // its end has not come yet
    long_,  // it has no end within the most that a request may have
    bad,    // where it ends cannot be told: what says how long it is is of bad form
};

struct Request {
    Cut cut = Cut::more;
    std::size_t length = 0;
};

// The first request of `bytes`, whose fields end as `fields` says, and which ends with `end` behind them, if that is
// not empty. `looked` says how many of the bytes an earlier call has seen; it is kept up to date, so that a request
// that comes byte by byte is not searched from its beginning each time.
Request first_request(Request fields, const std::string& end, std::span<const std::uint8_t> bytes, std::size_t most,
                      std::size_t& looked);

}  // namespace chainio::service
