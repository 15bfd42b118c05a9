#include "runtime/shadow/ahead.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "runtime/shadow/clock.h"

namespace chainio::shadow {
namespace {

constexpr std::uint32_t kMostWaiting = 16384;
constexpr std::uint64_t kLongestRange = std::uint64_t{64} << 20;  // of one prefetch
constexpr std::uint8_t kMostTries = 4;
// As far as the kernel reads ahead at least: a fetch that is no longer needs nobody's help once it has begun.
constexpr std::uint32_t kInOneGo = 128 * 1024;
// Ranges beside each other are one up to here: long enough that a device which counts reads has few of them, short
// enough that others are read at the same time.
constexpr std::uint64_t kJoined = 64 * 1024;
// What is only begun costs nothing but its submission, of which few long ones suit a disk better than many short ones.
constexpr std::uint32_t kLongPiece = 1024 * 1024;
constexpr unsigned kPassed = 32;  // long ones that wait, behind which short ones are looked for
constexpr unsigned kAtOnce = 16;  // begun until the device hears of them: it is to work while more are begun

std::uint32_t pages_of(std::uint32_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

// The classes' own ranks, and once more for each folder that what is foretold is away: what a thread comes to first is
// the more urgent, whatever its class.
std::vector<engine::ClassRank> by_distance(const std::vector<engine::ClassRank>& ranks) {
    constexpr std::uint32_t kBehindAll = 256;  // priorities of classes are below
    std::vector<engine::ClassRank> all;
    for (unsigned distance = 0; distance <= Ahead::kFarthest; distance++)
        for (const engine::ClassRank& rank : ranks) all.push_back({rank.priority + kBehindAll * distance, rank.weight});
    return all;
}

// Room for so many, none of it touched yet.
template <typename T>
std::vector<T> reserved(std::size_t count) {
    std::vector<T> room;
    room.reserve(count);
    return room;
}

}  // namespace

Ahead::Ahead(const Parts& parts, const std::vector<engine::ClassRank>& ranks, unsigned in_flight)
    : plan_(parts.plan),
      ranges_(parts.ranges),
      score_(parts.score),
      walks_(parts.walks),
      direct_(parts.direct),
      limit_(in_flight),
      ranks_(static_cast<unsigned>(ranks.size())),
      items_(reserved<Item>(kMostWaiting)),
      fetch_slots_(in_flight),
      waiting_(by_distance(ranks), ItemLink{items_.data()}),
      unheard_(in_flight) {
    for (std::uint32_t i = in_flight; i-- > 0;) {
        fetch_slots_[i].next_free = free_fetch_;
        free_fetch_ = i;
    }
}

std::uint32_t Ahead::rank_of(const Item& item) const {
    return plan_.chains[item.walk.chain].rank + item.distance * ranks_;
}

Ahead::Item* Ahead::new_item(std::uint32_t chain, ShadowFile& file, unsigned distance) {
    if (free_item_ == kNoRange && items_.size() == kMostWaiting) {
        score_.dropped(chain);
        return nullptr;
    }
    if (free_item_ == kNoRange) {
        free_item_ = static_cast<std::uint32_t>(items_.size());
        items_.emplace_back().link.next = kNoRange;
    }
    Item& item = items_[free_item_];
    free_item_ = item.link.next;
    item = {};
    item.walk.chain = chain;
    item.walk.file = &file;
    file.pins++;
    file.waiting++;
    item.distance = distance;
    waiting_.push(rank_of(item), static_cast<std::uint32_t>(&item - items_.data()));
    return &item;
}

void Ahead::free_item(std::uint32_t index) {
    items_[index].walk.file->pins--;
    items_[index].walk.file->waiting--;
    items_[index].distance = 0;
    items_[index].link.next = free_item_;
    free_item_ = index;
}

void Ahead::ask_range(std::uint32_t chain, ShadowFile& file, std::uint64_t offset, std::uint64_t length,
                      unsigned distance) {
    const std::uint64_t wanted = length == 0 ? UINT64_MAX : length;
    const bool sized = std::exchange(file.sized, false);
    if (!sized && (offset >= file.size || wanted > file.size - offset)) {
        struct stat info{};
        if (fstat(file.fd, &info) == 0) file.size = static_cast<std::uint64_t>(info.st_size);
    }
    if (offset >= file.size) return score_.dropped(chain);
    length = std::min(wanted, file.size - offset);
    if (length > kLongestRange) {
        score_.dropped(chain);
        length = kLongestRange;
    }
    if (joins_last(chain, file, offset, offset + length)) return;
    Item* item = new_item(chain, file, distance);
    if (item == nullptr) return;
    item->offset = offset / kPageBytes * kPageBytes;
    item->length = offset + length - item->offset;
    item->waits = walks_.overtaken().waits();
    last_ = static_cast<std::uint32_t>(item - items_.data());
}

// What was asked for before and has not begun is made longer where this goes on behind it, as the leaves of a tree do
// that was built in order. Only as far as the kernel takes it as one, which it does up to its read-ahead.
bool Ahead::joins_last(std::uint32_t chain, const ShadowFile& file, std::uint64_t offset, std::uint64_t end) {
    if (last_ == kNoRange || file.served) return false;
    Item& last = items_[last_];
    if (last.walk.chain != chain || last.walk.file != &file) return false;
    const std::uint64_t last_end = last.offset + last.length;
    const bool beside = offset > last.offset && offset / kPageBytes <= (last_end + kPageBytes - 1) / kPageBytes;
    if (!beside || end <= last_end || end - last.offset > std::min(kJoined, file.read_ahead)) return false;
    last.length = end - last.offset;
    return true;
}

// What walks read is not served.
bool Ahead::may_walk(const WalkRequest& request) {
    if (!request.file->served) return true;
    direct_.count_walk();
    score_.dropped(request.chain);
    return false;
}

void Ahead::ask_walk(const WalkRequest& request, unsigned distance) {
    if (!may_walk(request)) return;
    Item* item = new_item(request.chain, *request.file, distance);
    if (item == nullptr) return;
    last_ = kNoRange;  // the order stays what it was
    item->walk = request;
    item->walk.waits = walks_.overtaken().waits();
    item->is_walk = true;
}

void Ahead::ask_mark(const WalkRequest& request) {
    if (!may_walk(request)) return;
    const std::uint64_t now = now_ns();
    Walks::Started started = walks_.start(request, now);
    if (started == Walks::Started::full) {
        settle_marks();
        started = walks_.start(request, now);
    }
    if (started == Walks::Started::full || started == Walks::Started::refused) score_.dropped(request.chain);
}

// A ring that has failed says so again when fetches are begun.
void Ahead::settle_marks() { static_cast<void>(walks_.advance()); }

void Ahead::comes_nearer(const ShadowFile& file, unsigned distance) {
    if (file.waiting == 0) return;
    for (std::uint32_t i = 0; i < items_.size(); i++) {
        Item& item = items_[i];
        if (item.distance <= distance || item.walk.file != &file) continue;
        waiting_.remove(rank_of(item), i);
        item.distance = distance;
        waiting_.push(rank_of(item), i);
    }
}

Ahead::Begun Ahead::begin(std::uint32_t index, std::uint64_t now_ns) {
    Item& item = items_[index];
    if (index == last_) last_ = kNoRange;
    const Begun begun = item.is_walk ? begin_walk(item, now_ns) : begin_fetch(item, now_ns);
    if (begun == Begun::yes) free_item(index);
    return begun;
}

Ahead::Begun Ahead::begin_walk(const Item& item, std::uint64_t now_ns) {
    const std::uint32_t chain = item.walk.chain;
    if (!score_.admit(chain)) return Begun::yes;
    if (!ranges_.make_room(1, kPageBytes, now_ns)) {
        score_.refused(chain);
        return Begun::yes;
    }
    switch (walks_.start(item.walk, now_ns)) {
        case Walks::Started::yes: return Begun::yes;
        case Walks::Started::duplicate: score_.duplicate(chain); return Begun::yes;
        case Walks::Started::refused: score_.refused(chain); return Begun::yes;
        case Walks::Started::full: break;
    }
    score_.take_back(chain);
    return Begun::waits;
}

bool Ahead::can_serve(ShadowFile& file) {
    if (walks_.disk().reads_to_memory()) return direct_.ready(file);
    direct_.count_no_ring();
    return false;
}

// Takes pieces off the item and begins them, until it is finished with or has to wait.
Ahead::Begun Ahead::begin_fetch(Item& item, std::uint64_t now_ns) {
    const std::uint32_t chain = item.walk.chain;
    ShadowFile& file = *item.walk.file;
    if (file.served && !can_serve(file)) {
        score_.dropped(chain);
        return Begun::yes;
    }
    if (file.served) item.length = std::min(item.length, file.served_size - std::min(file.served_size, item.offset));
    while (item.length > 0) {
        if (free_fetch_ == kNoRange || under_way() >= limit_) return Begun::waits;
        if (item.length > kJoined && bytes_under_way() >= kMostUnderWay) return Begun::waits_for_bytes;
        const std::uint32_t piece = next_piece(item);
        if (!score_.admit(chain)) return Begun::yes;
        Fetch wanted{.file = &file, .offset = item.offset, .waits = item.waits, .length = piece, .chain = chain};
        item.offset += piece;
        item.length -= piece;
        if (!begin_piece(wanted, now_ns)) continue;
        wanted.presses = !wanted.is_begun && presses(wanted.frame != shim::kNoFrame, file.read_ahead, wanted.length);
        pressing_ += wanted.presses;
        const std::uint32_t slot = free_fetch_;
        free_fetch_ = fetch_slots_[slot].next_free;
        wanted.mark = unheard_.mark();
        fetch_slots_[slot] = wanted;
        file.pins++;
        fetches_++;
        last_begun_ns_ = now_ns;
        fetch_bytes_ += wanted.length;
        score_.fetched(chain, wanted.length);
    }
    return Begun::yes;
}

// Of a long piece as much as is not known: a range of which another one has all pages would end as wasted, whatever is
// read. One of which all is known stays, for whoever counts it.
std::uint32_t Ahead::next_piece(Item& item) const {
    const ShadowFile& file = *item.walk.file;
    const auto length =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(item.length, longest_piece(file, item.offset)));
    if (length <= kPiece || ranges_.known(file.key, item.offset, length) != Ranges::Known::some) return length;
    const auto part_is_known = [&](std::uint32_t at) {
        return ranges_.known(file.key, item.offset + at, std::min(kPiece, length - at)) == Ranges::Known::all;
    };
    std::uint32_t begin = 0;
    while (part_is_known(begin)) begin += kPiece;
    std::uint32_t end = begin + kPiece;
    while (end < length && !part_is_known(end)) end += kPiece;
    item.offset += begin;
    item.length -= begin;
    // Behind the file's first piece no piece is as long as that.
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::min(end, length) - begin, longest_piece(file, item.offset)));
}

// What a program is served from is in served memory, everything else in the page cache.
bool Ahead::has_piece(const Fetch& wanted) const {
    const ShadowFile& file = *wanted.file;
    return file.served ? direct_.holds(file, wanted.offset, wanted.length)
                       : walks_.disk().in_memory(file.fd, wanted.offset, wanted.length, file.counts_pages);
}

// Longer where it will only be begun. Some of them have to find room among what is ahead.
std::uint32_t Ahead::longest_piece(const ShadowFile& file, std::uint64_t offset) const {
    if (!file.begins_reads || file.served || file.read_ahead < kInOneGo || !walks_.disk().begins_reads()) return kPiece;
    const std::uint64_t most = offset == 0 ? kFirstPiece : std::min<std::uint64_t>(kLongPiece, file.read_ahead);
    const std::uint64_t room = ranges_.most_bytes() / 8 / kPageBytes * kPageBytes;
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(std::min(most, room), kPiece));
}

// Only tells the kernel to begin it, where that will do: it costs less than a read of the ring, which copies what has
// come, and leaves nothing to be done at its end. Of what is longer than its read-ahead the kernel may begin less.
bool Ahead::begin_by_kernel(Fetch& wanted) {
    const ShadowFile& file = *wanted.file;
    const bool first = wanted.offset == 0 && file.read_ahead >= kInOneGo;
    Disk& disk = walks_.disk();
    if (!file.begins_reads || file.served || !disk.begins_reads()) return false;
    if (!first && wanted.length > file.read_ahead) return false;
    const bool is_new = !score_.knows_disk(file.device);
    const long before = is_new ? Disk::blocks_read() : 0;
    const bool begun = first ? disk.begin_file(file.fd, wanted.length, file.read_ahead, wanted.length >= file.size)
                             : disk.begin_read(file.fd, wanted.offset, wanted.length, file.read_ahead);
    if (!begun) return false;
    if (first) wanted.filled = disk.filled();
    // Programs can only tell by the count whether there was anything to read.
    if (is_new && Disk::blocks_read() != before)
        score_.has_begun(file.device, std::min<std::uint64_t>(file.read_ahead, kPiece));
    return true;
}

// Of one that was admitted; for the fetch slot that is free next. False: it needs none.
bool Ahead::begin_piece(Fetch& wanted, std::uint64_t now_ns) {
    const ShadowFile& file = *wanted.file;
    const std::uint32_t chain = wanted.chain;
    const bool known = ranges_.known(file.key, wanted.offset, wanted.length) == Ranges::Known::all;
    // Served memory may have given away what nobody has read yet.
    if (known && (!file.served || has_piece(wanted))) {
        score_.duplicate(chain);
        return false;
    }
    if (has_piece(wanted)) {
        const bool late = walks_.overtaken().found(chain, file.key, wanted.offset, wanted.length, wanted.waits);
        late ? score_.too_late(chain, false) : score_.cached(chain);
        return false;
    }
    // A long one counts as so many requests as it has ranges.
    for (std::uint32_t admitted = 1; admitted < pieces_of(wanted.length); admitted++)
        if (!score_.admit(chain)) wanted.length = admitted * kPiece;
    wanted.range = ranges_.begin(file.key, wanted.offset, wanted.length, chain, score_.turns()[chain], now_ns);
    const bool unheard = unheard_.may(in_flight(), wanted.length);
    // The ring copies what it reads: of a long one it reads the end.
    const bool by_kernel = unheard || wanted.length > kInOneGo;
    wanted.is_begun = by_kernel && wanted.range != kNoRange && begin_by_kernel(wanted);
    if (wanted.is_begun && unheard) {
        unheard_.begun(wanted.length);
        ranges_.arrived(wanted.range, now_ns);
        score_.fetched(chain, wanted.length);
        return false;
    }
    // What the kernel does not begin after all, which is found out once, the ring does not read whole.
    const bool whole = wanted.is_begun || wanted.length <= kPiece;
    if (wanted.range != kNoRange) {
        if (file.served) wanted.frame = direct_.begin(file, wanted.offset, pages_of(wanted.length));
        wanted.served_id = file.served_id;
        if (whole && (!file.served || wanted.frame != shim::kNoFrame) && hand_to_disk(wanted, free_fetch_)) return true;
        if (wanted.frame != shim::kNoFrame) direct_.arrived(wanted.frame, pages_of(wanted.length), 0);
        ranges_.take_back(wanted.range);
    }
    score_.refused(chain, pieces_of(wanted.length));
    return false;
}

void Ahead::program_waited(std::uint64_t file, std::uint64_t offset, std::uint64_t length) {
    walks_.overtaken().waited(file, offset, length, [&](std::uint32_t chain) { score_.too_late(chain, true); });
}

void Ahead::begun_elsewhere(std::uint32_t chain, std::uint64_t file, std::uint64_t offset, const shim::Ran& ran) {
    // Programs begin no more at a time; whoever says so says anything.
    if (ran.length == 0 || ran.length > kPiece) return score_.dropped(chain);
    if (!score_.admit(chain)) return;
    if (ranges_.known(file, offset, ran.length) == Ranges::Known::all) return score_.duplicate(chain);
    if (ran.outcome != shim::Outcome::begun) return score_.cached(chain);
    // The program's clock may be another one. The server sleeps no longer than that.
    constexpr std::uint64_t kLongestAgo = 200'000'000;
    const std::uint64_t now = now_ns(), begun = std::clamp(ran.begun_ns, now - std::min(now, kLongestAgo), now);
    const std::uint32_t range = ranges_.begin(file, offset, ran.length, chain, score_.turns()[chain], begun);
    if (range == kNoRange) return score_.refused(chain);
    ranges_.arrived(range, begun);
    score_.fetched(chain, ran.length, true);
}

// What was begun into frames goes on into them, though the file may be opened otherwise meanwhile.
bool Ahead::hand_to_disk(const Fetch& fetch, std::uint32_t slot) {
    const ShadowFile& file = *fetch.file;
    const std::uint64_t last = fetch.offset + fetch.length - 1;
    if (fetch.is_begun) return walks_.disk().fetch(file.fd, last, 1, slot);
    if (fetch.frame == shim::kNoFrame) return walks_.disk().fetch(file.fd, fetch.offset, fetch.length, slot);
    return walks_.disk().fetch(file.direct_fd, fetch.offset, pages_of(fetch.length) * kPageBytes, slot,
                               direct_.data(fetch.frame));
}

bool Ahead::presses(bool into_frames, std::uint64_t read_ahead, std::uint32_t length) {
    const bool by_pages = read_ahead == 0 && length > kPageBytes;
    return into_frames || by_pages || length > kInOneGo;
}

// Whether what was read into frames is what the file held all the while; they are free again otherwise.
bool Ahead::settle_frames(const Fetch& fetch, std::int32_t result) {
    if (fetch.frame == shim::kNoFrame) return result >= 0;
    const ShadowFile& file = *fetch.file;
    const std::uint32_t pages = pages_of(fetch.length);
    const std::uint64_t whole =
        std::min(std::uint64_t{pages} * kPageBytes, file.served_size - std::min(file.served_size, fetch.offset));
    const bool good = result >= 0 && static_cast<std::uint64_t>(result) == whole && fetch.served_id == file.served_id &&
                      direct_.unchanged(file);
    direct_.arrived(fetch.frame, pages, good ? whole : 0);
    return good;
}

void Ahead::finish_fetch(FetchDone done, std::uint64_t now_ns) {
    Fetch& fetch = fetch_slots_[done.number];
    const bool again = done.result == -EAGAIN || done.result == -EINTR;
    if (again && ++fetch.tries < kMostTries && hand_to_disk(fetch, done.number)) return;
    if (settle_frames(fetch, done.result)) {
        // A short one has reached the end of the file: what there is is in memory.
        const std::uint64_t took = ranges_.arrived(fetch.range, now_ns);
        if (!slept_) score_.fetch_took(took);
        if (fetch.is_begun) walks_.disk().look_at(fetch.file->fd, fetch.filled);
    } else {
        score_.could_not_read(ranges_.failed(fetch.range), std::max(-done.result, 0), fetch.file->key);
    }
    unheard_.come(fetch.mark);
    pressing_ -= fetch.presses;
    fetch_bytes_ -= fetch.length;
    fetch.file->pins--;
    fetch.next_free = free_fetch_;
    free_fetch_ = done.number;
    fetches_--;
}

// Gives the device what has begun.
std::expected<void, std::string> Ahead::hand_over() {
    if (walks_.in_flight() > 0) return walks_.advance();
    if (walks_.disk().under_way() == 0) return {};
    const int result = walks_.disk().enter(0, {});
    if (result >= 0) return {};
    return std::unexpected(std::string("io_uring_enter fails with error ") + std::to_string(-result));
}

// As many as may be under way, the most urgent first; past what is long and has to wait to what is short.
std::expected<bool, std::string> Ahead::begin_waiting() {
    std::array<std::uint32_t, kPassed> passed;
    std::size_t waits = 0;
    unsigned begun = 0;
    std::expected<void, std::string> handed;
    const std::uint64_t now = now_ns();
    while (handed && under_way() < limit_ && begun < limit_ && waits < passed.size()) {
        const std::uint32_t index = waiting_.pop();
        if (index == engine::kNoIndex) break;
        const Begun how = begin(index, now);
        if (how != Begun::yes) passed[waits++] = index;
        if (how == Begun::waits) break;
        if (how == Begun::waits_for_bytes || ++begun % kAtOnce != 0) continue;
        handed = hand_over();
    }
    while (waits > 0) {
        const std::uint32_t index = passed[--waits];
        waiting_.push_front(rank_of(items_[index]), index);
    }
    if (!handed) return std::unexpected(handed.error());
    return begun != 0;
}

std::expected<bool, std::string> Ahead::advance() {
    Disk& disk = walks_.disk();
    const unsigned before = in_flight();
    const auto begun = begin_waiting();
    if (!begun) return std::unexpected(begun.error());
    if (auto handed = hand_over(); !handed) return std::unexpected(handed.error());
    const std::uint64_t later = now_ns();
    // Indexed, as a fetch that is tried again may bring another entry.
    for (std::size_t i = 0; i < disk.fetched().size(); i++) finish_fetch(disk.fetched()[i], later);
    const bool moved = *begun || !disk.fetched().empty() || in_flight() != before;
    disk.clear_fetched();
    slept_ = false;
    return moved;
}

void Ahead::drop_waiting() {
    last_ = kNoRange;
    for (std::uint32_t index; (index = waiting_.pop()) != engine::kNoIndex;) free_item(index);
}

}  // namespace chainio::shadow
