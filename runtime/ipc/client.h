// The client of a service over shared memory: it meets the server, hands requests over, and waits for their replies.
// Nothing is allocated once it is open. One thread at a time.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ipc/channel.h"
#include "runtime/ipc/meeting.h"
#include "runtime/ipc/own_fd.h"

namespace chainio::ipc {

struct ClientOptions {
    Shape shape;
    unsigned spin_us = 0;      // how long it looks before it sleeps
    unsigned open_ms = 10000;  // how long the server may take to answer
};

// What an open client cannot do. The text is valid until its next call.
struct Wrong {
    int number;  // an errno
    const char* why;
};

struct Answered {
    std::uint64_t user_data = 0;
    std::uint32_t number = 0;  // of the frame, which is the caller's from here on
    std::span<const std::uint8_t> bytes;
    bool answered = false;
};

// Until when something is waited for.
class Deadline {
  public:
    explicit Deadline(int timeout_ms)
        : endless_(timeout_ms < 0), at_(Clock::now() + std::chrono::milliseconds(timeout_ms)) {}
    int left_ms() const;  // as poll() has it
    bool is_over() const { return !endless_ && Clock::now() >= at_; }

  private:
    using Clock = std::chrono::steady_clock;
    bool endless_;
    Clock::time_point at_;
};

class Client {
  public:
    static std::expected<Client, Trouble> open(const std::string& path, std::string_view service,
                                               const ClientOptions& options);

    unsigned in_flight() const { return in_flight_; }  // submitted, and not reaped
    std::size_t longest() const { return end_.shape().frame_bytes; }
    std::size_t frames() const { return slots_.size(); }
    std::uint8_t* frame(std::uint32_t number) const { return end_.frame(number).data(); }
    // The frame that begins there.
    std::optional<std::uint32_t> number_of(const void* frame) const;

    // A frame to write a request into; none: all of them are on their way, or with the caller.
    std::optional<std::uint32_t> take();
    // Hands over a frame that was taken, or came with a reply, and whose first bytes are a request.
    std::expected<void, Wrong> submit(std::uint32_t number, std::size_t bytes, std::uint64_t user_data);
    // How many replies came; 0: none in time, or none is on its way. Below 0 the time has no end.
    std::expected<unsigned, Wrong> reap(std::span<Answered> out, int timeout_ms);
    // Gives back a frame that was taken, or came with a reply.
    std::expected<void, Wrong> release(std::uint32_t number);
    // A request and its reply, whose length it gives.
    std::expected<std::size_t, Wrong> call(std::span<const std::uint8_t> request, std::span<std::uint8_t> room,
                                           int timeout_ms);
    // Readable where there are replies, or the server is gone. It may be so without either: a reap() that finds nothing
    // ends that.
    int fd();

  private:
    enum class State : std::uint8_t {
        free,
        caller,    // has it
        sent,      // by submit()
        called,    // by a call() that waits for it
        given_up,  // by a call() whose time was up
        kept,      // came back while a call() waited for its own
    };
    struct Slot {
        std::uint64_t user_data = 0;
        State state = State::free;
    };

    Client(ClientEnd end, OwnFd socket, OwnFd server_bell, OwnFd own_bell, OwnFd watch, unsigned spin_us);
    std::optional<Wrong> stopped();
    std::expected<void, Wrong> push(std::uint32_t number, std::size_t bytes);
    bool came(Answered& out);
    bool next(Answered& out);
    void keep(const Answered& answered);
    void collect();
    void give_up(std::uint32_t number);
    std::expected<std::size_t, Wrong> called(const Answered& answered, std::span<std::uint8_t> room);
    bool spin(const Deadline& deadline) const;
    void wait(const Deadline& deadline);
    void tell_watcher();
    [[gnu::format(printf, 3, 4)]] std::unexpected<Wrong> wrong(int number, const char* form, ...);

    ClientEnd end_;
    OwnFd socket_, server_bell_;
    OwnFd own_bell_;  // rung by this side, for a watcher of what is here already
    OwnFd watch_;     // an epoll of the socket and that bell
    unsigned spin_us_;
    std::vector<Slot> slots_;          // by frame
    std::vector<std::uint32_t> free_;  // frames
    std::vector<Answered> kept_;       // a ring of as many as there are frames
    std::size_t first_kept_ = 0, kept_count_ = 0;
    unsigned in_flight_ = 0;
    bool watched_ = false;          // by a caller of fd(), for whom the bell is to be rung whenever something comes
    bool gone_ = false;             // the server
    const char* broken_ = nullptr;  // what the server has done that it must not
    std::array<char, 200> text_{};
};

}  // namespace chainio::ipc
