// What the server does when a program opens a file: chains on openings are shown it, and what the thread will open
// next.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "runtime/shadow/clock.h"
#include "runtime/shadow/events.h"

namespace chainio::shadow {
namespace {

// One in so many openings is shown to chains on them that are quiet.
constexpr std::uint32_t kShownOpenings = 4;
constexpr std::size_t kMostPastCache = 4096;           // files; of more, what is asked for is fetched
constexpr std::uint64_t kForetoldFor = 1'000'000'000;  // ns in which an opening that was foretold is not shown again

}  // namespace

// To to_run_: those of some chains on openings that are to see this one. Opening a file once more costs more than most
// chains win by it, and so quiet ones see few.
void Events::find_wanted(const std::vector<std::uint32_t>& chains) {
    to_run_.clear();
    for (std::uint32_t chain : chains) {
        const bool skipped = parts_.score.is_quiet(chain) && ++passed_[chain] % kShownOpenings != 0;
        if (wants(chain) && !skipped) to_run_.push_back(chain);
    }
}

void Events::on_opened(const Message& message) {
    const shim::Event& event = message.event;
    parts_.region.stats.classes[event.source].opened.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t file_class = parts_.plan.classes[event.source];
    // Whoever posts can claim anything, and the server may read what the program that posts may not.
    if (!parts_.files.matches(file_class, std::string(text_of(message)).c_str())) {
        if (refusals_.wants_example(FileRefusal::no_match))
            refusals_.set_example(FileRefusal::no_match, text_of(message));
        return refusals_.add(FileRefusal::no_match, file_key(event.device, event.inode));
    }
    if (explain_) explain(message, nullptr);
    // Who only writes says nothing about how the file is read.
    const bool only_writes = (event.offset & O_ACCMODE) == O_WRONLY;
    const bool direct = !only_writes && (event.offset & O_DIRECT) != 0;
    const std::uint64_t key = file_key(event.device, event.inode);
    if (!direct && !only_writes) past_cache_.erase(key);
    // Its reads are not told of, nor is its end; others may read the same file through the page cache.
    if (direct && !parts_.spec.module().files[file_class].immutable) {
        direct_++;
        if (past_cache_.size() < kMostPastCache) past_cache_.insert(key);
        return;
    }
    // Files that no chain is about are only prefetched, by paths that chains make themselves: all there is to know is
    // where to.
    const bool is_source = !on_read_[event.source].empty() || !on_open_[event.source].empty();
    if (!is_source && !direct && parts_.files.find(event.device, event.inode) == nullptr) return;
    ShadowFile& opened = parts_.files.opened(event.device, event.inode, text_of(message), event.offset, file_class);
    if (only_writes || on_open_[event.source].empty()) return;
    const std::uint64_t now = now_ns();
    const bool was_foretold = elapsed_ns(std::exchange(opened.foretold_ns, 0), now) < kForetoldFor;
    if (!was_foretold) opened.shown.reset();
    parts_.ahead.comes_nearer(opened, 0);
    unread_.opened(message.ring, {event.device, event.inode, event.source});
    find_wanted(on_open_[event.source]);
    if (to_run_.empty()) return;
    ShadowFile* file = file_of(event);
    if (file == nullptr) return;
    const Asked asked = run_opened({message.ring, event.source}, *file);
    // What has nothing to say of this one has nothing to say of the next.
    if (was_foretold || asked.any) foretell({message.ring, event.source}, *file, asked.by_reads, now);
}

// Runs those chains of to_run_ that have not been shown this opening, or go by how the thread reads and did not know
// that then. One whose gate has just opened is shown it again: what it asked for before may have been refused.
Events::Asked Events::run_opened(const Opener& opener, ShadowFile& file) {
    Asked asked;
    const std::uint32_t read = last_read(opener);
    const bool reads_otherwise = std::exchange(file.shown_read, read) != read;
    file.pins++;  // a chain may name so many others that this one would be closed for them
    for (std::uint32_t chain : to_run_) {
        const bool by_reads = parts_.plan.chains[chain].by_last_read;
        const bool probed = parts_.score.gate(chain).state() == policy::Gate::State::probing;
        if (file.shown.test(chain) && !probed && !(by_reads && reads_otherwise)) continue;
        Runner::Event shown{.total = read, .file = &file, .arguments = {}};
        if (!show(chain, opener.source, file, shown)) {
            parts_.score.left_alone(chain);
            continue;
        }
        file.shown.set(chain);
        const bool any = run(chain, shown, &file);
        asked.by_reads = asked.by_reads || (any && by_reads);
        asked.any = asked.any || any || looks_into_[chain];
    }
    file.pins--;
    return asked;
}

// A thread that goes from folder to folder is shown to the chains some folders ahead, as what it opens there is all the
// more in time the sooner it is asked for.
void Events::foretell(const Opener& opener, const ShadowFile& file, bool scans, std::uint64_t now) {
    if (file.direct) return;
    static_assert(Succession::kAhead == Ahead::kFarthest);
    for (const std::string& path : succession_.after(opener.ring, file.path, scans, now)) {
        distance_++;
        const auto next = parts_.files.at(path, parts_.plan.classes[opener.source], now);
        if (!next) continue;
        if (elapsed_ns((*next)->foretold_ns, now) >= kForetoldFor) (*next)->shown.reset();
        (*next)->foretold_ns = now;
        parts_.ahead.comes_nearer(**next, distance_);
        run_opened(opener, **next);
    }
    distance_ = 0;
}

// Whether a chain of to_run_ would ask for something of the file since the thread reads as it does.
bool Events::scans(const Opener& opener, ShadowFile& file) {
    return std::ranges::any_of(to_run_, [&](std::uint32_t chain) {
        if (!parts_.plan.chains[chain].by_last_read) return false;
        Runner::Event shown{.total = last_read(opener), .file = &file, .arguments = {}};
        return show(chain, opener.source, file, shown) &&
               runner_.run(parts_.plan.chains[chain].chain, shown) == CIO_OK && !runner_.prefetches().empty();
    });
}

// A thread reads. What it has opened and not read from is shown to chains that have woken meanwhile, or that know only
// now how it reads. What it reads just now is in its own hands.
void Events::look_back(const Opener& opener, const shim::Event& event) {
    to_run_.clear();
    for (std::uint32_t chain : on_open_[opener.source])
        if (wants(chain) && !parts_.score.is_quiet(chain)) to_run_.push_back(chain);
    if (to_run_.empty()) return;
    const std::uint64_t now = now_ns();
    for (const Unread::File& one : unread_.of(opener.ring)) {
        ShadowFile* file = one.source == opener.source ? parts_.files.find(one.device, one.inode) : nullptr;
        // Another thread may have closed it.
        if (file == nullptr || file->openings == 0 || (file->direct && !file->served)) continue;
        const bool is_read = one.device == event.device && one.inode == event.inode;
        const Asked asked = is_read ? Asked{.any = true, .by_reads = scans(opener, *file)} : run_opened(opener, *file);
        if (asked.any) foretell(opener, *file, asked.by_reads, now);
    }
}

// Of the same class. What a thread opens next it mostly reads as it has read the file before.
std::uint32_t& Events::last_read(const Opener& opener) {
    return last_reads_[std::size_t{opener.ring} * parts_.plan.classes.size() + opener.source];
}

}  // namespace chainio::shadow
