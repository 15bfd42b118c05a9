// The events of all rings. Programs write them, so nothing in them is believed: an event that cannot be is counted, and
// the rest of what its ring held is thrown away with it.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/shadow/nested.h"
#include "runtime/shim/protocol.h"

namespace chainio::shadow {

struct Message {
    shim::Event event;
    std::span<const std::uint8_t> payload;  // of kinds that have one; valid during the call
    std::uint32_t ring;                     // of the thread that posted it
    std::uint32_t asked = 0;                // bytes, of a read: Event::length or more, where the file ended before
};

class MessageSink {
  public:
    virtual ~MessageSink() = default;
    virtual void on_message(const Message& message) = 0;
    // A thread has begun to post: of a process that was not heard of before.
    virtual void on_process(std::uint32_t process) = 0;
    // Whether reads of the process may be served.
    virtual bool may_serve(std::uint32_t process) {
        (void)process;
        return false;
    }
    // What the last messages have led to is to be begun before there are more.
    virtual bool pauses() const { return false; }
};

class Inbox {
  public:
    Inbox(shim::Region& region, std::uint32_t classes, std::uint32_t sockets);
    // Hands over what the known rings hold, at most `most` events of each, and one of each when the sink pauses; looks
    // for new rings first when `all`. Returns how many events there were.
    unsigned drain(MessageSink& sink, unsigned most, bool all);
    // Hands over what any ring holds now, whether or not the sink pauses. It ends, even if programs go on posting.
    void drain_rest(MessageSink& sink);
    // Whether a ring holds something: any ring with `all`, else one that is known. After Region::asleep was set.
    bool pending(bool all) const;
    // Frees rings whose threads have ended. To be called now and then: a ring is only given up when it has not moved
    // since the last call.
    void reclaim();
    unsigned rings() const { return static_cast<unsigned>(active_.size()); }

  private:
    struct Head {
        std::uint32_t position = 0;
        std::uint32_t seen_at_reclaim = 0;
        std::uint32_t lost = 0;
        std::uint32_t process = 0, image = 0;
        std::uint32_t poster = 0;  // of its last event that was not that process's
        bool active = false;
        bool still = false;  // has not moved from one reclaim() to the next
    };
    struct Heard {
        NestedProcess process;
        std::uint32_t image;   // of one elsewhere: its numbers come again as soon as its namespace has ended
        bool is_gone = false;  // at the last look: what it has still to say is taken before it is forgotten
        bool operator==(const Heard& other) const { return process == other.process && image == other.image; }
    };
    template <typename Look>
    bool any_used(Look look) const;
    void find_rings(MessageSink& sink);
    unsigned drain_ring(std::uint32_t index, MessageSink& sink, unsigned most, bool may_pause);
    bool take(std::uint32_t index, std::uint32_t available, MessageSink& sink, std::uint32_t& used);
    bool plausible(const shim::Event& event) const;
    void count_lost(std::uint32_t index);
    void look_elsewhere();
    void forget_ended();
    bool is_gone(const shim::Holder& holder, std::uint32_t owner) const;
    bool is_elsewhere(const shim::Holder& holder) const;
    void note_process(const shim::Holder& holder, std::uint32_t process, MessageSink& sink);
    bool hear_of(const Heard& process);
    void note_poster(std::uint32_t index, std::uint32_t process);

    shim::Region& region_;
    const std::uint32_t classes_, sockets_;  // not as the region says: programs may write there
    const std::uint32_t pids_;               // our PID namespace; 0: not known
    std::vector<Head> heads_;
    std::vector<std::uint32_t> active_;
    std::vector<Heard> processes_;         // here and elsewhere
    std::vector<NestedProcess> gone_;      // elsewhere, as of this reclaim()
    unsigned pause_ = 0, until_look_ = 0;  // of looks elsewhere, in calls of reclaim()
    std::array<std::uint8_t, 65536> copy_{};
};

}  // namespace chainio::shadow
