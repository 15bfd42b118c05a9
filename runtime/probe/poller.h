// What the server beside a program reads probes' events from. Nothing here needs a privilege: it is shared memory.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

namespace chainio::probe {

// One time that a probe was reached. The arguments are laid out as EventKind::probe of runtime/shim/protocol.h says: in
// order, an integer in 8 bytes; a string as its length in 8 bytes, then its bytes, filled up to a multiple of 8.
struct Event {
    std::uint16_t probe = 0;                  // index among the module's probes
    std::uint32_t process = 0;                // as seen from the server's own process id namespace
    std::span<const std::uint8_t> arguments;  // valid during the call
};

class Poller {
  public:
    virtual ~Poller() = default;
    // Hands over what has come, at most `most` events; a look at two words of memory when there is nothing.
    virtual unsigned poll(unsigned most, const std::function<void(const Event&)>& take) = 0;
    // The reader is about to sleep and wants fd() to become readable at the next event. False: there are events
    // already.
    virtual bool sleep() = 0;
    virtual int fd() const = 0;
    // Whether events of a probe are wanted; the gate of a chain that loses switches them off at their source.
    virtual void want(std::uint16_t probe, bool wanted) = 0;
};

}  // namespace chainio::probe
