// What is asked, and what has to come back.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/bench/rings/bench_rings.h"

namespace chainio::bench_rings {

inline constexpr std::size_t kMostRequest = 128;
inline constexpr std::size_t kMostReply = 2048;

// A request and its reply; the tag tells one from others that ask for the same.
struct Question {
    std::uint16_t tag = 0;
    std::uint32_t number = 0;  // of the item
};

class Protocol {
  public:
    virtual ~Protocol() = default;
    // How long it is.
    virtual std::size_t write(const Question& question, char* out) const = 0;
    virtual std::size_t reply_bytes(const Question& question) = 0;
    virtual bool is_reply(const Question& question, std::span<const char> reply) = 0;
    // Which question it answers, of a datagram.
    virtual std::optional<std::uint16_t> tag_of(std::span<const char> reply) const = 0;
};

// Nothing where there is no such protocol by this way.
std::unique_ptr<Protocol> protocol_of(const Load& load);

}  // namespace chainio::bench_rings
