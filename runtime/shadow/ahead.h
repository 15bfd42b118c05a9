// What chains have asked for and has not begun: fetches of ranges and walks, the most urgent class first, each class in
// the order in which they were asked for, for the program will want them in that order.
#pragma once
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "runtime/engine/priority_queue.h"
#include "runtime/shadow/direct.h"
#include "runtime/shadow/unheard.h"
#include "runtime/shadow/walks.h"

namespace chainio::shadow {

class Ahead {
  public:
    struct Parts {
        const SpecPlan& plan;
        Ranges& ranges;
        Score& score;
        Walks& walks;
        Direct& direct;
    };
    Ahead(const Parts& parts, const std::vector<engine::ClassRank>& ranks, unsigned in_flight);

    // Nothing long begins while so many bytes are under way, and with it at most kFirstPiece more. Some disks
    // (Firecracker's) say that reads have come when they have done all that they know of: with more at a time programs
    // would wait for reads begun long after their own.
    static constexpr std::uint64_t kMostUnderWay = std::uint64_t{12} << 20;
    static constexpr std::uint32_t kFirstPiece = 8 << 20;  // of a file, since the kernel's windows grow
    static constexpr unsigned kFarthest = 4;

    // A range of an opened file; `length` 0: all of it from `offset` on. `distance`: of one that a thread is foretold
    // to open, how many folders on; at most kFarthest.
    void ask_range(std::uint32_t chain, ShadowFile& file, std::uint64_t offset, std::uint64_t length,
                   unsigned distance = 0);
    void ask_walk(const WalkRequest& request, unsigned distance = 0);
    // A walk whose result is a mark. It waits behind nothing: the program may read the place next.
    void ask_mark(const WalkRequest& request);
    // Takes these as far as they come without waiting.
    void settle_marks();
    // A thread has come nearer to the file, or has opened it: what has not begun of it is more urgent now.
    void comes_nearer(const ShadowFile& file, unsigned distance);
    // Of a range that a program has told the kernel to read, or found in memory, or not to be asked for.
    void begun_elsewhere(std::uint32_t chain, std::uint64_t file, std::uint64_t offset, const shim::Ran& ran);
    // A program's read has waited for the disk.
    void program_waited(std::uint64_t file, std::uint64_t offset, std::uint64_t length);
    // Begins as much as may be in flight, runs walks, takes over what has arrived. Returns whether anything went on.
    std::expected<bool, std::string> advance();
    // Forgets what has not begun.
    void drop_waiting();

    // Whether something goes on when a read ends: a walk, a program that waits for a frame, what waits to begin. The
    // end of a short fetch into the page cache is only a matter of the score, which needs to know of a few.
    bool hurries() const {
        constexpr std::uint64_t kLongestMeasured = 100'000'000;  // ns: one that never ends says nothing
        const bool is_measured =
            fetches_ > 0 && !score_.knows_fetches() && now_ns() - last_begun_ns_ < kLongestMeasured;
        return walks_.in_flight() > 0 || pressing_ > 0 || !waiting_.empty() || is_measured;
    }
    // Whether a fetch needs this thread before it ends. Where the kernel does not read ahead, each page is read when
    // the one before has come.
    static bool presses(bool into_frames, std::uint64_t read_ahead, std::uint32_t length);
    // Nobody has looked for a while whether reads have ended.
    void has_slept() { slept_ = true; }

    bool idle() const { return waiting_.empty() && in_flight() == 0; }
    unsigned in_flight() const { return fetches_ + walks_.in_flight(); }
    // With those of which nobody hears.
    unsigned under_way() const { return in_flight() + unheard_.count(); }
    std::uint64_t bytes_under_way() const { return fetch_bytes_ + unheard_.bytes(); }
    unsigned waiting() const { return waiting_.size(); }

  private:
    struct Item {
        WalkRequest walk;  // its chain and file are a fetch's, too
        std::uint64_t offset = 0, length = 0;
        std::uint64_t waits = 0;  // of programs when it was asked for
        bool is_walk = false;
        unsigned distance = 0;
        engine::QueueLink link;
    };
    struct ItemLink {
        Item* items;
        engine::QueueLink& operator()(std::uint32_t i) const { return items[i].link; }
    };
    struct Fetch {
        ShadowFile* file = nullptr;
        std::uint64_t offset = 0, waits = 0;
        std::uint32_t length = 0, range = kNoRange, chain = 0;
        std::uint32_t frame = shim::kNoFrame;  // the first, of a file that is served
        std::uint64_t served_id = 0;           // what it was then: once it has changed it is another one
        Disk::Filled filled = {};
        std::uint32_t next_free = kNoRange;
        Unheard::Begun mark = {};
        bool is_begun = false;  // by the kernel, and the ring only hears when its last page has come
        std::uint8_t tries = 0;
        bool presses = false;
    };
    Item* new_item(std::uint32_t chain, ShadowFile& file, unsigned distance = 0);
    std::uint32_t rank_of(const Item& item) const;
    bool joins_last(std::uint32_t chain, const ShadowFile& file, std::uint64_t offset, std::uint64_t end);
    void free_item(std::uint32_t index);
    // Of what is to begin; `for_bytes`: only what is long has to wait.
    enum class Begun : std::uint8_t { yes, waits, waits_for_bytes };
    Begun begin(std::uint32_t index, std::uint64_t now_ns);
    std::expected<bool, std::string> begin_waiting();
    std::expected<void, std::string> hand_over();
    bool may_walk(const WalkRequest& request);
    bool can_serve(ShadowFile& file);
    Begun begin_walk(const Item& item, std::uint64_t now_ns);
    Begun begin_fetch(Item& item, std::uint64_t now_ns);
    bool begin_piece(Fetch& wanted, std::uint64_t now_ns);
    bool has_piece(const Fetch& wanted) const;
    std::uint32_t next_piece(Item& item) const;
    std::uint32_t longest_piece(const ShadowFile& file, std::uint64_t offset) const;
    bool begin_by_kernel(Fetch& wanted);
    bool hand_to_disk(const Fetch& fetch, std::uint32_t slot);
    bool settle_frames(const Fetch& fetch, std::int32_t result);
    void finish_fetch(FetchDone done, std::uint64_t now_ns);

    const SpecPlan& plan_;
    Ranges& ranges_;
    Score& score_;
    Walks& walks_;
    Direct& direct_;
    const unsigned limit_;
    const unsigned ranks_;  // of classes
    std::vector<Item> items_;
    std::vector<Fetch> fetch_slots_;
    std::uint32_t free_item_ = kNoRange, free_fetch_ = kNoRange;
    std::uint32_t last_ = kNoRange;  // the range that was asked for last, until it begins
    engine::PriorityQueue<ItemLink> waiting_;
    unsigned fetches_ = 0, pressing_ = 0;
    std::uint64_t fetch_bytes_ = 0, last_begun_ns_ = 0;
    Unheard unheard_;
    bool slept_ = false;
};

}  // namespace chainio::shadow
