// The processes that reach services by shared memory: how they come, what they send, and how they go. What is watched
// and what a service is, its owner knows.
#pragma once
#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ipc/channel.h"
#include "runtime/ipc/own_fd.h"
#include "runtime/ring/shared.h"

namespace chainio::service {

// What the owner of the clients does for them.
struct RingHost {
    // The service of a name; an error is what its client is told.
    std::function<std::expected<std::uint32_t, std::string>(std::string_view)> find;
    // An event each time that something comes to a descriptor, by this number; and no more of them.
    std::function<void(std::uint32_t number, int fd)> watch;
    std::function<void(std::uint32_t number)> stop_watching;
    // One has come to a service, or one of it is gone.
    std::function<void(const std::string& service)> joined, left;
    // Whether there is room for a request of a service.
    std::function<bool(std::uint32_t service)> has_room;
    // A client has broken the protocol, and how.
    std::function<void(std::uint32_t service, std::string_view how)> broken;
};

// A request as a client has handed it over.
struct RingRequest {
    std::uint32_t client = 0, frame = 0, service = 0;
    std::span<const std::uint8_t> bytes;  // which it may still write to
};

class RingClients : public ring::Beside {
  public:
    static constexpr std::uint32_t kMost = 256;
    static constexpr std::uint32_t kPlaces = kMost + 16;  // as one is told that there are so many once it has spoken
    static constexpr unsigned kAtOnce = 16;               // requests of a client, until others have their turn

    // `listener`: a socket that listens and does not wait, and stays its maker's. `ring`: whose turns are taken.
    RingClients(int listener, ring::Shared& ring, RingHost host);
    ~RingClients() override { ring_.set_beside(nullptr); }
    RingClients(const RingClients&) = delete;
    RingClients& operator=(const RingClients&) = delete;

    // Something came to what is watched under a number; `more`: it is watched further.
    void came(std::uint32_t number, bool more);
    // Why those who have connected cannot be taken on, as errno has it, until accept() is called; 0: they can.
    int shortage() const { return shortage_; }
    void accept();
    // Whether any have not said yet what they want; and ends those who have not for so long.
    bool any_unheard() const { return unheard_ != 0; }
    void give_up_unheard(std::uint64_t now_ns, std::uint64_t timeout_ns);
    // At most out.size() of what clients have sent, everybody's in turn. What there is no room for stays in the rings.
    unsigned take(std::span<RingRequest> out);
    // Where the answer to a request is written. Its client may be gone: nobody reads it then.
    std::span<std::uint8_t> room(std::uint32_t client, std::uint32_t frame) const;
    bool is_there(std::uint32_t client) const { return !clients_[client].leaving; }
    // The request's frame goes back with so much of an answer, or with none.
    void give_back(std::uint32_t client, std::uint32_t frame, std::optional<std::uint32_t> length);

    // Whether a client has sent something that is not left for want of room.
    bool any_came() override;
    // Until awake(), clients ring when they send something. False: one has already.
    bool fall_asleep() override;
    void awake();

    // Services have other numbers, or are gone, and their clients with them.
    void find_anew();
    // Takes nobody on, answers what has been sent by now, and ends.
    void drain();
    bool drained() const { return draining_ && !listening_ && used_ == 0; }
    unsigned count() const { return used_; }

  private:
    struct Client {
        ipc::OwnFd socket, bell;
        std::optional<ipc::ServerEnd> end;  // since its hello
        std::string name;                   // of the service
        std::uint32_t service = 0;
        std::uint32_t left = 0;      // to be taken before it ends
        std::uint64_t since_ns = 0;  // when it came
        unsigned watched = 0;
        bool used = false, leaving = false, ending = false;
        bool left_for_room = false;
    };
    static std::uint32_t socket_of(std::uint32_t client) { return 1 + 2 * client; }
    static std::uint32_t bell_of(std::uint32_t client) { return 2 + 2 * client; }
    // Does something with each who has joined and is there.
    template <class Do>
    void for_each(Do&& what) {
        for (std::uint32_t index = 0, left = used_; left != 0 && index < kPlaces; index++) {
            if (!clients_[index].used) continue;
            left--;
            if (clients_[index].end && !clients_[index].leaving) what(index, clients_[index]);
        }
    }
    unsigned take_from(std::uint32_t index, std::span<RingRequest> out);
    void hear(std::uint32_t index);
    std::expected<void, std::string> join(Client& client, std::uint32_t index);
    bool is_heard(const Client& client) const;
    void break_with(std::uint32_t index, umem::Fault fault);
    void leave(std::uint32_t index);
    void free_if_over(std::uint32_t index);
    void end_if_done(std::uint32_t index);

    int listener_;
    ring::Shared& ring_;
    RingHost host_;
    std::vector<Client> clients_;
    std::uint32_t next_ = 0;  // whose turn it is
    unsigned used_ = 0, unheard_ = 0, joined_ = 0;
    int shortage_ = 0;
    bool listening_ = true, draining_ = false, asleep_ = false;
};

}  // namespace chainio::service
