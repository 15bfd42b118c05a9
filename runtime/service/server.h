// Serves the endpoints of a spec over io_uring and AF_XDP: connections and datagrams, their requests in order,
// timeouts, overload, the end. The one who owns it takes the turns of the ring, hands over the engine's completions,
// and calls step() and flush().
#pragma once
#include <algorithm>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/priority_queue.h"
#include "runtime/metrics/fallbacks.h"
#include "runtime/net/feature_news.h"
#include "runtime/net/link_news.h"
#include "runtime/net/port.h"
#include "runtime/service/connection.h"
#include "runtime/service/datagram.h"
#include "runtime/service/generation.h"
#include "runtime/service/net.h"
#include "runtime/service/own_source.h"
#include "runtime/service/plan.h"
#include "runtime/service/ring_clients.h"

namespace chainio::service {

struct ServerOptions {
    std::string address = "::";   // to listen at; "::" takes IPv4 as well
    unsigned connections = 1024;  // at once
    unsigned requests = 64;       // that run at once
    unsigned waiting = 512;       // requests that wait for their turn; more are shed
    std::size_t request_bytes = CIO_MAX_BLOCK;
    std::size_t datagram_bytes = 1400;    // of a reply that `on datagram` cuts into datagrams
    std::vector<std::string> interfaces;  // that `via xdp` takes datagrams from
    net::Copy copy = net::Copy::automatic;
    net::Attach attach = net::Attach::automatic;
    int rings = -1;                             // a socket at which clients of rings come; -1: none do
    bool share = false;                         // the interfaces with XDP programs that others attach by libxdp
    std::uint64_t timeout_ns = 10'000'000'000;  // for the rest of a request, and for a peer to take a reply
    std::uint64_t idle_ns = 0;                  // for which a connection may be idle; 0: however long
    // Results of that many bytes and more leave a connection without a copy, where they do; 0: none.
    std::uint32_t zero_copy_bytes = 49152;
    // How long replies of a connection wait for its next ones, at most and only while there is always something to do:
    // so long for each connection of which some wait, as their sends take a part of that; and some times as long for
    // what needs no chain.
    std::uint64_t gather_ns = 50'000;
    std::uint64_t most_gather_ns = 20'000'000;  // however many they are
};

struct Listening {
    std::uint32_t service = 0;
    bool tcp = true;
    std::uint16_t port = 0;  // that the kernel gave
    std::string address;
};

class Server {
  public:
    static constexpr std::uint32_t kXdpPlaces = 1024;  // datagrams of an interface at once
    // The memory for packets of an interface with so many queues: what waits in them for packets, and as much again for
    // those that have come and are not answered yet.
    static std::size_t packet_bytes(unsigned queues);

    // What is wrong where two endpoints would listen at one port; else empty.
    static std::string given_twice(const ir::Module& module, const Plan& plan, const std::vector<GivenPort>& ports);
    // Serves the endpoints that the plan has in user space.
    static std::expected<std::unique_ptr<Server>, std::string> create(engine::Engine& engine, Files files,
                                                                      const ServerOptions& options, const Plan& plan,
                                                                      const std::vector<GivenPort>& ports,
                                                                      ring::Shared& ring,
                                                                      metrics::Fallbacks& fallbacks);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    const std::vector<Listening>& listening() const { return listening_; }
    int next_timeout_ms() const {
        if (any_short()) return kShortTickMs;
        if (rings_ && (rings_->any_unheard() || rings_->shortage() != 0)) return kEndingTickMs;
        const auto opening = [](const Interface& each) { return each.tries != 0 || each.until_ns != 0; };
        if (draining_ || before_ || accept_again_ns_ != 0 || !waiting_.empty() ||
            std::ranges::any_of(interfaces_, opening))
            return kEndingTickMs;
        if (used_ != 0) return kTickMs;
        return is_of_link() ? kLookAtBoundMs : -1;
    }
    // Does what has come with the ring's last turn, and what can be done without waiting or asking the kernel. When it
    // is `until_ns` by the clock, what is left stays for the next step.
    void step(std::uint64_t until_ns);
    // Has replies leave, before each turn: AF_XDP's, and those that a connection's next ones were to leave with; of
    // these only what has waited long where others have `more` to be done at once. The turn may then last that long at
    // most, in milliseconds, or as long as may be: -1.
    int flush(bool more);
    void completed(const engine::Engine& engine, const engine::Completion& completion);

    // From now on requests run with another engine, spec and files; what has begun ends as it began. Connections go
    // over between two requests where the newer spec has their service with the same framing; the others end as drain()
    // ends them. An error leaves everything as it is. Not to be called while reloading().
    std::expected<void, std::string> reload(engine::Engine& engine, Files files, const Plan& plan,
                                            const std::vector<GivenPort>& ports);
    // Whether requests or connections still need the engine of before the last reload.
    bool reloading() const { return before_ != nullptr; }
    // Whether step() has something to do that no descriptor tells of.
    bool has_work() const { return !dirty_.empty() || net_->any_came() || left_in_rings_ || leaves_backlog(); }

    // Whether requests are to be gone on with once the kernel has been asked what else has come.
    bool has_ready() const { return !now_->yielding.empty() || (before_ && !before_->yielding.empty()); }

    // Takes no more connections, answers what has come, and tells the peers.
    void drain();
    bool drained() const;
    std::string undrained() const;  // what is left, in words
    const ServiceCounters& counters(std::uint32_t service, bool tcp) const {
        return *(tcp ? now_->counters : now_->udp_counters)[service];
    }
    const ServiceCounters& ring_counters(std::uint32_t service) const { return *now_->ring_counters[service]; }
    // Whether processes reach it by shared memory.
    bool is_reached_by_rings(std::uint32_t service) const;
    // What the drivers have answered of a service's datagrams, and what they could not; nothing where nothing is kept.
    std::optional<net::KeptCounters> kept(std::uint32_t service) const;
    // No reply that was kept so far is sent from here on.
    void forget_replies();
    std::string describe() const { return net_->describe(); }
    // Those whose datagrams are taken at the moment.
    struct Taken {
        const net::Port* port;
        std::uint64_t opened;   // how often, since the start
        std::uint64_t dropped;  // by the kernel, before it was opened the last time
    };
    std::vector<Taken> interfaces() const;
    // Of each interface that was asked for, by its number: its name, and how many packets the kernel had no frame or no
    // room in a ring for.
    std::size_t interface_count() const { return interfaces_.size(); }
    const std::string& interface_name(std::size_t number) const { return interfaces_[number].name; }
    std::uint64_t interface_dropped(std::size_t number) const;
    // Counts what the kernel has dropped since the last time, as a socket had no room.
    void look_for_dropped();
    // How often one was removed while its datagrams were taken.
    std::uint64_t interfaces_gone() const { return gone_; }
    // What became of interfaces since the last time, a sentence each.
    std::vector<std::string> take_news() { return std::exchange(news_, {}); }
    // Requests that have a place, and those that wait for one.
    unsigned running() const { return now_->requests.in_places() + (before_ ? before_->requests.in_places() : 0); }
    std::size_t waiting() const { return waiting_.size(); }

  private:
    static constexpr int kTickMs = 250, kEndingTickMs = 20, kUnsentTickMs = 3, kLinkTickMs = 100, kShortTickMs = 3;
    static constexpr int kLookAtBoundMs = 1000;
    static constexpr std::uint64_t kStopped = std::uint64_t{2} * kTickMs * 1'000'000;  // ns between two looks
    static constexpr unsigned kMostLateLooks = 4;
    static constexpr std::uint64_t kParting = 5'000'000'000;  // ns, for what is left of a service that is gone
    static constexpr std::uint32_t kLentAlways = 4096;        // results that are worth a piece of their own
    static constexpr unsigned kMostParked = 1024;             // requests whose replies wait for slow peers
    static constexpr unsigned kShedPlaces = 64;               // requests that are not run, while their peers are told
    // Requests are known by their connection's number, or their datagram's and this.
    static constexpr std::uint32_t kFirstDatagram = 1u << 30;
    struct WaitingLink {
        std::vector<Connection>* connections;
        std::vector<Datagram>* datagrams;
        engine::QueueLink& operator()(std::uint32_t i) const {
            return i < kFirstDatagram ? (*connections)[i].waiting_link : (*datagrams)[i - kFirstDatagram].waiting_link;
        }
    };
    struct IdleLink {
        std::vector<Connection>* connections;
        engine::QueueLink& operator()(std::uint32_t i) const { return (*connections)[i].idle_link; }
    };
    // An interface whose datagrams are taken, into the memory of a generation's engine.
    struct Interface {
        std::string name;
        std::unique_ptr<net::Port> port;
        Generation* generation = nullptr;
        std::vector<std::pair<std::uint16_t, std::uint32_t>>
            services;                // of the generation, by port; as their kept replies
        unsigned watched = 0;        // sockets of its queues
        std::uint64_t until_ns = 0;  // it is to be let go; by then at the latest, unless a reply is made meanwhile
        std::uint64_t last_ns = 0;   // for which the last reply may be on its way then
        unsigned tries = 0;          // left, to open it while its queues are not free yet
        std::uint64_t try_ns = 0;    // when the next of them is due, or the next look
        bool unread = false;  // what the kernel has told of it could not be asked for, or it could not be opened for
                              // want of descriptors: it is to be looked at again
        bool unread_addresses = false;  // of that, its addresses, as it was said last
        std::string silent;             // why its driver answers nothing by itself, as it was said last; empty: it does
        bool unheard = false;           // services hear at none of its addresses, as it was said last
        unsigned tried = 0;             // it was up under this number when it was tried last; 0: it was not up
        std::uint64_t opened = 0;       // how often
        std::uint64_t dropped = 0;      // by the kernel, as long as earlier ports of it were open
    };
    static constexpr std::uint32_t kMostWatched = 64;           // queues of an interface
    static constexpr std::uint64_t kLettingGo = 1'000'000'000;  // ns, for last replies to leave
    static constexpr unsigned kTries = 250;                     // to take queues that the kernel is about to free
    static constexpr std::uint64_t kTryAgain = 20'000'000;      // ns from one to the next: each loads the program anew
    static constexpr std::uint64_t kShortOfDescriptors = 1'000'000'000;  // ns, until it is opened again
    static constexpr std::uint64_t kLookAtPeers = 1'000'000'000;         // ns
    // What is watched behind them: the news of interfaces' features, and of interfaces.
    std::uint32_t place_of_news() const { return static_cast<std::uint32_t>(interfaces_.size()) * kMostWatched; }
    std::uint32_t place_of_links() const { return place_of_news() + 1; }
    std::uint32_t place_of_rings() const { return place_of_links() + 1; }
    struct Listener {
        int fd = -1;
        Generation* generation = nullptr;
        std::uint32_t service = 0;
        std::uint16_t wanted = 0, port = 0;  // 0 lets the kernel choose, and then `port` is what it chose
        std::string address;
        unsigned link = 0;       // the number of the interface that the address names; 0: none
        bool accepting = false;  // or receiving
        bool tcp = true, xdp = false;
        bool leaving = false, stopping = false;  // of datagrams: closed once nothing is left to be received
        std::uint64_t leaving_until_ns = 0;      // or then
        std::uint32_t dropped = 0;               // of datagrams, as the kernel said last
    };
    Server(std::unique_ptr<Generation> generation, const ServerOptions& options, std::unique_ptr<Net> net);
    // server_reload.cpp: endpoints, and one spec in the place of another
    static std::expected<std::unique_ptr<Generation>, std::string> make_generation(engine::Engine& engine, Files files,
                                                                                   const ServerOptions& options);
    std::expected<std::vector<Listener>, std::string> listeners_for(Generation& generation, const Plan& plan,
                                                                    const std::vector<GivenPort>& ports) const;
    std::expected<Listener, std::string> listen(std::uint32_t service, std::uint16_t port, bool tcp) const;
    const Listener* find_listener(const std::string& service, std::uint16_t wanted, bool tcp,
                                  std::span<const Listener> taken) const;
    void use_listeners(std::vector<Listener> wanted);
    void close_listener(std::uint32_t index);
    static void leave(Listener& listener);
    static bool is_open(const Listener& listener);
    bool is_of_link() const { return options_.address.contains('%'); }
    void look_at_bound_link();
    void go_over(Connection& connection);
    void part(std::uint32_t index);
    void end_generation();

    // server_sends.cpp
    void start_sending(std::uint32_t index, std::size_t limit);
    bool gathers(std::uint32_t index);
    void send_gathered(bool all);
    int buffer_for(Connection& connection, const Output::Piece& piece, std::uint64_t now);
    void was_sent(const NetEvent& event);
    void send_failed(Connection& connection, const NetEvent& event);
    void was_let_go(Connection& connection, const NetEvent& event);
    bool takes_nothing(Connection& connection, std::uint64_t now) const;
    static void reset_peer(Connection& connection);
    void take_places_of_slow();
    static bool is_due(std::uint64_t& last_ns, int each_ms);
    bool was_stopped(std::uint64_t since_ns);
    std::uint32_t lends_from() const {
        return options_.zero_copy_bytes == 0 ? kLentAlways : std::min(options_.zero_copy_bytes, kLentAlways);
    }

    // server_datagrams.cpp
    void received_from(const NetEvent& event);
    void was_sent_to(const NetEvent& event);
    bool comes_from_us(const Source& source, Generation& generation, std::uint32_t service);
    std::size_t longest_answer(const Datagram& datagram) const;
    void begin_with(std::uint32_t index, Generation& generation, std::uint32_t service);
    std::uint16_t rank_of(const Datagram& datagram) const;
    void look_for_datagram_request(std::uint32_t index);
    void begin_datagram(std::uint32_t index, bool shed);
    void shed_datagram(std::uint32_t index);
    void datagram_ended(Generation& generation, std::uint32_t slot);
    void drop_datagram_reply(Generation& generation, std::uint32_t slot);
    enum class Sent : std::uint8_t { all, nothing, too_long };
    Sent send_reply(std::uint32_t index, std::uint32_t slot);
    Sent without_begin(const Datagram& datagram, std::uint32_t slot);
    void send_stretches(std::uint32_t index, std::span<const engine::Stretch> stretches);
    void settle_datagram(std::uint32_t index);
    bool settle_sockets();
    static void count_dropped(Listener& listener);
    static ServiceCounters& counters_of(const Datagram& datagram) {
        const bool by_ring = datagram.ring_client != engine::kNoIndex;
        return *(by_ring ? datagram.generation->ring_counters : datagram.generation->udp_counters)[datagram.service];
    }
    static const ir::Service& service_of(const Datagram& datagram) {
        return datagram.generation->module.services[datagram.service];
    }

    // server_rings.cpp
    static constexpr std::uint32_t kRingPlaces = 1024;  // requests of clients of rings at once
    static constexpr std::size_t kLongestMessage = CIO_MAX_BLOCK, kRingRoom = kLongestMessage + CIO_PAD;
    void serve_rings(ring::Shared& ring);
    std::expected<std::uint32_t, std::string> find_for_ring(std::string_view name) const;
    bool has_room_for_ring(std::uint32_t service) const;
    bool take_from_rings();
    void begin_from_ring(const RingRequest& request);
    Sent send_by_ring(Datagram& datagram, std::uint32_t slot);
    void settle_ring(std::uint32_t index);
    void look_after_rings();

    // server_memory.cpp
    void datagram_reply_too_long(Generation& generation, std::uint32_t slot);
    void give_way(Generation& generation, std::uint32_t slot);
    bool holds_reply(const Generation& generation, std::uint32_t slot) const;
    bool holds_alone(const Generation& generation, std::uint32_t slot) const;
    void wait_for_memory(Generation& generation, std::uint32_t slot);
    void note_too_little_memory();
    void go_on_short(Generation& generation);

    // server_xdp.cpp
    bool any_by_xdp() const;
    bool is_taken(unsigned number) const;
    bool has_memory_for(unsigned queues) const;
    void open_interfaces();
    void wait_for_queues();
    void open_busy_interfaces();
    void close_gone();
    void let_go(std::uint32_t index, std::uint64_t last_ns);
    static bool is_over(const Interface& interface);
    void open_interface(std::uint32_t index, unsigned tries);
    void look_at_bound(Interface& interface);
    std::string why_unheard(const Interface& interface) const;
    std::string why_not_bound(const Interface& interface) const;
    void let_interfaces_go();
    void was_watched(const NetEvent& event);
    bool interfaces_idle();
    bool take_from_interfaces();
    bool leaves_backlog() const { return backlog_ != 0 && waiting_.size() >= options_.waiting; }
    void look_for_backlog();
    void take_frame(std::uint32_t interface, const umem::Descriptor& frame);
    void close_interface(Interface& interface);

    // server_links.cpp
    void hear_of_links();
    void look_at_links(const net::LinkChanges& changes);
    void look_at_link(std::uint32_t index, const net::LinkChanges& changes);
    void look_at_addresses(Interface& interface);
    bool look_at_attributes(std::uint32_t index);
    bool look_again();
    void look_at_peer(Interface& interface);
    void look_at_peers();
    void hear_of_peers();

    // server_frames.cpp
    std::size_t longest_payload(const Datagram& datagram) const;
    std::size_t longest_on_way(const Datagram& datagram, std::size_t wanted) const;
    bool go_by_socket(Datagram& datagram) const;
    void send_frames(Datagram& datagram, std::span<const engine::Stretch> stretches);
    void keep_reply(const Datagram& datagram, std::uint32_t slot, std::span<const engine::Stretch> stretches);

    void take_events(std::span<const NetEvent> events);
    void take_event(const NetEvent& event);
    void accepted(const NetEvent& event);
    void accept_at(std::uint32_t index);
    void accept_again();
    void add_connection(std::uint32_t listener, int fd);
    bool makes_room(std::uint32_t priority);
    void note_idle(std::uint32_t index);
    void forget_idle(std::uint32_t index);
    void note_idle_again();
    void received(const NetEvent& event);
    void mark(std::uint32_t index);
    bool& dirty(std::uint32_t index);
    std::uint16_t& rank(std::uint32_t index);
    std::uint32_t line(std::uint32_t index);
    Generation& generation_of(std::uint32_t index) const;
    void hold(Connection& connection, std::uint32_t buffer, std::uint32_t length);
    void fill_input(Connection& connection);

    void settle(std::uint32_t index);
    void receive(std::uint32_t index);
    void look_for_request(std::uint32_t index);
    void wait_turn(std::uint32_t index);
    void start_waiting();
    void shed();
    void note_unanswered();
    void begin(std::uint32_t index, bool shed);
    void go_on(Generation& generation, std::uint32_t slot);
    void go_on_all(Generation& generation, std::vector<std::uint32_t>& slots);
    bool any_short() const { return now_->any_short() || (before_ && before_->any_short()); }
    void ended(Generation& generation, std::uint32_t slot);
    void finish(std::uint32_t index);
    void drop(std::uint32_t index);
    bool quiet(std::uint32_t index) const;
    bool stays_quiet(std::uint32_t index, bool amid_request);
    bool is_idle_too_long(std::uint32_t index, std::uint64_t now) const;
    void give_up_late();
    static ServiceCounters& counters_of(const Connection& connection) {
        return *connection.generation->counters[connection.service];
    }
    static const ir::Service& service_of(const Connection& connection) {
        return connection.generation->module.services[connection.service];
    }

    ServerOptions options_;
    std::unique_ptr<Net> net_;
    engine::LazyMemory memory_;
    std::vector<Connection> connections_;
    std::vector<std::uint32_t> free_, dirty_, turn_, gathering_;
    std::vector<std::uint32_t> heard_of_;                             // by connection: idle ones that kept their places
    std::vector<std::uint32_t> held_next_, held_from_, held_length_;  // by buffer
    std::vector<std::uint64_t> arrived_ns_;                           // by connection: its first request
    std::vector<std::size_t> request_length_;
    std::vector<Cut> cut_;
    engine::PriorityQueue<WaitingLink> waiting_;
    engine::PriorityQueue<IdleLink> idle_;               // connections, by the classes of their services
    std::unique_ptr<Generation> now_, before_;           // before_: some of its requests or connections have not ended
    std::vector<std::optional<std::uint32_t>> goes_to_;  // by service of before_: its place in now_
    Peers peers_;
    std::vector<Listener> listeners_;
    std::vector<Listening> listening_;
    std::vector<Datagram> datagrams_;  // first by the buffer that holds it, then those of interfaces
    unsigned datagrams_used_ = 0;      // of the sockets'
    std::vector<Interface> interfaces_;
    std::optional<net::FeatureNews> feature_news_;
    std::optional<net::LinkNews> link_news_;
    std::vector<std::string> news_;
    std::string bound_lost_;  // why nobody is heard at the address of a link, as it was said last
    std::uint64_t gone_ = 0;
    std::vector<std::uint32_t> free_xdp_;              // places for what comes by an interface
    std::vector<std::uint32_t> free_ring_;             // and by a ring
    std::optional<engine::LazyMemory> ring_requests_;  // by such a place: what came
    std::optional<RingClients> rings_;
    std::uint64_t rings_looked_ns_ = 0;
    std::uint64_t looked_ns_ = 0;        // into their rings
    std::size_t backlog_ = 0;            // what came there while nobody could look, and was not taken yet
    std::uint64_t backlog_held_ns_ = 0;  // how long none of it has been taken
    bool backlog_moves_ = false;         // some was taken since the last look
    bool backlog_overdue_ = false;       // chains do not go on: until the rings are empty, all is taken that came
    metrics::Fallbacks* fallbacks_ = nullptr;
    std::vector<NetEvent> events_;
    unsigned late_looks_ = 0;  // one after the other
    std::uint64_t last_look_ns_ = 0, peers_looked_ns_ = 0, places_looked_ns_ = 0, short_looked_ns_ = 0;
    std::uint64_t bound_looked_ns_ = 0;
    std::uint64_t accept_again_ns_ = 0;  // when; 0: no listener waits for a shortage to be over
    bool left_in_rings_ = false;         // the last look at AF_XDP's rings took something: there may be more in them
    unsigned used_ = 0, displaced_ = 0;  // connections; of these, those that end for others
    bool draining_ = false;
};

}  // namespace chainio::service
