// The server's sockets on an io_uring: multishot accept and receive into provided buffers, and sends.
#pragma once
#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>

#include "runtime/engine/flight.h"
#include "runtime/metrics/fallbacks.h"
#include "runtime/ring/ring.h"

namespace chainio::service {

enum class NetOp : std::uint8_t { accept, receive, send, cancel };

struct NetEvent {
    NetOp op = NetOp::cancel;
    std::uint32_t index = 0;  // of the listener or connection
    std::int32_t result = 0;
    bool more = false;                        // the operation goes on
    std::uint32_t buffer = engine::kNoIndex;  // received bytes are in it, until give_back()
};

class Net {
  public:
    static std::expected<std::unique_ptr<Net>, std::string> create(unsigned connections, metrics::Fallbacks& fallbacks);
    ~Net();
    Net(const Net&) = delete;
    Net& operator=(const Net&) = delete;

    void accept(std::uint32_t listener, int fd);
    void receive(std::uint32_t connection, int fd);
    void stop_receiving(std::uint32_t connection);
    void stop_accepting(std::uint32_t listener);
    void send(std::uint32_t connection, int fd, std::span<const std::uint8_t> bytes);

    // Hands over what was started to the kernel, and takes at most events.size() of what has happened.
    std::expected<unsigned, std::string> enter(std::span<NetEvent> events);
    std::span<const std::uint8_t> received(std::uint32_t buffer, std::size_t length) const {
        return {buffers_.base() + std::size_t{buffer} * kBufferBytes, length};
    }
    void give_back(std::uint32_t buffer);
    int poll_fd() { return ring_.event_fd(); }
    // A kernel before 6.0 has no multishot receive: each receive is then one operation.
    void without_multishot();
    bool multishot() const { return multishot_; }
    std::string describe() const;

    static constexpr std::uint32_t kBuffers = 1024, kBufferBytes = 4096;

  private:
    Net(ring::Ring ring, metrics::Fallbacks& fallbacks)
        : ring_(std::move(ring)), fallbacks_(fallbacks), buffers_(std::size_t{kBuffers} * kBufferBytes) {}
    io_uring_sqe* next_sqe(NetOp op, std::uint32_t index);

    ring::Ring ring_;
    metrics::Fallbacks& fallbacks_;
    engine::LazyMemory buffers_;
    io_uring_buf_ring* buffer_ring_ = nullptr;
    bool multishot_ = true;
};

}  // namespace chainio::service
