// A store of which bytes were changed, read by `chainio store check` and by the library's chains: where the check finds
// nothing, chains find every item, and no value is another one unless its sums were made anew. Input: the first byte
// says which sums are made right again, so that what is behind them is met; each further 6 bytes are a change (place in
// units of 4 bytes: 2; what: 1; value: 3).
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/engine.h"
#include "tests/fuzz/library.h"
#include "tools/chainio/store/build.h"
#include "tools/chainio/store/check.h"
#include "tools/chainio/store/format.h"

namespace {

using namespace chainio;
using fuzz::demand;
using fuzz::had;

constexpr std::size_t kMostChanges = 16;
constexpr std::size_t kNamed = 4;         // items, of which each is asked for
constexpr std::size_t kAskedOf = 8;       // others, of which one is
constexpr std::uint32_t kMostPieces = 4;  // asked for

const std::vector<std::pair<std::string, std::string>>& items() {
    static const auto made = [] {
        std::vector<std::pair<std::string, std::string>> all = {
            {"a", "1"}, {"b", ""}, {std::string(250, 'k'), "of the longest key"}, {"long", std::string(64001, 'l')}};
        for (int i = 0; i < 60; i++)
            all.emplace_back("key " + std::to_string(i), std::string(static_cast<std::size_t>(i), 'v'));
        return all;
    }();
    return made;
}

class Items final : public store::Source {
  public:
    std::expected<bool, store::Problem> next(store::Row& row) override {
        if (at_ == items().size()) return false;
        row = {items()[at_].first, items()[at_].second, static_cast<std::uint32_t>(at_ * 7), at_ + 1};
        at_++;
        return true;
    }
    std::string place(std::uint64_t number) const override { return "item " + std::to_string(number); }

  private:
    std::size_t at_ = 0;
};

std::string whole_store() {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("fuzz-store-" + std::to_string(getpid()))).string();
    Items source;
    demand(store::build(source, {.path = path}).has_value(), "no store can be made at " + path);
    std::ifstream in(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::filesystem::remove(path);
    return bytes;
}

template <typename T>
T read(const std::string& bytes, std::size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

template <typename T>
void write(std::string& bytes, std::size_t at, const T& value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

bool has(const std::string& bytes, std::uint64_t at, std::uint64_t size) {
    return at <= bytes.size() && size <= bytes.size() - at;
}

// ---- sums made right again ----

constexpr unsigned kHeader = 1, kBuckets = 2, kItems = 4;

void seal_item(std::string& bytes, std::uint64_t place) {
    const std::uint64_t at = store::at_of(place);
    if (!has(bytes, at, sizeof(store::ItemHead))) return;
    auto head = read<store::ItemHead>(bytes, at);
    if (!has(bytes, at, sizeof head + std::uint64_t{head.key_size} + head.value_size)) return;
    const std::string_view rest(bytes.data() + at + sizeof head, std::size_t{head.key_size} + head.value_size);
    head.crc = store::crc_of(head, rest.substr(0, head.key_size), rest.substr(head.key_size));
    write(bytes, at, head);
}

void seal(std::string& bytes, unsigned which) {
    auto header = read<store::Header>(bytes, 0);
    for (std::uint64_t at = header.index; has(bytes, at, sizeof(store::Bucket)) && (which & (kItems | kBuckets)) != 0;
         at += sizeof(store::Bucket)) {
        auto bucket = read<store::Bucket>(bytes, at);
        for (std::size_t i = 0; (which & kItems) != 0 && i < std::min<std::size_t>(bucket.used, store::kSlots); i++)
            seal_item(bytes, bucket.slots[i].place);
        bucket = read<store::Bucket>(bytes, at);
        bucket.crc = store::crc_of(bucket);
        if ((which & kBuckets) != 0) write(bytes, at, bucket);
    }
    header = read<store::Header>(bytes, 0);
    header.crc = store::crc_of(header);
    if ((which & kHeader) != 0) write(bytes, 0, header);
}

// ---- changes ----

// Most changes are wanted where the figures are: in the header, in the buckets and in the beginnings of items.
std::size_t place_of(const std::string& bytes, const store::Header& header, std::size_t place) {
    switch (place % 4) {
        case 0: return place / 4 * 4 % sizeof header;
        case 1: return header.index + place / 4 * 4 % (bytes.size() - header.index);
        case 2: {
            const auto bucket = read<store::Bucket>(bytes, header.index);
            return store::at_of(bucket.slots[place / 4 % bucket.used].place) + place / 256 % 8 * 4;
        }
        default: return place / 4 * 4 % bytes.size();
    }
}

void swap_slots(std::string& bytes, std::uint64_t at, std::size_t one, std::size_t other) {
    if (!has(bytes, at, sizeof(store::Bucket))) return;
    auto bucket = read<store::Bucket>(bytes, at);
    if (bucket.used == 0 || bucket.used > store::kSlots) return;
    std::swap(bucket.slots[one % bucket.used], bucket.slots[other % bucket.used]);
    write(bytes, at, bucket);
}

void change(std::string& bytes, const store::Header& header, const std::uint8_t* how, const std::string& whole) {
    const std::size_t at = place_of(whole, header, how[0] * 256U + how[1]);
    const std::uint32_t value = how[3] | how[4] << 8 | how[5] << 16;
    if (how[2] % 8 == 7) return bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size() - sizeof header, value));
    if (how[2] % 8 == 6)
        return swap_slots(bytes, header.index + how[0] % header.buckets * sizeof(store::Bucket), how[1], how[3]);
    if (!has(bytes, at, 8)) return;
    auto word = read<std::uint64_t>(bytes, at);
    switch (how[2] % 8) {
        case 0: word ^= value; break;
        case 1: word ^= std::uint64_t{value} << 40; break;
        case 2: word = value % 64; break;
        case 3: word = read<std::uint64_t>(whole, place_of(whole, header, value % 65536)); break;
        case 4: word += value % 16; break;
        default: word -= value % 16; break;
    }
    write(bytes, at, word);
}

// ---- both readers ----

class Chains {
  public:
    Chains()
        : loaded_(spec::Loaded::from_artifact(fuzz::Library().lowered("std/store.chain"))),
          engine_(had(engine::Engine::create(
                          loaded_,
                          {.in_flight = 4, .umem_bytes = std::size_t{1} << 20, .use_ring = false, .huge_pages = false}),
                      "no engine")),
          chain_(*loaded_->find_chain("part")) {}

    struct Said {
        std::uint32_t outcome = 0;
        std::string bytes;
    };
    // Of these keys; nothing when the file is refused.
    std::vector<Said> ask(const std::string& path, const std::vector<std::string>& keys) {
        std::vector<Said> all;
        const auto file = engine_->open_file(0, path);
        if (!file) return all;
        for (const std::string& key : keys) all.push_back(asked(*engine_, *file, key));
        demand(engine_->close_file(*file).has_value(), "the file cannot be closed");
        demand(engine_->leaks().empty(), "a frame was kept");
        return all;
    }

  private:
    // With the pieces of a long value behind its table.
    Said asked(engine::Engine& engine, engine::FileHandle file, const std::string& key) const {
        Said said = part(engine, file, key, 0, {});
        if (said.outcome != CIO_OK) return said;
        const auto pieces = read<std::uint16_t>(said.bytes, 6);
        const std::string cas = said.bytes.substr(8, 8);
        for (std::uint32_t number = 1; number <= std::min<std::uint32_t>(pieces, kMostPieces); number++) {
            const Said more = part(engine, file, key, number, cas);
            if (more.outcome != CIO_OK) return more;
            said.bytes += more.bytes;
        }
        return said;
    }
    Said part(engine::Engine& engine, engine::FileHandle file, std::string_view key, std::uint32_t number,
              std::string_view cas) const {
        const std::array arguments{engine::Argument::file(file), engine::Argument::of_bytes(store::bytes_of(key)),
                                   engine::Argument::scalar(number), engine::Argument::of_bytes(store::bytes_of(cas))};
        demand(engine.submit(chain_, arguments, 0).has_value(), "a call is refused");
        std::array<engine::Completion, 1> room;
        while (had(engine.reap(room, 1), "the engine failed") == 0) {}
        return {room[0].outcome, std::string(room[0].bytes.begin(), room[0].bytes.end())};
    }

    std::shared_ptr<const spec::Loaded> loaded_;
    std::unique_ptr<engine::Engine> engine_;
    std::uint32_t chain_;
};

// A file that has no other name.
class InMemory {
  public:
    explicit InMemory(const std::string& bytes) : fd_(memfd_create("store", MFD_CLOEXEC)) {
        demand(fd_ >= 0 && ::write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "no memory");
    }
    ~InMemory() { close(fd_); }
    InMemory(const InMemory&) = delete;
    InMemory& operator=(const InMemory&) = delete;
    std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  private:
    int fd_;
};

// Those that the slots of its buckets lead to.
std::vector<std::string> keys_in(const std::string& bytes) {
    std::vector<std::string> keys;
    const auto header = read<store::Header>(bytes, 0);
    for (std::uint64_t number = 0; number < header.buckets + header.overflow; number++) {
        const auto bucket = read<store::Bucket>(bytes, header.index + number * sizeof(store::Bucket));
        for (std::size_t i = 0; i < bucket.used; i++) {
            const std::uint64_t at = store::at_of(bucket.slots[i].place);
            keys.push_back(bytes.substr(at + sizeof(store::ItemHead), read<store::ItemHead>(bytes, at).key_size));
        }
    }
    return keys;
}

std::vector<std::string> some_keys() {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < items().size(); i += i < kNamed ? 1 : kAskedOf) keys.push_back(items()[i].first);
    return keys;
}

void compare(const std::string& bytes, bool sealed) {
    static Chains chains;
    static const std::vector<std::string> known = some_keys();
    static const std::vector<Chains::Said> right = chains.ask(InMemory(whole_store()).path(), known);
    const InMemory file(bytes);
    const auto checked = store::check(file.path());
    demand(checked.has_value(), "the file cannot be read");
    const auto said = chains.ask(file.path(), known);
    for (std::size_t i = 0; i < said.size() && !sealed; i++)
        demand(said[i].outcome != CIO_OK || said[i].bytes == right[i].bytes, "another value of " + known[i]);
    if (!checked->problems.empty()) return;
    demand(checked->of_ours && said.size() == known.size(), "a whole store is refused");
    const std::vector<std::string> keys = keys_in(bytes);
    demand(keys.size() == checked->items, "other items");
    for (const Chains::Said& each : chains.ask(file.path(), keys))
        demand(each.outcome == CIO_OK, "an item of a whole store ends with " + std::to_string(each.outcome));
    for (std::size_t i = 0; i < known.size() && !sealed; i++)
        demand(said[i].outcome == CIO_OK, "the item is missing, and nothing is wrong: " + known[i]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::string whole = whole_store();
    static const auto header = read<store::Header>(whole, 0);
    if (size < 1) return 0;
    std::string bytes = whole;
    for (std::size_t i = 0; i < std::min((size - 1) / 6, kMostChanges); i++)
        change(bytes, header, data + 1 + 6 * i, whole);
    const unsigned which = data[0] % 8;
    if (which != 0) seal(bytes, which);
    compare(bytes, which != 0);
    return 0;
}
