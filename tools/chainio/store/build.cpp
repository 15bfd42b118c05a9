#include "tools/chainio/store/build.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tools/chainio/store/index.h"
#include "tools/chainio/store/items.h"
#include "tools/chainio/store/sorter.h"

namespace chainio::store {
namespace {

constexpr unsigned kMostSeeds = 16;

// Far from the one before: with seeds close by, the hashes of many pairs of keys are the same, too.
std::uint64_t next_seed(std::uint64_t seed) { return hash_of("another seed", seed); }

BuildFailure failure(std::string text, bool system) {
    BuildFailure out;
    out.problems.push_back(std::move(text));
    out.system = system;
    return out;
}

struct Refusal {
    std::string why;
    bool system = false;
};

// What is there already is replaced only when it is a store.
std::expected<Place, Refusal> check_place(const std::string& path) {
    const auto refused = [](std::string why, bool system) { return std::unexpected(Refusal{std::move(why), system}); };
    const auto fd = open_regular(path);
    if (!fd && fd.error().missing) return Place::free;
    if (!fd) return refused(fd.error().text, fd.error().system);
    Header there;
    const auto read = read_header(*fd, there);
    close(*fd);
    if (!read) return refused(read.error(), true);
    if (*read && there.magic == Header{}.magic) return Place::taken;
    return refused("what is there is no store, and stays as it is; remove it, or name another file", false);
}

class Build {
  public:
    Build(Source& source, const BuildOptions& options, int fd, int scratch)
        : source_(source), options_(options), fd_(fd), items_(fd), sorter_(scratch, options.memory) {
        built_.seed = options.seed;
    }
    std::expected<Built, BuildFailure> run();

  private:
    enum class Indexed : std::uint8_t { whole, other_seed };
    BuildFailure in_file(const std::string& why) const { return failure(options_.path + ": " + why, true); }
    std::expected<void, BuildFailure> write_items();
    Done add(const Row& row);
    Done hash_again();
    std::expected<Indexed, BuildFailure> write_index();
    std::expected<bool, std::string> is_again(const Entry& before, const Entry& now, BuildFailure& refused);
    Done finish(IndexWriter& index);

    Source& source_;
    const BuildOptions& options_;
    int fd_;
    Items items_;
    Sorter sorter_;
    Built built_;
    std::uint64_t index_at_ = 0;
    std::string key_, other_key_;
};

std::expected<Built, BuildFailure> Build::run() {
    if (auto written = write_items(); !written) return std::unexpected(written.error());
    for (unsigned i = 0; i < kMostSeeds; i++) {
        auto indexed = write_index();
        if (!indexed) return std::unexpected(indexed.error());
        if (*indexed == Indexed::whole) return built_;
        built_.seed = next_seed(built_.seed);
        if (auto hashed = hash_again(); !hashed) return std::unexpected(in_file(hashed.error()));
    }
    return std::unexpected(failure(
        fmt::format("{}: with {} seeds from {} on, keys have the same hash or too many fall into one bucket; give "
                    "another one: --seed N",
                    options_.path, kMostSeeds, options_.seed),
        false));
}

std::expected<void, BuildFailure> Build::write_items() {
    BuildFailure wrong;
    Row row;
    while (true) {
        auto there = source_.next(row);
        if (!there) {
            wrong.problems.push_back(there.error().text);
            wrong.system = wrong.system || there.error().system;
            if (there.error().last || wrong.problems.size() == kMostProblems) return std::unexpected(wrong);
            continue;
        }
        if (!*there) break;
        if (!wrong.problems.empty()) continue;
        if (!items_.room())
            return std::unexpected(
                failure(fmt::format("{}: a store has at most 16 TiB of items; make several", source_.place(row.number)),
                        false));
        if (auto added = add(row); !added) return std::unexpected(in_file(added.error()));
    }
    if (!wrong.problems.empty()) return std::unexpected(wrong);
    if (sorter_.count() == 0 && !options_.allow_empty) {
        return std::unexpected(failure(
            fmt::format("{}: not made, since there are no items to put in; --allow-empty makes a store without any",
                        options_.path),
            false));
    }
    auto end = items_.finish();
    if (!end) return std::unexpected(in_file(end.error()));
    index_at_ = *end;
    return {};
}

Done Build::add(const Row& row) {
    auto place = items_.add(row);
    if (!place) return std::unexpected(place.error());
    return sorter_.add({hash_of(row.key, built_.seed), *place, row.number});
}

// The entries once more, with another seed; every row is an item, so that the numbers are those of the rows.
Done Build::hash_again() {
    sorter_.clear();
    std::uint64_t number = 0;
    return items_.each([&](std::string_view key, std::uint64_t place) {
        return sorter_.add({hash_of(key, built_.seed), place, ++number});
    });
}

// Whether two entries of one hash are of one key; if so, the one that stays is decided by the caller.
std::expected<bool, std::string> Build::is_again(const Entry& before, const Entry& now, BuildFailure& refused) {
    if (auto read = items_.read_key(before.place, key_); !read) return std::unexpected(read.error());
    if (auto read = items_.read_key(now.place, other_key_); !read) return std::unexpected(read.error());
    if (key_ != other_key_) return false;
    if (options_.duplicates == Duplicates::refuse && refused.problems.size() < kMostProblems)
        refused.problems.push_back(fmt::format(
            "{}: the key '{}' is there already, from {}; keep one of them, or say --duplicates first or last",
            source_.place(now.number), shown(key_), source_.place(before.number)));
    return true;
}

std::expected<Build::Indexed, BuildFailure> Build::write_index() {
    if (auto sorted = sorter_.finish(); !sorted) return std::unexpected(in_file(sorted.error()));
    built_.buckets = std::clamp<std::uint64_t>((sorter_.count() + kFill - 1) / kFill, 1, kMostBuckets);
    built_.dropped = 0;
    IndexWriter index(fd_, index_at_, built_.buckets);
    BuildFailure refused;
    Entry kept, entry;
    bool any = false;
    while (true) {
        auto there = sorter_.next(entry);
        if (!there) return std::unexpected(in_file(there.error()));
        if (*there && any && entry.hash == kept.hash) {
            auto again = is_again(kept, entry, refused);
            if (!again) return std::unexpected(in_file(again.error()));
            if (!*again) return Indexed::other_seed;
            built_.dropped++;
            if (options_.duplicates == Duplicates::last) kept = entry;
            continue;
        }
        if (any) {
            auto added = index.add({kept.hash, kept.place});
            if (!added) return std::unexpected(in_file(added.error()));
            if (!*added) return Indexed::other_seed;
        }
        if (!*there) break;
        kept = entry;
        any = true;
    }
    if (!refused.problems.empty()) return std::unexpected(refused);
    if (auto finished = finish(index); !finished) return std::unexpected(in_file(finished.error()));
    return Indexed::whole;
}

Done Build::finish(IndexWriter& index) {
    auto end = index.finish();
    if (!end) return std::unexpected(end.error());
    built_.items = index.items();
    built_.overflow = index.overflow();
    built_.bytes = padded(*end, kPage);
    // What an earlier seed's buckets may have left behind the last one is taken away.
    for (const std::uint64_t length : {*end, built_.bytes})
        if (ftruncate(fd_, static_cast<off_t>(length)) != 0) return std::unexpected(system_text("cannot be written"));
    Header header;
    if (items_.any_in_pieces()) header.version = kInPieces;
    header.seed = built_.seed;
    header.items = built_.items;
    header.buckets = built_.buckets;
    header.overflow = built_.overflow;
    header.index = index_at_;
    header.length = built_.bytes;
    header.crc = crc_of(header);
    return write_at(fd_, bytes_of(header), 0);
}

}  // namespace

std::expected<Built, BuildFailure> build(Source& source, const BuildOptions& options) {
    const auto failed = [&](const std::string& why, bool system) {
        return std::unexpected(failure(options.path + ": " + why, system));
    };
    if (auto before = check_place(options.path); !before) return failed(before.error().why, before.error().system);
    auto file = NewFile::create(options.path);
    if (!file) return failed(file.error(), true);
    auto scratch = file->scratch();
    if (!scratch) return failed(scratch.error(), true);
    auto built = Build(source, options, file->fd(), *scratch).run();
    if (!built) return built;
    // Another file may have come there while the source was read.
    const auto place = check_place(options.path);
    if (!place) return failed(place.error().why, place.error().system);
    auto committed = file->commit(*place);
    if (!committed) return failed(committed.error(), true);
    built->lost = std::move(*committed);
    return built;
}

}  // namespace chainio::store
