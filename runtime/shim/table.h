// What is known of the program's descriptors: one slot for each number below kSlots, without locks, in memory that
// costs nothing until it is touched. A slot that races with the program's own close and open of the same number is
// wrong for that moment and then tells the server something useless; it is never out of bounds.
#pragma once
#include <atomic>
#include <cstdint>

namespace chainio::shim {

enum class Kind : std::uint8_t {
    none = 0,
    file = 1,      // rule: class
    listener = 2,  // rule: socket; what it accepts is a socket of that rule
    socket = 3,
};

inline constexpr unsigned kSlots = 65'536;

// How an opening's reads come to their bytes.
enum class Reads : std::uint32_t {
    cached = 0,
    direct = 1,  // past the page cache
    served = 2,  // the same, and positioned ones may be answered from served memory
};

// One open() of a matched file, which several descriptors may share.
struct Opening {
    std::atomic<std::uint32_t> descriptors;  // 0: free
    std::atomic<std::uint32_t> mapped;       // 1: that it is mapped has been said
    std::atomic<std::uint64_t> device, inode;
    std::atomic<Reads> reads;
    std::atomic<std::uint32_t> advised;  // 1: the library has told the kernel to read nothing ahead
};

// What is known of looks at a socket's bytes.
inline constexpr std::uint32_t kPosted = 1;  // what it holds has been posted and not been received yet

struct Slot {
    std::atomic<std::uint32_t> state;  // Kind, and the rule above kRuleShift; 0: nothing of ours
    std::atomic<std::uint32_t>
        link;  // file: index of the opening; socket: the epoll descriptor that watches it, plus one
    std::atomic<std::uint64_t> data;    // socket: what that epoll descriptor gives back for it
    std::atomic<std::uint32_t> peeked;  // socket: kPosted and the like

    Kind kind() const { return static_cast<Kind>(state.load(std::memory_order_acquire) & 0xff); }
    unsigned rule() const { return state.load(std::memory_order_relaxed) >> 8 & 0xff; }
};

static_assert(sizeof(Slot) == 24 && kSlots == 65'536);  // catch_site.cpp counts on it

// What close() finds out: the opening whose last descriptor is gone.
struct Closed {
    bool last = false;
    unsigned rule = 0;
    std::uint64_t device = 0, inode = 0;
};

class Table {
  public:
    bool create();  // maps the memory; false when there is none
    void stop() { size_.store(0, std::memory_order_release); }
    unsigned size() const { return size_.load(std::memory_order_relaxed); }

    // The slot of a descriptor that something matches, else nullptr: the one look-up that every call of a program pays
    // for.
    Slot* watched(int descriptor) const {
        if (static_cast<unsigned>(descriptor) >= size_.load(std::memory_order_acquire)) return nullptr;
        Slot& slot = slots_[descriptor];
        return slot.state.load(std::memory_order_relaxed) != 0 ? &slot : nullptr;
    }
    // The same as yes or no; yes also of those that are not in the table.
    bool may_be_watched(int descriptor) const {
        const auto number = static_cast<unsigned>(descriptor);
        return number >= size_.load(std::memory_order_acquire) ||
               slots_[number].state.load(std::memory_order_relaxed) != 0;
    }
    bool put_file(int descriptor, unsigned rule, std::uint64_t device, std::uint64_t inode,
                  Reads reads = Reads::cached);
    void put_socket(int descriptor, Kind kind, unsigned rule);
    bool duplicate(int from, int to);  // `to` must be clear
    Closed clear(int descriptor);
    Opening& opening(const Slot& slot) const { return openings_[slot.link.load(std::memory_order_relaxed) % kSlots]; }
    int descriptor(const Slot& slot) const { return static_cast<int>(&slot - slots_); }
    // No descriptor above this one is watched, and no socket is unless there are sockets.
    int highest() const { return highest_.load(std::memory_order_relaxed); }
    // For the code that looks up a descriptor without us: 65,536 slots of 24 bytes, of each the state first.
    const void* slots() const { return slots_; }
    bool has_sockets() const { return sockets_.load(std::memory_order_relaxed) != 0; }

  private:
    void put(int descriptor, Kind kind, unsigned rule, std::uint32_t link);

    std::atomic<unsigned> size_{0};
    std::atomic<int> highest_{-1};
    std::atomic<int> sockets_{0};
    std::atomic<std::uint32_t> cursor_{0};
    Slot* slots_ = nullptr;
    Opening* openings_ = nullptr;
};

}  // namespace chainio::shim
