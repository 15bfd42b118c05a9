// The server's sockets on an io_uring that others use as well: multishot accept and receive into provided buffers, and
// sends; datagrams likewise. What is started goes out, and what happens comes in, with the ring's turns.
#pragma once
#include <liburing.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "runtime/engine/flight.h"
#include "runtime/metrics/fallbacks.h"
#include "runtime/ring/shared.h"
#include "runtime/service/provided.h"

namespace chainio::service {

enum class NetOp : std::uint8_t { accept, receive, send, send_zero_copy, cancel, receive_from, send_to, readable };

struct NetEvent {
    NetOp op = NetOp::cancel;
    std::uint32_t index = 0;  // of the listener or connection
    std::int32_t result = 0;
    bool more = false;                        // the operation goes on
    std::uint32_t buffer = engine::kNoIndex;  // received bytes are in it, until give_back()
    std::uint32_t part = 0;                   // of what is sent without a copy
    bool let_go =
        false;  // a send without a copy whose event said `more`: the kernel has no use for its bytes any more,
    bool copied = false;  // which it has copied all the same
};

// A piece of what is sent; with a registered buffer, without a copy.
struct Outgoing {
    const std::uint8_t* data = nullptr;
    std::uint32_t length = 0;
    std::uint32_t part = 0;
    int buffer = -1;
};

// A datagram where it was received: the bytes, who sent it, and to which of our addresses.
struct Received {
    std::span<std::uint8_t> bytes;
    std::span<std::uint8_t> peer, control;
    bool cut = false;  // it was longer than the buffer
};

class Net {
  public:
    static std::expected<std::unique_ptr<Net>, std::string> create(ring::Shared& ring, metrics::Fallbacks& fallbacks);
    Net(const Net&) = delete;
    Net& operator=(const Net&) = delete;

    void accept(std::uint32_t listener, int fd);
    void receive(std::uint32_t connection, int fd);
    // To there, once; the event names no buffer.
    void receive_to(std::uint32_t connection, int fd, std::span<std::uint8_t> room);
    void stop_receiving(std::uint32_t connection);
    void stop_accepting(std::uint32_t listener);
    // Sends some of the first pieces, and gives how many events there will be, beside those of bytes that the kernel
    // lets go of.
    unsigned send(std::uint32_t connection, int fd, std::span<const Outgoing> pieces);
    // A kernel that does not send so: nothing is, from then on.
    void without_zero_copy();
    bool zero_copy() const { return zero_copy_; }

    // Datagrams; `index` is given back with each event. A datagram's buffer holds what send_to() needs, so that it is
    // given back last. The bytes at `parts` stay until the event of their send.
    void receive_from(std::uint32_t index, int fd);
    void stop_receiving_from(std::uint32_t index);
    std::optional<Received> datagram(std::uint32_t buffer, std::size_t length);
    void send_to(std::uint32_t index, int fd, const Received& to, std::span<const iovec> parts);
    void give_back_datagram(std::uint32_t buffer) { datagrams_.give_back(buffer); }

    // An event each time that something comes to another socket.
    void watch(std::uint32_t index, int fd);
    void stop_watching(std::uint32_t index);

    // At most events.size() of what has happened until the ring's last turn.
    unsigned take(std::span<NetEvent> events);
    bool any_came() const { return seat_->waiting() != 0; }
    // Whether some of it is, or may be, what a connection has received.
    bool any_received(std::uint32_t connection) const { return seat_->has_for(name_of(NetOp::receive, connection)); }
    std::span<const std::uint8_t> received(std::uint32_t buffer, std::size_t length) const {
        return {buffers_.data(buffer), length};
    }
    void give_back(std::uint32_t buffer) { buffers_.give_back(buffer); }
    // A kernel before 6.0 has no multishot receive: each receive is then one operation.
    void without_multishot();
    bool multishot() const { return multishot_; }
    std::string describe() const;

    static constexpr std::uint32_t kBuffers = 1024, kBufferBytes = 4096;
    static constexpr std::uint32_t kDatagrams = 1024, kPeerBytes = 32, kControlBytes = 64;
    // Of a datagram: itself, and what the kernel says of it.
    static constexpr std::uint32_t kDatagramBytes =
        ir::kLongestDatagram + sizeof(io_uring_recvmsg_out) + kPeerBytes + kControlBytes;
    static constexpr std::uint32_t kDatagramsAtOnce = 128;  // before the kernel is told of more room
    static constexpr std::size_t kMostParts = 80;           // of a datagram that is sent

  private:
    Net(std::unique_ptr<ring::Seat> seat, metrics::Fallbacks& fallbacks)
        : seat_(std::move(seat)),
          fallbacks_(fallbacks),
          buffers_(kBuffers, kBufferBytes, kBuffers),
          datagrams_(kDatagrams, kDatagramBytes, kDatagramsAtOnce),
          messages_(kMessages) {}
    // What sendmsg is told; the kernel has read it when the submission returns.
    struct Message {
        msghdr header{};
        std::array<iovec, kMostParts> parts{};
    };
    static constexpr std::size_t kMessages = 256;

    void cancel(NetOp op, std::uint32_t index);
    static std::uint64_t name_of(NetOp op, std::uint32_t index, std::uint32_t part = 0) {
        return static_cast<std::uint64_t>(op) << 40 | std::uint64_t{part} << 32 | index;
    }
    io_uring_sqe* next_sqe(NetOp op, std::uint32_t index) { return seat_->next_sqe(name_of(op, index)); }
    void make_room(std::size_t operations);
    Message& next_message();

    std::unique_ptr<ring::Seat> seat_;
    metrics::Fallbacks& fallbacks_;
    Provided buffers_, datagrams_;
    std::vector<Message> messages_;
    std::size_t messages_used_ = 0;
    std::uint64_t messages_of_ = 0;  // the ring's submission that those wait for
    msghdr receive_form_{};
    bool multishot_ = true, zero_copy_ = true;
};

}  // namespace chainio::service
