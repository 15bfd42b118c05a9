#include "runtime/shadow/ranges.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/shadow/clock.h"

namespace chainio::shadow {
namespace {

// When all is taken: most runs never have a hundredth of it, and making the buckets takes time at each start.
constexpr std::uint32_t kPagesInBucket = 8;
// A wait was shortened when the fetch had begun a third of what it still took before it: by a quarter of the whole.
constexpr std::uint64_t kHeadStart = 3;

std::uint64_t page_of(std::uint64_t offset) { return offset / kPageBytes; }

std::uint64_t page_end(std::uint64_t offset, std::uint64_t length) {
    return (offset + length + kPageBytes - 1) / kPageBytes;
}

}  // namespace

Ranges::Ranges(const RangeLimits& limits, std::uint32_t chains, RangeSink& sink)
    : limits_(limits),
      most_pages_(static_cast<std::uint32_t>(limits.bytes / kPageBytes)),
      sink_(sink),
      buckets_(std::bit_ceil(std::max<std::size_t>(most_pages_ / kPagesInBucket, 16)), kNoRange),
      chains_(chains) {
    // Only reserved: a run that fetches little must not pay for touching all of it at its start.
    ranges_.reserve(limits.ranges);
    pages_.reserve(most_pages_);
}

std::uint32_t Ranges::bucket_of(std::uint64_t file, std::uint64_t page) const {
    std::uint64_t hash = (file ^ page * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 32;
    return static_cast<std::uint32_t>(hash & (buckets_.size() - 1));
}

std::uint32_t Ranges::range_at(std::uint64_t file, std::uint64_t page) const {
    for (std::uint32_t i = buckets_[bucket_of(file, page)]; i != kNoRange; i = pages_[i].next) {
        if (pages_[i].page == page && pages_[i].file == file) return pages_[i].range;
    }
    return kNoRange;
}

void Ranges::add_page(std::uint64_t file, std::uint64_t page, std::uint32_t range) {
    std::uint32_t at = free_page_;
    if (at == kNoRange) {
        at = static_cast<std::uint32_t>(pages_.size());
        pages_.emplace_back();
    } else {
        free_page_ = pages_[at].next;
    }
    std::uint32_t& bucket = buckets_[bucket_of(file, page)];
    pages_[at] = {file, page, range, bucket};
    bucket = at;
    page_count_++;
}

Ranges::Known Ranges::known(std::uint64_t file, std::uint64_t offset, std::uint64_t length) const {
    bool all = true, some = false;
    for (std::uint64_t page = page_of(offset); page < page_end(offset, length); page++) {
        const bool here = range_at(file, page) != kNoRange;
        all = all && here;
        some = some || here;
    }
    return !some ? Known::none : all ? Known::all : Known::some;
}

bool Ranges::under_way(std::uint64_t file, std::uint64_t offset, std::uint64_t length) const {
    for (std::uint64_t page = page_of(offset); page < page_end(offset, length); page++) {
        const std::uint32_t at = range_at(file, page);
        if (at != kNoRange && ranges_[at].state != State::unread) return true;
    }
    return false;
}

std::uint32_t Ranges::begin(std::uint64_t file, std::uint64_t offset, std::uint64_t length, std::uint32_t chain,
                            std::uint64_t turn, std::uint64_t now_ns) {
    constexpr std::uint64_t kPagesOfPiece = kPiece / kPageBytes;
    const std::uint64_t first = page_of(offset), end = page_end(offset, length);
    const std::uint32_t count = pieces_of((end - first) * kPageBytes);
    if (length == 0 || end - first > most_pages_ || count > limits_.ranges) return kNoRange;
    if (!make_room(count, (end - first) * kPageBytes, now_ns)) return kNoRange;
    std::uint32_t begun = kNoRange, before = kNoRange;
    for (std::uint64_t page = first; page < end; page += kPagesOfPiece) {
        const std::uint32_t at = begin_one({.file = file,
                                            .page = page,
                                            .turn = turn,
                                            .begun_ns = now_ns,
                                            .since_ns = now_ns,
                                            .pages = static_cast<std::uint32_t>(std::min(kPagesOfPiece, end - page)),
                                            .chain = chain,
                                            .state = State::under_way});
        (before == kNoRange ? begun : ranges_[before].more) = at;
        before = at;
    }
    return begun;
}

Ranges::List& Ranges::list_of(const Range& range) {
    OfChain& chain = chains_[range.chain];
    return range.state == State::unread ? chain.unread : chain.under_way;
}

// As the newest of the list that its state says.
void Ranges::link(std::uint32_t at) {
    Range& range = ranges_[at];
    List& list = list_of(range);
    range.prev = list.newest;
    range.next = kNoRange;
    (list.newest == kNoRange ? list.oldest : ranges_[list.newest].next) = at;
    list.newest = at;
    std::uint32_t& due = chains_[range.chain].due;
    if (due == kNoRange && range.state == State::unread) due = at;
}

void Ranges::unlink(std::uint32_t at) {
    const Range& range = ranges_[at];
    List& list = list_of(range);
    std::uint32_t& due = chains_[range.chain].due;
    if (due == at) due = range.next;
    (range.prev == kNoRange ? list.oldest : ranges_[range.prev].next) = range.next;
    (range.next == kNoRange ? list.newest : ranges_[range.next].prev) = range.prev;
}

// There is room for it.
std::uint32_t Ranges::begin_one(const Range& begun) {
    std::uint32_t at = free_range_;
    if (at == kNoRange) {
        at = static_cast<std::uint32_t>(ranges_.size());
        ranges_.emplace_back();
    } else {
        free_range_ = ranges_[at].next;
    }
    Range& range = ranges_[at];
    range = begun;
    link(at);
    for (std::uint64_t page = range.page; page < range.page + range.pages; page++)
        if (range_at(range.file, page) == kNoRange) add_page(range.file, page, at);
    used_++;
    bytes_ += std::uint64_t{range.pages} * kPageBytes;
    return at;
}

bool Ranges::make_room(std::uint32_t ranges, std::uint64_t bytes, std::uint64_t now_ns) {
    while (used_ + ranges > limits_.ranges || bytes_ + bytes > limits_.bytes) {
        std::uint32_t oldest = kNoRange;
        for (const OfChain& chain : chains_) {
            const std::uint32_t at = chain.unread.oldest;
            if (at == kNoRange) continue;
            if (oldest == kNoRange || ranges_[at].since_ns < ranges_[oldest].since_ns) oldest = at;
        }
        if (oldest == kNoRange || elapsed_ns(ranges_[oldest].since_ns, now_ns) < limits_.may_yield_ns) return false;
        end_range(oldest, RangeEnd::wasted);
    }
    return true;
}

void Ranges::drop(std::uint32_t at) {
    Range& range = ranges_[at];
    for (std::uint64_t page = range.page; page < range.page + range.pages; page++) {
        std::uint32_t* link = &buckets_[bucket_of(range.file, page)];
        while (*link != kNoRange && (pages_[*link].page != page || pages_[*link].file != range.file))
            link = &pages_[*link].next;
        const std::uint32_t found = *link;
        if (found == kNoRange || pages_[found].range != at) continue;  // another range has it
        *link = pages_[found].next;
        pages_[found].next = free_page_;
        free_page_ = found;
        page_count_--;
    }
    unlink(at);
    bytes_ -= std::uint64_t{range.pages} * kPageBytes;
    used_--;
    range.state = State::free;
    range.next = free_range_;
    free_range_ = at;
}

void Ranges::end_range(std::uint32_t at, RangeEnd end) {
    const std::uint32_t chain = ranges_[at].chain;
    const std::uint64_t turn = ranges_[at].turn;
    if (end == RangeEnd::wasted && ranges_[at].overdue) end = RangeEnd::given_up;
    drop(at);
    sink_.on_range(chain, turn, end);
}

std::uint64_t Ranges::arrived(std::uint32_t at, std::uint64_t now_ns) {
    const std::uint64_t took = elapsed_ns(ranges_[at].since_ns, now_ns);
    while (at != kNoRange) one_arrived(std::exchange(at, ranges_[at].more), now_ns);
    return took;
}

void Ranges::one_arrived(std::uint32_t at, std::uint64_t now_ns) {
    Range& range = ranges_[at];
    range.more = kNoRange;
    if (range.state == State::touched) return drop(at);
    if (range.state != State::under_way) return;
    unlink(at);
    range.state = State::unread;
    range.since_ns = now_ns;
    link(at);
}

std::uint32_t Ranges::failed(std::uint32_t at) {
    std::uint32_t unread = 0;
    while (at != kNoRange) {
        const std::uint32_t one = std::exchange(at, ranges_[at].more);
        const bool touched = ranges_[one].state == State::touched;
        touched ? drop(one) : end_range(one, RangeEnd::failed);
        unread += !touched;
    }
    return unread;
}

std::uint32_t Ranges::take_back(std::uint32_t at) {
    std::uint32_t unread = 0;
    while (at != kNoRange) {
        const std::uint32_t one = std::exchange(at, ranges_[at].more);
        unread += ranges_[one].state != State::touched;
        drop(one);
    }
    return unread;
}

// Whether half of these pages and more are in several ranges: what the program would have had to wait for piece by
// piece comes at once, however late it was asked for.
bool Ranges::beside_each_other(std::uint64_t file, std::uint64_t first, std::uint64_t end) const {
    std::uint64_t found = 0;
    bool several = false;
    std::uint32_t before = kNoRange;
    for (std::uint64_t page = first; page < end; page++) {
        const std::uint32_t at = range_at(file, page);
        if (at == kNoRange) continue;
        found++;
        several = several || (before != kNoRange && at != before);
        before = at;
    }
    return several && found * 2 >= end - first;
}

void Ranges::touch(std::uint32_t at, const Took& took, bool shared) {
    Range& range = ranges_[at];
    if (range.state == State::touched) return;
    const std::uint32_t chain = range.chain;
    const std::uint64_t turn = range.turn;
    const bool overdue = range.overdue;
    const bool shortened = shared || elapsed_ns(range.begun_ns, took.began_ns) >= took.ns / kHeadStart;
    const RangeEnd end = !took.waited ? RangeEnd::hit : shortened ? RangeEnd::late : RangeEnd::vain;
    // One that is under way stays, so that nobody fetches it a second time.
    if (range.state == State::under_way) {
        range.state = State::touched;
    } else {
        drop(at);
    }
    if (overdue) sink_.on_range(chain, turn, RangeEnd::redeemed);
    sink_.on_range(chain, turn, end);
}

// The end of the read is that of the fetch where it has waited for much of that. One that has waited for other pages,
// beside a range that lay there for long, says nothing.
std::uint64_t Ranges::fetch_met(const Range& range, const Took& took) {
    const std::uint64_t before = elapsed_ns(range.begun_ns, took.began_ns);
    return took.waited && range.state != State::touched && before / kHeadStart <= took.ns ? before + took.ns : 0;
}

Ranges::Touched Ranges::read(std::uint64_t file, std::uint64_t offset, std::uint64_t length, const Took& took) {
    Touched found;
    if (used_ == 0 || length == 0) return found;
    const std::uint64_t first = page_of(offset);
    const std::uint64_t end = std::min(page_end(offset, length), first + most_pages_);
    const bool shared = took.waited && beside_each_other(file, first, end);
    for (std::uint64_t page = first; page < end; page++) {
        const std::uint32_t at = range_at(file, page);
        if (at == kNoRange) continue;
        found.any = true;
        if (ranges_[at].walked) found.walker = ranges_[at].chain;
        if (found.fetch_ns == 0) found.fetch_ns = fetch_met(ranges_[at], took);
        touch(at, took, shared);
    }
    return found;
}

void Ranges::age_chain(std::uint32_t chain, std::uint64_t turn, std::uint64_t now_ns) {
    OfChain& of = chains_[chain];
    while (of.unread.oldest != kNoRange) {
        if (elapsed_ns(ranges_[of.unread.oldest].since_ns, now_ns) < limits_.too_old_ns) break;
        end_range(of.unread.oldest, RangeEnd::wasted);
    }
    while (of.due != kNoRange) {
        Range& range = ranges_[of.due];
        const bool behind = turn >= range.turn + limits_.overdue_events;
        if (!behind || elapsed_ns(range.since_ns, now_ns) < limits_.overdue_ns) break;
        range.overdue = true;
        sink_.on_range(chain, range.turn, RangeEnd::overdue);
        of.due = range.next;
    }
}

void Ranges::age(const std::vector<std::uint64_t>& turns, std::uint64_t now_ns) {
    for (std::uint32_t chain = 0; chain < chains_.size(); chain++) age_chain(chain, turns[chain], now_ns);
}

void Ranges::end() {
    for (const OfChain& chain : chains_) {
        while (chain.unread.oldest != kNoRange) end_range(chain.unread.oldest, RangeEnd::wasted);
        while (chain.under_way.oldest != kNoRange) {
            const std::uint32_t at = chain.under_way.oldest;
            ranges_[at].state == State::touched ? drop(at) : end_range(at, RangeEnd::wasted);
        }
    }
}

}  // namespace chainio::shadow
