#include "runtime/shadow/events.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/shadow/clock.h"
#include "runtime/shadow/how_read.h"

namespace chainio::shadow {
namespace {

constexpr std::uint64_t kBetweenSearches = 50'000'000;  // ns, of files whose opening was not seen
constexpr std::uint32_t kMostGrants = 65536;            // processes
// Where walks end chains seldom have more to ask for: after so many such pages in a row one in so many is shown to one.
constexpr std::uint32_t kSilentPages = 32, kShown = 16;
// Siblings of a class that were named so often in a row and were not there are most likely not there at all: one in so
// many is looked for.
constexpr std::uint32_t kMissing = 8, kLookedFor = 16;

bool is_of_marks(const ir::HeaderArg& one) { return one.field == ir::kMarkField || one.field == ir::kLastMarkField; }

// Whether a chain goes by more of its file than where it is read and how far the kernel reads ahead there.
bool goes_by_contents(const ir::Module& module, const SpecPlan& plan, const ChainPlan& chain) {
    const bool on_open = chain.mode == ir::ChainMode::on_open;
    if (!on_open && !chain.blind) return true;
    const auto& taken = module.chains[chain.chain].header_args;
    const auto is_of_file = [](const ir::HeaderArg& one) {
        return one.field != ir::kReadAheadField && !is_of_marks(one);
    };
    return module.files[plan.classes[chain.source]].header_program >= 0 || std::ranges::any_of(taken, is_of_file);
}

bool is_marked_by_walk(const cio_prefetch& said) { return said.kind == CIO_PREFETCH_MARK_VIA; }
bool is_mark(const cio_prefetch& said) { return said.kind == CIO_PREFETCH_MARK || is_marked_by_walk(said); }

}  // namespace

Events::Events(const Parts& parts, bool explain)
    : parts_(parts),
      explain_(explain),
      runner_(parts.spec),
      on_read_(parts.plan.classes.size()),
      on_open_(parts.plan.classes.size()),
      on_ready_(parts.plan.sockets.size()),
      on_probe_(shim::kMaxProbes),
      silent_(parts.plan.chains.size()),
      passed_(parts.plan.chains.size()),
      last_reads_(shim::kRings * parts.plan.classes.size()),
      opened_for_(parts.plan.classes.size()),
      missing_(parts.spec.module().files.size()),
      unserved_(parts.plan.classes.size()),
      outcomes_(parts.plan.chains.size(), parts.spec.module().reasons.size()) {
    to_run_.reserve(parts.plan.chains.size());
    for (std::uint32_t i = 0; i < parts.plan.chains.size(); i++) {
        const ChainPlan& chain = parts.plan.chains[i];
        looks_into_.push_back(goes_by_contents(parts.spec.module(), parts.plan, chain));
        by_marks_.push_back(std::ranges::any_of(parts.spec.module().chains[chain.chain].header_args, is_of_marks));
        if (!chain.asks) continue;
        if (chain.mode == ir::ChainMode::on_read) on_read_[chain.source].push_back(i);
        if (chain.mode == ir::ChainMode::on_open) {
            on_open_[chain.source].push_back(i);
            for (std::uint32_t target : chain.targets) opened_for_[target].insert(chain.source);
        }
        if (chain.mode == ir::ChainMode::on_ready) on_ready_[chain.source].push_back(i);
        if (chain.mode == ir::ChainMode::on_probe) on_probe_[chain.source].push_back(i);
    }
    // Where none goes by marks nobody looks there, and a run begins with less to touch.
    if (std::ranges::find(by_marks_, true) != by_marks_.end())
        last_said_.resize(std::size_t{shim::kRings} * parts.plan.chains.size());
}

void Events::on_message(const Message& message) {
    if (shown_until_ != UINT64_MAX && now_ns() >= shown_until_) not_shown_++;
    switch (message.event.kind) {
        case shim::EventKind::opened: return on_opened(message);
        case shim::EventKind::read:
        case shim::EventKind::ended:
        case shim::EventKind::served:
        case shim::EventKind::served_ended:
        case shim::EventKind::direct:
        case shim::EventKind::direct_ended: return on_read(message);
        case shim::EventKind::begun:
        case shim::EventKind::direct_begun: return on_begun(message);
        case shim::EventKind::ready: return on_ready(message);
        case shim::EventKind::ran: return on_ran(message);
        case shim::EventKind::probe: return on_probe(message);
        case shim::EventKind::passed: return explain(message, nullptr);
        case shim::EventKind::note: return on_note(message);
        case shim::EventKind::closed: return on_closed(message);
        case shim::EventKind::skip: return;
    }
}

// Whether the chain can be shown this file. To open it takes longer than most chains do to say that they want nothing.
bool Events::show(std::uint32_t chain, std::uint32_t source, ShadowFile& file, Runner::Event& shown) {
    if (!looks_into_[chain] && file.fd < 0 && parts_.files.glances_at(file)) return true;
    if (!opens(file)) return false;
    shown.header = header(source, file);
    return shown.header != nullptr;
}

bool Events::opens(ShadowFile& file) {
    const auto opened = parts_.files.open(file);
    if (!opened) refuse(opened.error(), file);
    return opened.has_value();
}

void Events::refuse(FileRefusal why, const ShadowFile& file) {
    refusals_.add(why, file.key);
    if (refusals_.wants_example(why)) refusals_.set_example(why, file.path);
}

// Of an open file; null when it is to be left alone.
const std::vector<std::uint64_t>* Events::header(std::uint32_t source, ShadowFile& file) {
    const auto* found = parts_.files.header(file, parts_.plan.classes[source]);
    if (found == nullptr) refuse(FileRefusal::bad_header, file);
    return found;
}

// The chains of to_run_ are not shown the event, and programs are to pay no more for that than for events of which
// chains have nothing to say.
void Events::left_alone() {
    for (const std::uint32_t chain : to_run_) parts_.score.left_alone(chain);
}

// One whose opening was not seen. Looking for it takes a while: null when that was done just now, for whichever file.
ShadowFile* Events::search(const shim::Event& event) {
    const std::uint64_t now = now_ns();
    if (now - last_search_ns_ < kBetweenSearches) return nullptr;
    last_search_ns_ = now;
    const auto found = parts_.files.search(event.process, event.device, event.inode, parts_.plan.classes[event.source]);
    if (!found) refusals_.add(found.error(), file_key(event.device, event.inode));
    return found.value_or(nullptr);
}

// The file of an event that to_run_ is to be shown, unless it is left alone; not opened before something of it is
// wanted.
ShadowFile* Events::file_of(const shim::Event& event) {
    ShadowFile* file = parts_.files.find(event.device, event.inode);
    if (file == nullptr) file = search(event);
    const ir::FileClass& declared = parts_.spec.module().files[parts_.plan.classes[event.source]];
    if (file != nullptr && (!file->direct || declared.immutable)) return file;
    left_alone();
    return nullptr;
}

// Whether the read begins where the one before has ended, so that the kernel had read it ahead by itself.
bool Events::goes_on(ShadowFile& file, const shim::Event& event) const {
    const std::uint64_t before = std::exchange(file.read_end, event.offset + event.length);
    const bool reads_ahead = !file.direct && parts_.score.kernel_reads_ahead(event.source);
    return before != 0 && event.offset == before && reads_ahead && event.length < file.read_ahead;
}

void Events::on_closed(const Message& message) {
    const shim::Event& event = message.event;
    parts_.files.closed(event.device, event.inode);
    unread_.forget(message.ring, {event.device, event.inode, event.source});
}

void Events::on_read(const Message& message) {
    const shim::Event& event = message.event;
    run_read(message);
    // To look back costs more than there is to win of files that are in memory.
    if (event.took_ns <= shim::kSlowReadNs)
        return unread_.forget(message.ring, {event.device, event.inode, event.source});
    for (std::uint32_t source : opened_for_[event.source]) look_back({message.ring, source}, event);
    unread_.reads(message.ring, event.source);
}

void Events::run_read(const Message& message) {
    const shim::Event& event = message.event;
    const bool waited = event.took_ns > shim::kSlowReadNs;
    const auto [direct, served, told] = how_it_read(event.kind);
    if (!direct) past_cache_.erase(file_key(event.device, event.inode));
    // Of one that was said to begin it is known what it asked for, whatever there was.
    if (!told) last_read({message.ring, event.source}) = message.asked;
    ShadowFile* known = parts_.files.find(event.device, event.inode);
    if (known != nullptr) parts_.files.is_read(*known, direct);
    const bool from_there = known != nullptr && event.offset != 0 && event.offset == known->read_end;
    const bool there_anyway = known != nullptr && (goes_on(*known, event) || (known->untold && !served));
    parts_.score.expect_saving(event.source, event.took_ns, served, there_anyway);
    const std::uint64_t now = waited ? now_ns() : 0;
    const Took took{
        .waited = waited, .began_ns = now - std::min<std::uint64_t>(event.took_ns, now), .ns = event.took_ns};
    Ranges::Touched touched;
    if (direct && !served && known != nullptr && parts_.direct.has(*known, event.offset, event.length))
        unserved_[event.source]++;
    // One past the page cache that was not served had nothing of what was fetched.
    if (served || !direct)
        touched = parts_.ranges.read(file_key(event.device, event.inode), event.offset, event.length, took);
    if (touched.fetch_ns != 0) parts_.score.fetch_took(touched.fetch_ns);
    parts_.score.program_read(event.source, event.length, event.took_ns, touched.any);
    if (waited) {
        parts_.ahead.program_waited(file_key(event.device, event.inode), event.offset, event.length);
        parts_.score.waited(event.source, now, message.asked);
    }
    if (event.length == 0) return;
    if (known != nullptr && (waited || touched.any))
        parts_.score.saw_read_ahead(event.source, from_there && !touched.any, now);
    Shown shown{.walker = touched.walker, .is_marked = touched.walker != kNoRange && is_marked(event)};
    to_run_.clear();
    for (std::uint32_t chain : on_read_[event.source])
        if (wants(chain) && !passes_over(chain, shown) && !(parts_.plan.chains[chain].blind && told))
            to_run_.push_back(chain);
    if (to_run_.empty()) return;
    ShadowFile* file = file_of(event);
    if (file == nullptr) return;
    if (!bytes_for(*file, event, shown.length)) return left_alone();
    run_over(message, shown, *file);
}

// The place where the chain has last asked for or marked something at a read of the thread.
Events::Place& Events::last_said(const Message& message, std::uint32_t chain) {
    return last_said_[std::size_t{message.ring} * parts_.plan.chains.size() + chain];
}

// Whether the place that is read has a mark of its own.
bool Events::is_marked(const shim::Event& event) const {
    return !last_said_.empty() && parts_.marks.own_of(file_key(event.device, event.inode), event.offset) != 0;
}

// What the chains say that need not see the bytes can be read beside them.
void Events::on_begun(const Message& message) {
    const shim::Event& event = message.event;
    last_read({message.ring, event.source}) = event.length;
    const bool direct = how_it_read(event.kind).direct;
    if (!direct) past_cache_.erase(file_key(event.device, event.inode));
    if (ShadowFile* known = parts_.files.find(event.device, event.inode); known != nullptr)
        parts_.files.is_read(*known, direct);
    to_run_.clear();
    for (std::uint32_t chain : on_read_[event.source])
        if (parts_.plan.chains[chain].blind && wants(chain)) to_run_.push_back(chain);
    if (event.length == 0) return;
    ShadowFile* file = to_run_.empty() ? nullptr : file_of(event);
    if (file != nullptr) run_over(message, {}, *file);
    look_back({message.ring, event.source}, event);
    unread_.reads(message.ring, event.source);
}

// Runs the chains of to_run_. Those that see no byte are shown the read's end.
void Events::run_over(const Message& message, const Shown& what, ShadowFile& file) {
    const shim::Event& event = message.event;
    file.pins++;
    for (std::uint32_t chain : to_run_) {
        Runner::Event shown{
            .offset = event.offset, .length = what.length, .total = event.length, .file = &file, .arguments = {}};
        if (!show(chain, event.source, file, shown)) {
            parts_.score.left_alone(chain);
            continue;
        }
        if (by_marks_[chain]) {
            const Place& last = last_said(message, chain);
            shown.mark = parts_.marks.of(file.key, event.offset);
            shown.last_mark = last.file == file.key ? parts_.marks.own_of(file.key, last.offset) : 0;
        }
        if (parts_.plan.chains[chain].blind) {
            shown.length = std::min<std::uint32_t>(event.length, CIO_MAX_BLOCK);
            shown.offset = event.offset + event.length - shown.length;
        }
        const bool asked = run(chain, shown, &file, message.asked == event.length);
        if (asked && by_marks_[chain]) last_said(message, chain) = {file.key, event.offset};
        if (what.walker != kNoRange && !what.is_marked) silent_[chain] = asked ? 0 : silent_[chain] + 1;
    }
    file.pins--;
}

// Reading a page again only to find that a chain has nothing to say of it costs as much as fetching it. Where a page
// has a mark, something was to be said of it.
bool Events::passes_over(std::uint32_t chain, const Shown& what) {
    if (what.walker == kNoRange || (what.is_marked && by_marks_[chain]) || silent_[chain] < kSilentPages) return false;
    return ++silent_[chain] % kShown != 0;
}

// What the chains of to_run_ are shown; without a look at the file when none of them sees a byte.
bool Events::bytes_for(ShadowFile& file, const shim::Event& event, std::uint32_t& length) {
    length = std::min<std::uint32_t>(event.length, CIO_MAX_BLOCK);
    const auto blind = [&](std::uint32_t chain) { return parts_.plan.chains[chain].blind; };
    if (std::ranges::all_of(to_run_, blind)) return true;
    if (!opens(file) || header(event.source, file) == nullptr) return false;
    if (read_block(file, event, length)) return true;
    gone_++;
    return false;
}

// The bytes that the program has just read. They are in the page cache, unless it reads past it.
bool Events::read_block(const ShadowFile& file, const shim::Event& event, std::uint32_t& length) {
    iovec vector{runner_.block(), std::min<std::size_t>(event.length, CIO_MAX_BLOCK)};
    ssize_t got = preadv2(file.fd, &vector, 1, static_cast<off_t>(event.offset), RWF_NOWAIT);
    if (got < static_cast<ssize_t>(vector.iov_len))
        got = preadv2(file.fd, &vector, 1, static_cast<off_t>(event.offset), 0);
    length = static_cast<std::uint32_t>(std::max<ssize_t>(got, 0));
    return got > 0;
}

void Events::on_ready(const Message& message) {
    const auto& chains = on_ready_[message.event.source];
    if (message.payload.empty() || chains.empty()) return;
    std::ranges::copy(message.payload, runner_.block());
    const auto length = static_cast<std::uint32_t>(message.payload.size());
    for (std::uint32_t chain : chains) {
        if (!wants(chain)) continue;
        run(chain,
            {.offset = 0, .length = length, .total = length, .file = nullptr, .header = nullptr, .arguments = {}},
            nullptr);
    }
}

// What a program's own thread has run and begun is counted as if it had been asked for here.
void Events::on_ran(const Message& message) {
    const std::uint32_t chain = message.event.source;
    if (chain >= parts_.plan.chains.size() || !parts_.plan.chains[chain].own) return;
    shim::Ran ran{};
    std::memcpy(&ran, message.payload.data(), sizeof ran);
    const bool asked = ran.outcome == shim::Outcome::begun || ran.outcome == shim::Outcome::in_memory;
    parts_.score.ran(chain, ran.outcome != shim::Outcome::failed, asked);
    if (asked)
        parts_.ahead.begun_elsewhere(chain, file_key(message.event.device, message.event.inode), message.event.offset,
                                     ran);
}

void Events::on_probe(const Message& message) {
    for (std::uint32_t chain : on_probe_[message.event.source]) {
        if (!wants(chain)) continue;
        run(chain,
            {.offset = 0, .length = 0, .total = 0, .file = nullptr, .header = nullptr, .arguments = message.payload},
            nullptr);
    }
}

// Whether the chain has asked for anything. `is_whole`: the event is no read that the file's end has cut short, whose
// length says nothing of what the chain has to say of such reads.
bool Events::run(std::uint32_t chain, const Runner::Event& event, ShadowFile* file, bool is_whole) {
    const std::uint32_t outcome = runner_.run(parts_.plan.chains[chain].chain, event);
    if (outcome != CIO_OK) outcomes_.add(chain, outcome);
    auto prefetches = outcome == CIO_OK ? runner_.prefetches() : std::span<const cio_prefetch>{};
    if (outcome == CIO_OK && is_whole) parts_.score.learn_length(chain, !prefetches.empty(), event.total);
    if (!prefetches.empty() && file != nullptr && !opens(*file)) prefetches = {};
    const bool asked = !std::ranges::all_of(prefetches, is_mark);
    if (asked || prefetches.empty()) {
        parts_.score.ran(chain, outcome == CIO_OK, asked);
    } else {
        parts_.score.marked(chain);
    }
    for (const cio_prefetch& prefetch : prefetches) follow(chain, prefetch, file);
    // What comes of marks is needed at the next event already.
    if (std::ranges::any_of(prefetches, is_marked_by_walk)) parts_.ahead.settle_marks();
    asked_ = asked_ || asked;
    return !prefetches.empty();
}

// What native code has written is checked like any data.
void Events::follow(std::uint32_t chain, const cio_prefetch& prefetch, ShadowFile* file) {
    const ir::Module& module = parts_.spec.module();
    if (prefetch.kind == CIO_PREFETCH_SAME && file != nullptr)
        return parts_.ahead.ask_range(chain, *file, prefetch.offset, prefetch.length, distance_);
    if (prefetch.kind == CIO_PREFETCH_MARK && file != nullptr)
        return parts_.marks.set(file->key, prefetch.offset, prefetch.length);
    const bool walks = prefetch.kind == CIO_PREFETCH_CHAIN || prefetch.kind == CIO_PREFETCH_MARK_VIA;
    if (walks && file != nullptr && prefetch.target < module.chains.size() &&
        module.chains[prefetch.target].mode == ir::ChainMode::call) {
        WalkRequest request{.chain = chain, .target = prefetch.target, .file = file, .args = {}};
        std::copy_n(prefetch.args, request.args.size(), request.args.begin());
        if (prefetch.kind == CIO_PREFETCH_CHAIN) return parts_.ahead.ask_walk(request, distance_);
        request.marks = prefetch.offset;
        return parts_.ahead.ask_mark(request);
    }
    if ((prefetch.kind == CIO_PREFETCH_SIBLING && file != nullptr) || prefetch.kind == CIO_PREFETCH_PATH)
        return follow_named(chain, prefetch, file);
    parts_.score.dropped(chain);
}

void Events::follow_named(std::uint32_t chain, const cio_prefetch& prefetch, ShadowFile* file) {
    const auto name = runner_.name_of(prefetch);
    if (!name || prefetch.target >= parts_.spec.module().files.size()) return parts_.score.dropped(chain);
    const bool beside = prefetch.kind == CIO_PREFETCH_SIBLING;
    Missing& missing = missing_[prefetch.target];
    const auto refuse = [&](FileRefusal why) {
        refusals_.add(why, beside ? file->key : prefetch.target, *name);
        if (refusals_.wants_example(why))
            refusals_.set_example(
                why, beside ? with_ending(file->path, *name) : parts_.files.shown_path(*name, prefetch.target));
        parts_.score.dropped(chain);
    };
    if (beside && missing.times >= kMissing && ++missing.times % kLookedFor != 0) return refuse(missing.why);
    const std::uint64_t now = now_ns();
    auto target = beside ? parts_.files.sibling(*file, *name, prefetch.target, now)
                         : parts_.files.under_root(*name, prefetch.target, now);
    if (beside) missing = target ? Missing{} : Missing{missing.times + 1, target.error()};
    if (!target) return refuse(target.error());
    if (past_cache_.contains((*target)->key)) {
        not_reached_++;
        return parts_.score.dropped(chain);
    }
    parts_.ahead.ask_range(chain, **target, prefetch.offset, prefetch.length, distance_);
}

// Reads of a process that has such rings are not served; where /proc does not say, it may have.
bool Events::may_serve(std::uint32_t process) {
    if (!parts_.direct.any() || process == 0) return false;
    if (grants_.size() >= kMostGrants && !grants_.contains(process)) return false;
    Grant& grant = grants_[process];
    if (!grant.looked && grant.served) grant.served = ProcessRings::held_by(process) == 0U;
    grant.looked = true;
    return grant.served;
}

void Events::look_again() {
    std::erase_if(grants_, [](const auto& entry) { return kill(static_cast<pid_t>(entry.first), 0) != 0; });
    for (auto& [process, grant] : grants_) grant.looked = false;
    rings_.tick();
}

}  // namespace chainio::shadow
