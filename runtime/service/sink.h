// Where the parts of a reply go.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/engine/engine.h"

namespace chainio::service {

class Sink {
  public:
    virtual ~Sink() = default;
    // Takes as many bytes as there is room for, and says how many.
    virtual std::size_t add(std::span<const std::uint8_t> bytes) = 0;
    // Where the next bytes may be written without add(), as far as there is room in one piece; then took() says how
    // many were. Nothing else is asked of the sink in between.
    virtual std::span<std::uint8_t> space() { return {}; }
    virtual void took(std::size_t length) { (void)length; }
    // Sends bytes from where they lie, a frame of the engine's that is handed out, and then gives the frame back.
    // False: this cannot be; the frame is still the caller's, and the bytes want to be added.
    virtual bool refer(const engine::Stretch& bytes) {
        (void)bytes;
        return false;
    }
    // No more bytes of a frame that refer() took will follow.
    virtual void let_go(umem::Frame frame) { (void)frame; }
    // Whether it sends what it has of a reply that is not whole, so that frames come back which it was let go of.
    virtual bool sends_early() const { return false; }
};

}  // namespace chainio::service
