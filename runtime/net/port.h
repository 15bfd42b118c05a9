// Declared UDP traffic of one interface, in frames of the shared region: requests come as descriptors, and leave as
// their own answers. Everything else on the interface stays with the kernel. One thread.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/metrics/fallbacks.h"
#include "runtime/net/packet.h"
#include "runtime/net/path_mtu.h"
#include "runtime/net/program.h"
#include "runtime/net/queue.h"
#include "runtime/umem/descriptor.h"

namespace chainio::net {

// Owners of frames here; chains and caches have smaller numbers. Ports of one memory have owners of their own, so that
// the end of one takes no frame from another.
class Owners {
  public:
    explicit Owners(std::uint16_t port) : port_(port) {}
    umem::Owner posted() const { return kPosted + port_; }      // with the kernel, to receive into
    umem::Owner received() const { return kReceived + port_; }  // a request that has no answer yet
    umem::Owner sending() const { return kSending + port_; }    // with the kernel, to be sent
    bool have(umem::Owner owner) const { return owner == posted() || owner == received() || owner == sending(); }
    // Whether it is one of any port, whose frames do not come back while that is open.
    static bool keep(umem::Owner owner) { return owner >= kPosted && owner < kSending; }

  private:
    static constexpr umem::Owner kPosted = 0xf0000000, kReceived = 0xf1000000, kSending = 0xf2000000;
    umem::Owner port_;
};

inline constexpr std::size_t kMostParts = 17;         // frames of one datagram
inline constexpr std::uint32_t kRoomForHeaders = 64;  // of a packet: Ethernet, IPv6 and UDP
using Parts = std::array<std::span<std::uint8_t>, kMostParts>;

struct PortOptions {
    std::string interface;
    std::vector<std::uint16_t> ports;
    Address bound{};               // what the services' sockets are bound to: nothing else is taken; zeroes: any
    unsigned queues = 0;           // 0: all that the interface has
    std::uint32_t entries = 1024;  // frames a queue, a power of two
    Attach attach = Attach::automatic;
    bool share = false;  // lets programs of others come later, by libxdp's dispatcher
    Copy copy = Copy::automatic;
    bool need_wakeup = true, multi_buffer = true;
    std::vector<KeptService> kept = {};  // by service, whose replies the program keeps
    bool whole_requests = false;         // leaves to the kernel what does not fit into one frame
    std::uint16_t number = 0;            // of the port, which no other open one of its memory has
};

struct PortCounters {
    std::uint64_t received = 0, answered = 0, released = 0, malformed = 0;
    std::uint64_t payload_copies = 0;  // answers that were put together by copying: 0 where the kernel has multi-buffer
    std::uint64_t pieces = 0;          // descriptors of packets that were put on a ring
    std::uint64_t kicks = 0, no_frame = 0, ring_full = 0, down = 0;
    std::uint64_t taken = 0, passed = 0;  // by the program
    std::uint64_t dropped = 0;            // by the kernel, for want of a frame or of room in a ring
    std::uint64_t invalid = 0;            // descriptors that the kernel refused
};

// Why an answer did not leave; nothing has changed, and the request still wants an answer or a release.
enum class AnswerError { not_a_request, bad_range, bad_frame, too_large, ring_full };
std::string_view name_of(AnswerError error);

class Port {
  public:
    static std::expected<std::unique_ptr<Port>, Refusal> open(const PortOptions& options, umem::Slab& slab,
                                                              metrics::Fallbacks& fallbacks);
    // Takes all its frames back, answered or not.
    ~Port();
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    // Requests that have come in, at most as many as `out` has room for: kind `receive`, the payload's first byte and
    // whole length, `target` the queue.
    std::size_t receive(std::span<umem::Descriptor> out);
    std::size_t came();  // how many packets, or pieces of such, wait in the rings to be received
    // The payload as it lies in the frames of a request: how many parts, one unless it came in several frames.
    std::size_t parts(const umem::Descriptor& request, Parts& out) const;

    // Sends the first `length` bytes from the request's payload on as its answer, written there by the caller; they may
    // be more than came, as far as the frame goes.
    std::expected<void, AnswerError> answer(const umem::Descriptor& request, std::uint32_t length);
    // A reply of any number of datagrams, from frames of at least 4 KiB that are all the port's from begin_reply() on
    // and go back to the slab when end_reply() was called and everything has left. A datagram is stretches of these
    // frames, the first of which has room for the packet's headers in front of it (kRoomForHeaders). The request stays,
    // for further replies; release() takes it back. Without multi-buffer a datagram that is not in one frame is copied
    // into one, and counted.
    bool begin_reply(std::span<const umem::Frame> frames, umem::Owner owner);
    std::expected<void, AnswerError> reply(const umem::Descriptor& request, std::span<const umem::Descriptor> data);
    void end_reply(std::span<const umem::Frame> frames);
    // The longest payload of a datagram back to where the request came from.
    std::uint32_t longest_reply(const umem::Descriptor& request) const {
        return largest_payload(chunk(request.frame).v6);
    }
    // Of a reply's longest datagram of that many bytes, not more than longest_reply(), what the whole way back takes.
    std::uint32_t longest_on_way(const umem::Descriptor& request, std::uint32_t wanted);
    // Of a request that has not been answered.
    Ends ends(const umem::Descriptor& request) const {
        const Chunk& first = chunk(request.frame);
        return ends_of({slab_.data(request.frame) + first.begin, first.header_bytes}, first.v6);
    }
    // That of one that any request like it may be answered with: the program sends what it keeps over IPv4 and IPv6.
    std::uint32_t longest_kept() const { return largest_payload(true); }
    // From here on everything goes to the kernel, as before the port was opened; what was received can be answered.
    void stop_taking();
    // Datagrams to the addresses that the interface has by now are taken, as far as services are bound to them. Refused
    // as `unsupported` where there are too many: some are taken. Any other refusal leaves all as it was.
    std::expected<void, Refusal> look_at_addresses();
    // What longest_reply() goes by from here on. What is kept for the driver was made for the one before, and is
    // forgotten.
    void use_mtu(unsigned mtu) {
        interface_.mtu = mtu;
        program_.replies().forget();
    }
    // Sends a whole packet from a frame that belongs to `owner`, as a client of somebody else's service does.
    std::expected<void, AnswerError> transmit(umem::Frame frame, std::uint32_t length, unsigned queue,
                                              umem::Owner owner);
    // Gives a request back without an answer; false: it is none.
    bool release(const umem::Descriptor& request);

    // The replies that the interface's program keeps. After look_at_peer() it sends them if they arrive; FeatureNews
    // and LinkNews say when to look again.
    ReplyTable& replies() { return program_.replies(); }
    KeptCounters kept(std::size_t service) const { return program_.kept(service); }
    // With LinkNews, `links_are_heard`, some are sent that arrive only until a link has changed.
    // False: for the moment the kernel cannot be asked how they arrive, and the program sends none.
    bool look_at_peer(bool links_are_heard);
    cio_xdp_answering answering() const { return answering_; }
    std::string why_silent() const;  // where it is not answering

    // Hands over what waits to be sent, takes back what has left, and posts frames. To be called once a turn.
    void flush();
    // Whether something could not be handed over that no event will tell of: flush() is to be called again soon.
    bool unsent() const { return unsent_; }
    // Whether something waits for the interface to be up again, of which netlink tells.
    bool waits_for_link() const { return down_; }
    // Until something came in or the time is over.
    void wait(int milliseconds);
    std::vector<int> fds() const;

    const Interface& interface() const { return interface_; }
    const Mode& mode() const { return mode_; }
    unsigned queues() const { return static_cast<unsigned>(queues_.size()); }
    std::string describe() const;
    PortCounters counters() const;
    std::uint64_t dropped() const;  // of these
    // Requests that have no answer yet, frames that are being sent, and frames that wait for what comes in.
    std::uint64_t unanswered() const { return unanswered_; }
    std::uint64_t posted() const;
    std::uint64_t sending() const { return sending_; }

  private:
    struct Chunk {
        umem::Frame next = umem::kNoFrame;    // further part of the same request
        umem::Frame head = umem::kNoFrame;    // of the frame that a sent chunk is part of
        std::uint16_t begin = 0, length = 0;  // what was received into it
        std::uint16_t header_bytes = 0;       // of a request's first chunk; 0 in all others
        std::uint16_t queue = 0;              // by which its answer leaves
        std::uint16_t pending = 0;            // pieces of this frame that are being sent
        bool v6 = false;
    };
    struct Piece {
        umem::Frame frame;
        std::uint32_t offset, length;
    };
    Port(Interface interface, Program program, umem::Slab& slab, std::uint16_t number);
    std::expected<void, Refusal> take(Addresses now);
    void note_fallbacks(const PortOptions& options, metrics::Fallbacks& fallbacks) const;
    Chunk& chunk(umem::Frame frame) { return chunks_[frame / (kChunk / umem::kUnit)]; }
    const Chunk& chunk(umem::Frame frame) const { return chunks_[frame / (kChunk / umem::kUnit)]; }
    std::uint8_t* bytes(const Piece& piece) const { return slab_.data(piece.frame) + piece.offset; }
    bool is_request(const umem::Descriptor& descriptor) const;
    void fetch(const xdp_desc& desc) const;
    void received(Queue& queue, unsigned number, const xdp_desc& desc, std::span<umem::Descriptor> out,
                  std::size_t& count);
    void post(Queue& queue);
    void reap(Queue& queue);
    bool kick(Queue& queue);
    // Pieces of one packet, at most kMostParts.
    struct Packet {
        std::array<Piece, kMostParts> pieces;
        std::size_t count = 0;
        bool add(umem::Frame frame, std::uint32_t offset, std::uint32_t length);
    };
    // The queue that sends for the one of that number: not each that receives does.
    unsigned sender(unsigned number) const {
        return number % std::min(interface_.senders, static_cast<unsigned>(queues_.size()));
    }
    bool room(unsigned number, std::size_t pieces);
    void push(unsigned number, const Packet& packet);
    // `lo` has an MTU of 65,536; the lengths of packets have 16 bits.
    std::uint32_t largest_payload(bool v6) const {
        const std::uint32_t most = mode_.multi_buffer ? 65535u : std::uint32_t{kChunk} - kEthernet;
        return std::min(interface_.mtu, most) - (v6 ? kIpv6 : kIpv4) - kUdp;
    }
    void head(const umem::Descriptor& request, std::uint32_t length, std::uint16_t sum);
    void give_back(umem::Frame first);
    std::expected<void, AnswerError> reply_by_copy(const Chunk& request, std::span<const umem::Descriptor> data);
    void let_go(umem::Frame frame);

    Interface interface_;
    Program program_;
    PathMtu path_mtu_;
    umem::Slab& slab_;
    Owners owners_;
    Mode mode_;
    std::shared_ptr<Umem> umem_;
    std::vector<std::unique_ptr<Queue>> queues_;
    std::vector<umem::Frame> assembling_,
        last_;  // by queue: a request whose parts have not all come, and its last part
    std::vector<Chunk> chunks_;
    std::uint32_t serial_ = 0;
    std::vector<std::uint16_t> ports_;
    Address bound_{};
    std::uint32_t longest_frame_ = 0;
    bool whole_requests_ = false;
    unsigned first_queue_ = 0;  // whose turn it is to be read first
    std::uint64_t unanswered_ = 0, sending_ = 0;
    PortCounters counters_;
    cio_xdp_answering answering_ = CIO_XDP_SILENT;
    int peer_unasked_ = 0;  // why the kernel could not be asked about the peer, as errno has it
    bool unsent_ = false, down_ = false;
    bool taking_ = false;  // the program has been told what to take
};

}  // namespace chainio::net
