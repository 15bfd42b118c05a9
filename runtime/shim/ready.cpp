// Readiness: what waits in the sockets that epoll_wait, poll or select hands out is shown to the server before the
// program sees any of it, all of them with one wake-up.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>

#include <algorithm>

#include "runtime/shim/next.h"
#include "runtime/shim/own_chain.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"

namespace chainio::shim {
namespace {

// epoll gives back 64 bits that the program chose, not a descriptor. This maps them to one: a cache that forgets when
// it is full and is believed only where the socket's own slot says the same.
struct Registered {
    std::atomic<std::uint64_t> data;
    std::atomic<std::uint32_t> epoll;  // plus one; 0: free
    std::atomic<std::uint32_t> descriptor;
    std::atomic<std::uint32_t> shared;  // several sockets have the same data: nobody can say which is meant
};
constexpr unsigned kRegistered = 65'536, kWays = 8;
constinit std::atomic<Registered*> registered{nullptr};

Registered* registrations() {
    Registered* found = registered.load(std::memory_order_acquire);
    if (found) return found;
    constexpr long kBytes = static_cast<long>(kRegistered * sizeof(Registered));
    const long memory =
        raw_call(SYS_mmap, 0, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (failed(memory)) return nullptr;
    auto* mine = reinterpret_cast<Registered*>(memory);
    if (registered.compare_exchange_strong(found, mine)) return mine;
    raw_call(SYS_munmap, memory, kBytes);
    return found;
}

unsigned place(std::uint32_t epoll, std::uint64_t data, unsigned way) {
    const std::uint64_t mixed = (data ^ static_cast<std::uint64_t>(epoll) << 48) * 0x9e3779b97f4a7c15;
    return static_cast<unsigned>(mixed >> 40) + way & (kRegistered - 1);
}

bool believed(const Registered& entry, std::uint32_t epoll, std::uint64_t data) {
    if (entry.epoll.load(std::memory_order_acquire) != epoll || entry.data.load(std::memory_order_relaxed) != data)
        return false;
    const Slot* slot = table.watched(static_cast<int>(entry.descriptor.load(std::memory_order_relaxed)));
    return slot && slot->kind() == Kind::socket && slot->link.load(std::memory_order_relaxed) == epoll &&
           slot->data.load(std::memory_order_relaxed) == data;
}

// Once two sockets have had the same data at a time, the data says nothing any more, whichever of them is left.
bool shares(const Registered& entry, std::uint32_t epoll, std::uint64_t data, int fd) {
    if (entry.data.load(std::memory_order_relaxed) != data) return false;
    if (entry.shared.load(std::memory_order_relaxed) != 0) return true;
    return entry.descriptor.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(fd) &&
           believed(entry, epoll, data);
}

void watch(int epoll_descriptor, int fd, std::uint64_t data) {
    Slot* slot = table.watched(fd);
    Registered* all = slot && slot->kind() == Kind::socket && !in_vfork_child() ? registrations() : nullptr;
    if (!all) return;
    const auto epoll = static_cast<std::uint32_t>(epoll_descriptor) + 1;
    slot->link.store(epoll, std::memory_order_relaxed);
    slot->data.store(data, std::memory_order_relaxed);
    Registered* place_for = &all[place(epoll, data, 0)];
    bool shared = false;
    for (unsigned way = 0; way < kWays; ++way) {
        Registered& entry = all[place(epoll, data, way)];
        const std::uint32_t owner = entry.epoll.load(std::memory_order_relaxed);
        if (owner == 0 || (owner == epoll && entry.data.load(std::memory_order_relaxed) == data) ||
            !believed(entry, owner, entry.data.load(std::memory_order_relaxed))) {
            place_for = &entry;
            shared = owner == epoll && shares(entry, epoll, data, fd);
            break;
        }
    }
    place_for->epoll.store(0, std::memory_order_relaxed);
    place_for->data.store(data, std::memory_order_relaxed);
    place_for->descriptor.store(static_cast<std::uint32_t>(fd), std::memory_order_relaxed);
    place_for->shared.store(shared ? 1 : 0, std::memory_order_relaxed);
    place_for->epoll.store(epoll, std::memory_order_release);
}

// What comes with its data from now on is something else.
void watch_no_more(int epoll_descriptor, int fd) {
    Slot* slot = table.watched(fd);
    if (!slot || slot->kind() != Kind::socket || in_vfork_child()) return;
    auto epoll = static_cast<std::uint32_t>(epoll_descriptor) + 1;
    slot->link.compare_exchange_strong(epoll, 0, std::memory_order_relaxed);
}

int descriptor_of(int epoll_descriptor, std::uint64_t data) {
    const Registered* all = registered.load(std::memory_order_acquire);
    const auto epoll = static_cast<std::uint32_t>(epoll_descriptor) + 1;
    for (unsigned way = 0; all && way < kWays; ++way) {
        const Registered& entry = all[place(epoll, data, way)];
        if (!believed(entry, epoll, data)) continue;
        if (entry.shared.load(std::memory_order_relaxed) != 0) return -1;
        return static_cast<int>(entry.descriptor.load(std::memory_order_relaxed));
    }
    return -1;
}

bool nobody() { return !table.has_sockets() || !live_region(); }
void wake_if(bool posted) {
    Region* found = posted ? live_region() : nullptr;
    if (found) wake(*found);
}

// A wait that brings so many is followed by others of the kind, and to be told of many at once costs less than of each:
// a disk hears of their reads together. File systems whose reads somebody else makes (FUSE, NFS) win nothing by that.
constexpr std::uint32_t kMany = 10;
bool knows_a_disk() {
    const Region* found = live_region();
    return found && found->disks[0].device.load(std::memory_order_relaxed) != 0;
}

// Unlike a receive, the question leaves an error of the socket for the program.
bool holds_bytes(int descriptor) {
    int bytes = 0;
    return !failed(raw_call(SYS_ioctl, descriptor, FIONREAD, word(&bytes))) && bytes > 0;
}

bool readable_without_error(int descriptor) {
    pollfd one{descriptor, POLLIN, 0};
    timespec at_once{};
    return raw_call(SYS_ppoll, word(&one), 1, word(&at_once), 0, 0) == 1 &&
           (one.revents & (POLLIN | POLLERR)) == POLLIN;
}

bool is_tcp(const Slot& slot) {
    const Region* found = live_region();
    return found && found->plan.sockets[slot.rule() % kMaxSockets].tcp != 0;
}

// Whether a look leaves an error of the socket for the program. A stream gives its bytes first, which a reset does not
// take away, so that none can come between the question and the look. Of datagrams the error comes first.
bool leaves_error(const Slot& slot, int descriptor) {
    return is_tcp(slot) ? holds_bytes(descriptor) : readable_without_error(descriptor);
}

// Whoever says that it is readable may mean another one: epoll's data does not say which, and select says nothing of
// errors.
bool may_look(int descriptor) {
    const Slot* slot = table.watched(descriptor);
    return slot && slot->kind() == Kind::socket && !(slot->peeked.load(std::memory_order_relaxed) & kPosted) &&
           wants(*slot, kPostReady) && leaves_error(*slot, descriptor);
}

// The sockets that the program has come back with from a wait.
class Round {
  public:
    Round() { begin_anew(); }
    void look_at(int descriptor) {
        if (!may_look(descriptor)) return;
        const Told told = peek_ready(descriptor);
        posted_ = posted_ || told == Told::server;
        asked_ += told != Told::nobody;
    }
    void end() const {
        producer.answered.among_many = asked_ >= kMany && knows_a_disk();
        wake_if(posted_);
    }

  private:
    bool posted_ = false;
    std::uint32_t asked_ = 0;
};

bool may_be_asked_on(int descriptor) {
    const Slot* slot = table.watched(descriptor);
    return slot && slot->kind() == Kind::socket && is_tcp(*slot) && wants(*slot, kPostReady);
}

// Sockets in the thread's list. A signal handler that receives as well may have gone further than its end.
std::uint32_t answered_sockets() {
    Answered& answered = producer.answered;
    if (static_cast<std::int32_t>(answered.end - answered.first) < 0) answered.first = answered.end;
    return answered.end - answered.first;
}

// The one that was answered the longest ago; -1: there is none.
int oldest_answered() {
    const Answered& answered = producer.answered;
    return answered_sockets() == 0 ? -1 : answered.sockets[answered.first % Answered::kRoom];
}

void forget_oldest() {
    ++producer.answered.first;
    producer.answered.in_vain = 0;
}

// Whether it has its next request, which has been told of then.
bool has_asked(int socket, bool& posted) {
    if (!may_be_asked_on(socket) || !holds_bytes(socket)) return false;
    posted |= peek_ready(socket) == Told::server;
    forget_oldest();
    return true;
}

}  // namespace

void look_at_answered(int socket) {
    // One request has been received, so that as many looks as there are answers keep up with the clients.
    constexpr unsigned kLooks = 2;
    constexpr std::uint32_t kInVain = 6;  // then its client is slow, or has gone
    Answered& answered = producer.answered;
    if (answered.among_many) {
        answered.first = answered.end;
        return;
    }
    bool posted = false;
    for (unsigned i = 0; i < kLooks; ++i) {
        const int oldest = oldest_answered();
        if (oldest < 0) break;
        if (has_asked(oldest, posted)) continue;
        if (++answered.in_vain < kInVain) break;
        forget_oldest();
    }
    if (answered_sockets() < Answered::kRoom && may_be_asked_on(socket))
        answered.sockets[answered.end++ % Answered::kRoom] = static_cast<std::uint16_t>(socket);
    wake_if(posted);
}

bool has_answered_few() {
    const int oldest = oldest_answered();
    return oldest >= 0 && answered_sockets() < kMany && may_be_asked_on(oldest);
}

void look_before_waiting() {
    bool posted = false;
    for (int oldest = oldest_answered(); oldest >= 0 && has_asked(oldest, posted);) oldest = oldest_answered();
    wake_if(posted);
}

int epoll_ready(int epoll_descriptor, const epoll_event* events, int count) {
    if (count <= 0 || nobody()) [[likely]]
        return count;
    Round round;
    // The first is told of last: the program comes to it before the server could help. A thread that helps itself
    // begins with it.
    const int first = helps_itself() ? 0 : 1;
    for (int i = first; i < first + count; ++i) {
        const epoll_event& event = events[i % count];
        if ((event.events & (EPOLLIN | EPOLLERR)) != EPOLLIN) continue;
        const int fd = descriptor_of(epoll_descriptor, event.data.u64);
        if (fd >= 0) round.look_at(fd);
    }
    round.end();
    return count;
}

void epoll_changed(int epoll, int operation, int fd, const epoll_event* event) {
    if (operation == EPOLL_CTL_DEL) return watch_no_more(epoll, fd);
    if (event && table.watched(fd)) [[unlikely]]
        watch(epoll, fd, event->data.u64);
}

namespace {

int poll_ready(const pollfd* list, nfds_t size, int count) {
    if (count <= 0 || nobody()) [[likely]]
        return count;
    Round round;
    for (nfds_t i = 0; i < size; ++i)
        if ((list[i].revents & (POLLIN | POLLERR)) == POLLIN) round.look_at(list[i].fd);
    round.end();
    return count;
}

int select_ready(int size, const fd_set* readable, int count) {
    if (count <= 0 || !readable || nobody()) [[likely]]
        return count;
    constexpr int kBits = 8 * sizeof(fd_mask);
    Round round;
    // By words and not by FD_ISSET, since programs use sets that are longer than FD_SETSIZE.
    const auto* words = reinterpret_cast<const fd_mask*>(readable);
    for (int fd = 0; fd < std::min(size, table.highest() + 1); ++fd)
        if (words[fd / kBits] >> fd % kBits & 1) round.look_at(fd);
    round.end();
    return count;
}

}  // namespace

CHAINIO_CALL(int, epoll_ctl, int epoll, int operation, int fd, epoll_event* event) {
    if (!table.watched(fd)) [[likely]]
        return CHAINIO_NEXT(epoll_ctl)(epoll, operation, fd, event);
    const int result = CHAINIO_NEXT(epoll_ctl)(epoll, operation, fd, event);
    if (result == 0) epoll_changed(epoll, operation, fd, event);
    return result;
}
CHAINIO_CALL(int, epoll_wait, int epoll, epoll_event* events, int room, int timeout) {
#ifdef SYS_epoll_wait
    if (goes_straight_alone())
        return epoll_ready(epoll, events, straight(SYS_epoll_wait, epoll, word(events), room, timeout));
#endif
    return epoll_ready(epoll, events, CHAINIO_NEXT(epoll_wait)(epoll, events, room, timeout));
}
CHAINIO_CALL(int, epoll_pwait, int epoll, epoll_event* events, int room, int timeout, const sigset_t* mask) {
    return epoll_ready(epoll, events, CHAINIO_NEXT(epoll_pwait)(epoll, events, room, timeout, mask));
}
CHAINIO_CALL(int, epoll_pwait2, int epoll, epoll_event* events, int room, const timespec* timeout,
             const sigset_t* mask) {
    return epoll_ready(epoll, events, CHAINIO_NEXT(epoll_pwait2)(epoll, events, room, timeout, mask));
}

#ifdef SYS_poll
#define CHAINIO_POLL(name)                                                                      \
    CHAINIO_CALL(int, name, pollfd* list, nfds_t size, int timeout) {                           \
        const int count = goes_straight_alone() ? straight(SYS_poll, word(list), size, timeout) \
                                                : CHAINIO_NEXT(name)(list, size, timeout);      \
        return poll_ready(list, size, count);                                                   \
    }
#else
#define CHAINIO_POLL(name)                                                      \
    CHAINIO_CALL(int, name, pollfd* list, nfds_t size, int timeout) {           \
        return poll_ready(list, size, CHAINIO_NEXT(name)(list, size, timeout)); \
    }
#endif
CHAINIO_POLL(poll)
CHAINIO_POLL(__poll)
CHAINIO_CALL(int, __poll_chk, pollfd* list, nfds_t size, int timeout, std::size_t bytes) {
    return poll_ready(list, size, CHAINIO_NEXT(__poll_chk)(list, size, timeout, bytes));
}
CHAINIO_CALL(int, ppoll, pollfd* list, nfds_t size, const timespec* timeout, const sigset_t* mask) {
    return poll_ready(list, size, CHAINIO_NEXT(ppoll)(list, size, timeout, mask));
}
CHAINIO_CALL(int, __ppoll_chk, pollfd* list, nfds_t size, const timespec* timeout, const sigset_t* mask,
             std::size_t bytes) {
    return poll_ready(list, size, CHAINIO_NEXT(__ppoll_chk)(list, size, timeout, mask, bytes));
}

CHAINIO_CALL(int, select, int size, fd_set* readable, fd_set* writable, fd_set* failing, timeval* timeout) {
    return select_ready(size, readable, CHAINIO_NEXT(select)(size, readable, writable, failing, timeout));
}
CHAINIO_CALL(int, __select, int size, fd_set* readable, fd_set* writable, fd_set* failing, timeval* timeout) {
    return select_ready(size, readable, CHAINIO_NEXT(__select)(size, readable, writable, failing, timeout));
}
CHAINIO_CALL(int, pselect, int size, fd_set* readable, fd_set* writable, fd_set* failing, const timespec* timeout,
             const sigset_t* mask) {
    return select_ready(size, readable, CHAINIO_NEXT(pselect)(size, readable, writable, failing, timeout, mask));
}

}  // namespace chainio::shim
