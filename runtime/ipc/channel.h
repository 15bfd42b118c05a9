// What one client and the server share: requests go one way and their answers come back, in frames that belong to one
// of the two at a time. Neither side believes the other. docs/protocol.md specifies it byte for byte.
#pragma once
#include <atomic>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/ipc/own_fd.h"
#include "runtime/umem/descriptor_ring.h"
#include "runtime/umem/region.h"

namespace chainio::ipc {

inline constexpr std::uint32_t kChannelMagic = 0x6e616863;  // "chan"
inline constexpr std::uint16_t kChannelVersion = 1;
inline constexpr std::uint32_t kMostFrames = 1024;

// How many requests may be on their way at once, and how long each of them and its answer may be.
struct Shape {
    std::uint32_t frames = 64;
    std::uint32_t frame_bytes = 65536;
};
// What is wrong with it; empty: nothing.
std::string wrong_shape(const Shape& shape);

// What the region begins with. The two rings follow, requests first, and then the frames.
struct ChannelHeader {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t reserved;
    std::uint32_t frames;
    std::uint32_t frame_bytes;
    std::uint32_t entries;  // of each ring
    std::uint32_t zero[11];
    // Who has found nothing, and sleeps, says so; who then pushes something takes that back and rings the doorbell.
    alignas(64) std::atomic<std::uint32_t> server_sleeps;
    alignas(64) std::atomic<std::uint32_t> client_sleeps;
};
static_assert(sizeof(ChannelHeader) == 192);

// What both ends have and do.
class End {
  public:
    End(End&&) noexcept = default;
    End& operator=(End&&) noexcept = default;
    const Shape& shape() const { return shape_; }
    const umem::Region& region() const { return region_; }
    std::span<std::uint8_t> frame(std::uint32_t number) const {
        return {region_.base() + frames_at_ + std::size_t{number} * shape_.frame_bytes, shape_.frame_bytes};
    }
    // As the other side says: it may be more than there can be, which the next look finds.
    std::uint32_t came() const { return in_.waiting(); }
    bool any_came() const { return came() != 0; }
    // From here on until awake() the other side rings when something comes. True: nothing had come.
    bool fall_asleep();
    // Whether the doorbell was rung meanwhile, or is about to be.
    bool awake();

  protected:
    End(umem::Region region, const Shape& shape, std::size_t frames_at, umem::Producer out, umem::Consumer in,
        std::atomic<std::uint32_t>& own_sleep, std::atomic<std::uint32_t>& other_sleep)
        : region_(std::move(region)),
          shape_(shape),
          frames_at_(frames_at),
          out_(out),
          in_(in),
          own_sleep_(&own_sleep),
          other_sleep_(&other_sleep) {}
    umem::Frame name_of(std::uint32_t number) const {
        return static_cast<umem::Frame>((frames_at_ + std::size_t{number} * shape_.frame_bytes) / umem::kUnit);
    }
    // The frame that a descriptor names, where its bytes lie in it.
    std::optional<std::uint32_t> number_of(const umem::Descriptor& descriptor) const;
    // Hands it over. True: the other side sleeps, and its doorbell is to be rung.
    std::expected<bool, umem::Fault> push(const umem::Descriptor& descriptor);

    umem::Region region_;
    Shape shape_;
    std::size_t frames_at_;
    umem::Producer out_;
    umem::Consumer in_;
    std::atomic<std::uint32_t>*own_sleep_, *other_sleep_;
};

struct Request {
    std::uint32_t number = 0;  // of the frame that it came in, and that its answer goes into
    std::span<const std::uint8_t> bytes;
};

class ServerEnd : public End {
  public:
    static std::expected<ServerEnd, std::string> create(const Shape& shape);
    // Whether there was a request. What the client writes into its frame from here on is what it would be read as, so
    // that whoever takes one over copies it first. A Fault ends the channel.
    std::expected<bool, umem::Fault> take(Request& out);
    // The answer, as long as it says, lies in the request's frame. True: the client is to be woken.
    std::expected<bool, umem::Fault> answer(std::uint32_t number, std::uint32_t length);
    std::expected<bool, umem::Fault> release(std::uint32_t number);  // without an answer
    unsigned held() const { return held_count_; }

  private:
    using End::End;
    std::expected<bool, umem::Fault> give_back(umem::Kind kind, std::uint32_t number, std::uint32_t length);

    std::vector<std::uint32_t> serials_;  // by frame
    std::vector<bool> held_;              // here: those that were taken and not given back
    unsigned held_count_ = 0;
};

struct Reply {
    std::uint32_t number = 0;  // of the frame
    std::uint32_t serial = 0;
    std::span<std::uint8_t> bytes;
    bool answered = false;
};

class ClientEnd : public End {
  public:
    // The region that the server has made, whose descriptor stays the caller's.
    static std::expected<ClientEnd, std::string> attach(int fd);
    // The first `length` bytes of a frame that the server does not have are a request. True: the server is to be woken.
    std::expected<bool, umem::Fault> submit(std::uint32_t number, std::uint32_t length, std::uint32_t serial);
    // Whether there was one. A Fault ends the channel.
    std::expected<bool, umem::Fault> reap(Reply& out);
    bool is_on_its_way(std::uint32_t number) const { return sent_[number]; }

  private:
    using End::End;
    std::vector<bool> sent_;
};

// Whether it can be rung and hushed without waiting and without a signal, as an eventfd can that does not block, and a
// pipe or a socket, which another process could hand over in its place, cannot.
bool is_bell(int fd);
// Wakes whoever waits for it; one that has been rung already stays so.
void ring_bell(int fd);
// Whether it was rung since the last time.
bool hush_bell(int fd);

}  // namespace chainio::ipc
