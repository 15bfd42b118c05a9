#include "runtime/shadow/walks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/shadow/clock.h"

namespace chainio::shadow {
namespace {

constexpr unsigned kEngineFiles = 64;
constexpr std::size_t kRecent = 8192;
constexpr std::uint64_t kRecentNs = 250'000'000;  // a walk that was done is not done again for that long
constexpr std::size_t kPassedBytes = std::size_t{2} << 20;
constexpr std::uint32_t kNoNumber = 0x3fffffff;  // of a read whose pages belong to another range already

struct BackendContext {
    Walks* walks;
    unsigned depth;
    metrics::Fallbacks* fallbacks;
    Disk* made;
};

std::unique_ptr<engine::Backend> make_disk(void* context, umem::Slab&, metrics::EngineCounters&) {
    auto* wanted = static_cast<BackendContext*>(context);
    auto disk = std::make_unique<Disk>(wanted->depth, kEngineFiles, *wanted->walks, *wanted->fallbacks);
    wanted->made = disk.get();
    return disk;
}

}  // namespace

Walks::Walks(const Parts& parts, unsigned in_flight)
    : parts_(parts),
      slots_(in_flight),
      key_of_file_(kEngineFiles),
      recent_(kRecent),
      done_(64),
      outcomes_(CIO_USER + parts.spec->module().reasons.size()) {
    for (std::uint32_t i = 0; i < slots_.size(); i++) slots_[i].next_free = i + 1 < slots_.size() ? i + 1 : kNoRange;
    open_.reserve(kEngineFiles);
}

std::expected<std::unique_ptr<Walks>, std::string> Walks::create(const Parts& parts, unsigned in_flight,
                                                                 std::size_t memory_bytes) {
    std::unique_ptr<Walks> walks(new Walks(parts, in_flight));
    BackendContext context{walks.get(), in_flight, &parts.fallbacks, nullptr};
    engine::EngineOptions options;
    options.in_flight = in_flight;
    options.umem_bytes = memory_bytes;
    options.max_files = kEngineFiles;
    options.huge_pages = false;
    options.always_try_page_cache = true;  // what is in memory is no fetch of ours
    // Pages near the root of a tree are on the way of every walk. One that has changed since costs a hit, never a byte.
    options.passed_ns = kRecentNs;
    options.passed_bytes = std::min(kPassedBytes, memory_bytes / 4);
    auto engine = engine::Engine::create(parts.spec, options, make_disk, &context);
    if (!engine) return std::unexpected(engine.error());
    walks->engine_ = std::move(*engine);
    walks->disk_ = context.made;
    return walks;
}

void Walks::file_closes(const ShadowFile& file) {
    std::erase_if(open_, [&](const OpenFile& entry) {
        return entry.file == &file && engine_->close_file(entry.handle).has_value();
    });
}

// Closes the file that was used longest ago and that no walk is in.
bool Walks::make_room() {
    if (open_.size() < kEngineFiles) return true;
    std::ranges::sort(open_, {}, &OpenFile::used);
    for (auto at = open_.begin(); at != open_.end(); ++at) {
        if (!engine_->close_file(at->handle)) continue;
        open_.erase(at);
        return true;
    }
    return false;
}

Walks::OpenFile* Walks::open_in_engine(ShadowFile& file, std::uint32_t file_class) {
    const auto* header = parts_.files.header(file, file_class);
    if (header == nullptr) return nullptr;
    const auto known = std::ranges::find_if(
        open_, [&](const OpenFile& entry) { return entry.file == &file && entry.file_class == file_class; });
    if (known != open_.end() && known->header == *header) {
        known->used = ++uses_;
        engine_->set_size(known->handle, file.size);
        return &*known;
    }
    // It has got another header: walks that are in it end by the old one.
    if (known != open_.end()) {
        if (!engine_->close_file(known->handle)) return nullptr;
        open_.erase(known);
    }
    if (!make_room()) return nullptr;
    engine::OpenedFile opened;
    opened.fd = fcntl(file.fd, F_DUPFD_CLOEXEC, 0);
    if (opened.fd < 0) return nullptr;
    opened.file_class = file_class;
    opened.size = file.size;
    opened.header = *header;
    opened.path = file.path;
    const int fd = opened.fd;
    auto handle = engine_->add_file(std::move(opened));
    if (!handle) {
        close(fd);
        return nullptr;
    }
    key_of_file_[*handle & 0xffff] = file.key;
    return &open_.emplace_back(OpenFile{&file, file_class, *handle, ++uses_, *header});
}

std::uint64_t Walks::hash_of(const WalkRequest& request) {
    std::uint64_t hash = request.file->key ^ (std::uint64_t{request.target} + 1) * 0x9e3779b97f4a7c15u;
    if (request.marks) hash = (hash ^ *request.marks) * 0x94d049bb133111ebu;
    for (std::uint64_t arg : request.args) hash = (hash ^ arg) * 0xbf58476d1ce4e5b9u, hash ^= hash >> 31;
    return hash;
}

Walks::Started Walks::start(const WalkRequest& request, std::uint64_t now_ns) {
    if (free_slot_ == kNoRange) return Started::full;
    const std::uint64_t hash = hash_of(request);
    Recent& recent = recent_[hash % recent_.size()];
    if (recent.hash == hash && elapsed_ns(recent.at_ns, now_ns) < kRecentNs) return Started::duplicate;
    const ir::Chain& chain = parts_.spec->module().chains[request.target];
    std::array<engine::Argument, CIO_MAX_ARGS> args;
    std::size_t count = 0, scalar = 0;
    for (const ir::Param& param : chain.params) {
        if (count == args.size()) return Started::refused;
        if (param.kind == ir::Param::Kind::file) {
            OpenFile* open = open_in_engine(*request.file, param.file_class);
            if (open == nullptr) return Started::refused;
            args[count++] = engine::Argument::file(open->handle);
        } else {
            if (scalar == request.args.size()) return Started::refused;
            args[count++] = engine::Argument::scalar(request.args[scalar++]);
        }
    }
    const std::uint32_t index = free_slot_;
    Slot& slot = slots_[index];
    const std::uint32_t next = slot.next_free;
    slot = {.chain = request.chain,
            .file = request.file,
            .device_reads = 0,
            .ours = false,
            .found = 0,
            .found_length = 0,
            .waits = request.waits,
            .again = 0,
            .marks = request.marks,
            .next_free = next};
    auto submitted = engine_->submit(request.target, std::span(args).first(count), index);
    if (!submitted) {
        if (submitted.error().kind == engine::SubmitError::Kind::full) return Started::full;
        refused_++;
        return Started::refused;
    }
    recent = {hash, now_ns};
    free_slot_ = next;
    request.file->pins++;
    if (!request.marks) parts_.score.walked(request.chain);
    return Started::yes;
}

std::expected<void, std::string> Walks::advance() {
    for (;;) {
        auto count = engine_->reap(done_, 0);
        if (!count) return std::unexpected(count.error());
        for (unsigned i = 0; i < *count; i++) ended(done_[i]);
        if (*count < done_.size()) return {};
    }
}

void Walks::give_up() {
    for (std::uint32_t index = 0; index < slots_.size() && engine_->in_flight() > 0; index++) engine_->cancel(index);
}

void Walks::ended(const engine::Completion& completion) {
    const auto index = static_cast<std::uint32_t>(completion.user_data);
    Slot& slot = slots_[index];
    outcomes_[std::min<std::size_t>(completion.outcome, outcomes_.size() - 1)]++;
    const bool has_result = completion.outcome == CIO_OK && completion.kind == ir::ResultKind::scalar;
    if (slot.marks && has_result) parts_.marks.set(slot.file->key, *slot.marks, completion.scalar);
    // What a mark is found by was not fetched for the program.
    if (slot.device_reads == 0 && !slot.marks && completion.outcome != CIO_CANCELLED)
        completion.outcome == CIO_OK ? was_in_memory(slot) : parts_.score.led_nowhere(slot.chain);
    if (slot.again != 0 && completion.outcome == CIO_IO_ERROR) tried_in_vain(slot);
    slot.file->pins--;
    slot.next_free = free_slot_;
    free_slot_ = index;
}

// All that the walk has read, of which the last block is what it was for.
void Walks::was_in_memory(const Slot& slot) {
    if (slot.ours) return parts_.score.duplicate(slot.chain);
    const bool late = slot.found_length != 0 &&
                      overtaken_.found(slot.chain, slot.file->key, slot.found, slot.found_length, slot.waits);
    late ? parts_.score.too_late(slot.chain, false) : parts_.score.cached(slot.chain);
}

// The engine has given up to read what read_done() took back each time.
void Walks::tried_in_vain(const Slot& slot) {
    parts_.score.fetched(slot.chain, slot.again);
    parts_.score.on_range(slot.chain, parts_.score.turns()[slot.chain], RangeEnd::failed);
    parts_.score.could_not_read(1, EAGAIN, slot.file->key);
}

std::uint32_t Walks::read_begins(const engine::ReadOp& op) {
    Slot& slot = slots_[op.user_data];
    slot.device_reads++;
    slot.again = 0;
    const std::uint64_t key = key_of_file_[op.file];
    if (parts_.ranges.known(key, op.offset, op.length) == Ranges::Known::all) return kNoNumber;
    const std::uint32_t range =
        parts_.ranges.begin(key, op.offset, op.length, slot.chain, parts_.score.turns()[slot.chain], now_ns());
    if (range == kNoRange) {
        parts_.score.dropped(slot.chain);  // but read: the walk goes on from it
        return kNoNumber;
    }
    parts_.ranges.walked(range);
    parts_.score.fetched(slot.chain, op.length);
    if (handed_.size() <= range) handed_.resize(range + 1);
    handed_[range] = {slot.chain, op.length, static_cast<std::uint32_t>(op.user_data)};
    return range;
}

void Walks::read_done(std::uint32_t number, std::int32_t result) {
    if (number == kNoNumber) return;
    if (result == -EAGAIN || result == -EINTR) {
        // The engine tries it again, and it counts anew; but for what a program has read meanwhile, which came late.
        const Handed& handed = handed_[number];
        slots_[handed.slot].again = handed.bytes;
        return parts_.score.take_back_fetched(handed.chain, parts_.ranges.take_back(number), handed.bytes);
    }
    if (result < 0) {
        const std::uint64_t file = parts_.ranges.file_of(number);
        return parts_.score.could_not_read(parts_.ranges.failed(number), -result, file);
    }
    parts_.score.fetch_took(parts_.ranges.arrived(number, now_ns()));
}

bool Walks::read_on_its_way(const engine::ReadOp& op) const {
    return parts_.ranges.under_way(key_of_file_[op.file], op.offset, op.length);
}

void Walks::read_in_memory(const engine::ReadOp& op) {
    // The last block is what the walk is for: those on the way to it stay unread for long, as programs keep them.
    Slot& slot = slots_[op.user_data];
    slot.found = op.offset;
    slot.found_length = op.length;
    slot.ours = parts_.ranges.known(key_of_file_[op.file], op.offset, op.length) != Ranges::Known::none;
}

// How long such a read has taken says nothing of what a program would have waited for.
void Walks::read_at_once(const engine::ReadOp& op) {
    const std::uint32_t number = read_begins(op);
    if (number != kNoNumber) parts_.ranges.arrived(number, now_ns());
}

}  // namespace chainio::shadow
