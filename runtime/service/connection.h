// The bytes of one TCP connection on their way in and out. Both ways are bounded, and nothing here knows the kernel.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/engine/flight.h"
#include "runtime/service/framing.h"
#include "runtime/service/output.h"
#include "runtime/service/peers.h"

namespace chainio::service {

struct Generation;

inline constexpr std::size_t kInput = CIO_MAX_BLOCK;  // of which a request may take all

// Received bytes; requests are taken from the front.
class Input {
  public:
    Input(std::uint8_t* memory, std::size_t size) : memory_(memory), size_(size) {}
    std::size_t room() const { return size_ - (end_ - begin_); }
    std::size_t held() const { return end_ - begin_; }
    // Takes as many bytes as there is room for behind those that are held, those that are skipped included, and says
    // how many. It moves these to the front when that pays.
    std::size_t add(std::span<const std::uint8_t> bytes);
    // Whether there is room behind those that are held now and there was none: the first request is not whole, and the
    // rest of it is to come.
    bool make_room();
    // Room for bytes that are received right there; it stays where it is until received() says how many were.
    std::span<std::uint8_t> lend();
    void received(std::size_t length);
    Request first(Request fields, const std::string& end, std::size_t most);
    std::span<const std::uint8_t> bytes() const { return {memory_ + begin_, end_ - begin_}; }
    // The bytes may move with the next add(), so that a request that runs is taken from the front only when it ends.
    void take(std::size_t length);
    // So many bytes behind those that were taken are thrown away, however they come; never while a request runs.
    void skip(std::uint64_t length);
    std::uint64_t skips() const { return skips_; }  // that have not come yet
    void clear() {
        begin_ = end_ = looked_ = 0;
        skips_ = 0;
        pinned_ = lent_ = false;
    }
    // While the first request runs, its bytes stay where they are.
    void pin(bool pinned) { pinned_ = pinned; }

  private:
    void move_to_front();
    // Who sends ahead more than there is room for would otherwise have all of it moved with each request that ends.
    bool pays_to_move() const { return held() <= begin_ || held() <= kFewBytes; }

    static constexpr std::size_t kFewBytes = 4096;
    std::uint8_t* memory_;
    std::size_t size_, begin_ = 0, end_ = 0, looked_ = 0;
    std::uint64_t skips_ = 0;  // none of the bytes that are held
    bool pinned_ = false, lent_ = false;
};

// One of the server's places for connections, used for one after the other.
struct Connection {
    Connection(std::uint8_t* input_memory, std::uint8_t* output_memory)
        : input(input_memory, kInput), output(output_memory, kOutput) {}
    Connection(const Input& in, const Output& out) : input(in), output(out) {}

    Input input;
    Output output;
    int fd = -1;
    Generation* generation = nullptr;          // under which its requests run
    std::uint32_t service = 0;                 // of the generation's spec
    std::uint32_t request = engine::kNoIndex;  // the slot in which its first request runs
    engine::QueueLink waiting_link, idle_link;
    std::uint32_t idle_line = engine::kNoIndex;  // among the idle ones; none: it is not
    std::uint32_t held_head = engine::kNoIndex,
                  held_tail = engine::kNoIndex;  // received buffers without room in `input`
    std::uint16_t rank = 0;
    std::uint16_t sending = 0;  // sends that are with the kernel, one behind the other
    std::uint16_t peer = Peers::kUnknown;
    bool waiting = false;      // its first request waits for a slot
    bool receiving = false;    // an operation of this kind is with the kernel
    bool stopping = false;     // the receive was told to end, as there is no room
    bool at_end = false;       // the peer sends no more
    bool leaving = false;      // ends once what was replied is sent
    bool lingering = false;    // everything is sent and the peer was told; what still comes is thrown away
    bool hungry = false;       // its request waits for memory, which may come back once what it has replied is sent
    bool blocked = false;      // its reply waits for room,
    bool was_blocked = false;  // as it did at the last look
    bool slow = false;         // and others waited for its place, which it leaves to them from then on
    bool shut = false;         // both ways, so that its operations end
    bool broken = false;       // nothing can be sent or received any more
    bool untaken = false;      // its peer does not take what was replied, and loses it
    bool dirty = false;        // to be looked at before the server waits
    bool no_buffer = false;    // the receive found no buffer; the next one goes without
    bool reset_peer = false;   // what the kernel kept for the peer was thrown away
    bool gathering = false;    // it is among those whose replies wait for their next ones
    bool displaced = false;    // it was closed for another one, which has come already
    // The newer spec has no place for the connection: until then what its peer sends is answered under the one before.
    std::uint64_t parting_until_ns = 0;
    // Nothing comes amid a request, and the connection is to end: it does unless something has come by then; 0: never.
    std::uint64_t quiet_until_ns = 0;
    // When the connection is given up, because the rest of a request has not come, or nobody takes a reply; 0: never.
    std::uint64_t request_deadline_ns = 0, send_deadline_ns = 0;
    std::uint64_t kept_deadline_ns = 0;  // the kernel is to let go of a frame by then, as the peer has what is in it
    std::uint64_t idle_since_ns = 0;     // where that is bounded; 0: something came or left, and it is not known yet
    std::uint64_t gathering_ns = 0;      // since when replies that are whole wait for their next ones; 0: none do
    std::uint64_t plain_until_ns = 0;    // nothing is sent without a copy
    std::uint64_t acknowledged = 0;      // bytes that the peer had taken at the last look
    std::uint64_t skips_before = 0;      // that were to come when the time for them began

    bool used() const { return fd >= 0; }
    bool parting() const { return parting_until_ns != 0; }
    // Whether a request of its peer has not been answered, or not all of a reply has been sent.
    bool is_owed() const { return request != engine::kNoIndex || waiting || !output.empty(); }
    // Whether nothing is known of its peer but that it is there.
    bool is_idle() const {
        return !is_owed() && held_head == engine::kNoIndex && input.held() == 0 && input.skips() == 0 && sending == 0 &&
               output.kept() == 0 && !leaving && !lingering && !broken && !at_end && !parting();
    }
    // Whether the time for the rest of a request begins anew: bytes that are skipped have it for each 64 KiB of them.
    bool time_begins();
    // Makes the place ready for another connection; its memory stays.
    void reset(int descriptor);
};

}  // namespace chainio::service
