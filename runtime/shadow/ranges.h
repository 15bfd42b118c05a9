// What was fetched ahead and has not been read yet, by file and page: what need not be fetched again, and whether
// fetching was of any use. A range ends as exactly one of
//   hit     the program read from it and did not wait for a device
//   late    the program read from it and waited: it came while the range was under way
//   vain    as late, but nearly as long as if nothing had been fetched
//   wasted  nobody read from it: it grew too old, had to make room, or the run ended
//   failed  it could not be read
// A read that touches any page of a range decides for all of it. What is fetched in one go and is long is several
// ranges, so that a read of its begin says nothing of its end. Bounded: nothing is allocated after the constructor.
#pragma once
#include <cstdint>
#include <vector>

namespace chainio::shadow {

inline constexpr std::uint32_t kPageBytes = 4096;
inline constexpr std::uint32_t kNoRange = UINT32_MAX;
inline constexpr std::uint32_t kPiece = 256 * 1024;  // the longest range
inline constexpr std::uint32_t pieces_of(std::uint64_t bytes) {
    return static_cast<std::uint32_t>((bytes + kPiece - 1) / kPiece);
}

struct RangeLimits {
    std::uint64_t bytes = std::uint64_t{256} << 20;  // under way or unread
    std::uint32_t ranges = 65536;
    std::uint64_t too_old_ns = 10'000'000'000;   // unread for that long: wasted
    std::uint64_t may_yield_ns = 1'000'000'000;  // unread for that long: makes room for a new one
    // Unread although its chain has asked at so many more events, and for that long: it counts against the chain
    // already. When it is read after all, that is made up for.
    std::uint64_t overdue_events = 16, overdue_ns = 100'000'000;
};

enum class RangeEnd : std::uint8_t { hit, late, vain, wasted, given_up, failed, overdue, redeemed };

// How a read of the program went.
struct Took {
    bool waited = false;                  // for a device
    std::uint64_t began_ns = UINT64_MAX;  // as far as is known
    std::uint64_t ns = 0;
};

class RangeSink {
  public:
    virtual ~RangeSink() = default;
    // overdue and redeemed (read after it had been called overdue, before `hit`, `late` or `vain`) do not end a range;
    // given_up is `wasted` of one that had been called overdue. `turn` is the one that the range was begun with.
    virtual void on_range(std::uint32_t chain, std::uint64_t turn, RangeEnd end) = 0;
};

class Ranges {
  public:
    Ranges(const RangeLimits& limits, std::uint32_t chains, RangeSink& sink);

    enum class Known : std::uint8_t { none, some, all };
    Known known(std::uint64_t file, std::uint64_t offset, std::uint64_t length) const;
    // Whether any page is being fetched just now.
    bool under_way(std::uint64_t file, std::uint64_t offset, std::uint64_t length) const;
    // What is about to be fetched in one go: the first of its ranges, by which all of them arrive or fail. Pages that
    // another range has stay with that one. kNoRange: no room. `turn` counts the chain's events that asked for
    // something.
    std::uint32_t begin(std::uint64_t file, std::uint64_t offset, std::uint64_t length, std::uint32_t chain,
                        std::uint64_t turn, std::uint64_t now_ns);
    // Whether there is room for so much more; what has lain unread for a while yields, the oldest first.
    bool make_room(std::uint32_t ranges, std::uint64_t bytes, std::uint64_t now_ns);
    // Returns how long it was under way.
    std::uint64_t arrived(std::uint32_t range, std::uint64_t now_ns);
    // Returns how many have failed that nobody had read from yet.
    std::uint32_t failed(std::uint32_t range);
    std::uint64_t file_of(std::uint32_t range) const { return ranges_[range].file; }
    // It was not begun after all. Returns how many nobody had read from yet.
    std::uint32_t take_back(std::uint32_t range);
    // A walk reads it.
    void walked(std::uint32_t range) { ranges_[range].walked = true; }
    struct Touched {
        bool any = false;
        std::uint32_t walker = kNoRange;  // the chain whose walk had read one of them
        std::uint64_t fetch_ns = 0;       // how long the fetch took that it has waited for; 0: it is not known
        explicit operator bool() const { return any; }
    };
    // The program has read this. Tells of the ranges that it touched.
    Touched read(std::uint64_t file, std::uint64_t offset, std::uint64_t length, const Took& took);
    // Declares ranges overdue and wasted; `turn` gives a chain's events so far.
    void age(const std::vector<std::uint64_t>& turns, std::uint64_t now_ns);
    void end();  // all that is left is wasted

    std::uint64_t bytes() const { return bytes_; }
    std::uint64_t most_bytes() const { return limits_.bytes; }
    std::uint32_t count() const { return used_; }
    std::uint32_t pages() const { return page_count_; }

  private:
    enum class State : std::uint8_t { free, under_way, touched, unread };  // touched: under way, and read from already
    struct Range {
        std::uint64_t file = 0, page = 0, turn = 0;
        std::uint64_t begun_ns = 0, since_ns = 0;  // since: it has been in its state
        std::uint32_t pages = 0, chain = 0;
        std::uint32_t prev = kNoRange, next = kNoRange;  // of its list, oldest first; or of the free ones
        std::uint32_t more = kNoRange;                   // while it is under way: the next that is fetched with it
        State state = State::free;
        bool overdue = false, walked = false;
    };
    struct Page {
        std::uint64_t file = 0, page = 0;
        std::uint32_t range = kNoRange, next = kNoRange;
    };
    struct List {
        std::uint32_t oldest = kNoRange, newest = kNoRange;
    };
    // A read may never come: what lies unread ages apart from what is under way.
    struct OfChain {
        List under_way, unread;
        std::uint32_t due = kNoRange;  // the oldest unread one that has not been called overdue
    };
    List& list_of(const Range& range);
    void link(std::uint32_t range);
    void unlink(std::uint32_t range);
    std::uint32_t bucket_of(std::uint64_t file, std::uint64_t page) const;
    std::uint32_t range_at(std::uint64_t file, std::uint64_t page) const;
    void add_page(std::uint64_t file, std::uint64_t page, std::uint32_t range);
    std::uint32_t begin_one(const Range& begun);
    void drop(std::uint32_t range);
    void end_range(std::uint32_t range, RangeEnd end);
    bool beside_each_other(std::uint64_t file, std::uint64_t first, std::uint64_t end) const;
    static std::uint64_t fetch_met(const Range& range, const Took& took);
    void touch(std::uint32_t range, const Took& took, bool shared);
    void one_arrived(std::uint32_t range, std::uint64_t now_ns);
    void age_chain(std::uint32_t chain, std::uint64_t turn, std::uint64_t now_ns);

    RangeLimits limits_;
    std::uint32_t most_pages_;
    RangeSink& sink_;
    std::vector<Range> ranges_;
    std::vector<Page> pages_;
    std::vector<std::uint32_t> buckets_;
    std::vector<OfChain> chains_;
    std::uint32_t free_range_ = kNoRange, free_page_ = kNoRange;
    std::uint32_t used_ = 0, page_count_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace chainio::shadow
