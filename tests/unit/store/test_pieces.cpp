// Values that do not lie in their items.
#include <algorithm>
#include <fstream>

#include "tests/unit/store/stores.h"
#include "tools/chainio/store/build.h"
#include "tools/chainio/store/check.h"

namespace chainio::store {
namespace {

// No two pieces of it are alike.
std::string long_value(std::size_t size, std::uint64_t salt) {
    std::string out(padded(size, 8), '\0');
    for (std::size_t at = 0; at < out.size(); at += 8) {
        const std::uint64_t word = (at + 8) * 0x9E3779B185EBCA87u ^ salt;
        std::memcpy(out.data() + at, &word, 8);
    }
    out.resize(size);
    return out;
}

Header header_of(const std::string& bytes) {
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    return header;
}

class PiecesTest : public StoreTest {
  protected:
    std::string made(const std::vector<Rows::Made>& rows, Duplicates duplicates = Duplicates::refuse,
                     std::uint64_t seed = 0, std::size_t memory = std::size_t{1} << 20) const {
        Rows source(rows);
        const auto built =
            build(source, {.path = path("a.store"), .duplicates = duplicates, .seed = seed, .memory = memory});
        EXPECT_TRUE(built) << built.error().problems[0];
        EXPECT_EQ(problems(read("a.store")), std::vector<std::string>{});
        return read("a.store");
    }
    // What check() says, without the path.
    std::vector<std::string> problems(const std::string& bytes) const {
        auto out = check(write("checked", bytes))->problems;
        for (auto& each : out) each = each.substr(path("checked: ").size());
        return out;
    }
};

// An item at the beginning of the items whose table is another one, as if it had been written so.
struct Forged {
    std::string bytes;
    std::size_t key_size;
    template <typename Change>
    std::string with(Change change) const {
        std::string out = bytes;
        ItemHead head;
        std::memcpy(&head, out.data() + kPage, sizeof head);
        Pieces pieces;
        const std::size_t table = kPage + sizeof head + key_size;
        std::memcpy(&pieces, out.data() + table, sizeof pieces);
        change(head, pieces);
        std::memcpy(out.data() + table, &pieces, sizeof pieces);
        const std::string_view rest(out.data() + kPage + sizeof head, key_size + head.value_size);
        head.crc = crc_of(head, rest.substr(0, key_size), rest.substr(key_size));
        std::memcpy(out.data() + kPage, &head, sizeof head);
        return out;
    }
};

TEST_F(PiecesTest, BothSidesOfEachLimit) {
    const std::vector<std::pair<std::size_t, unsigned>> sizes{
        {kMaxWhole, 0},      {kMaxWhole + 1, 2},   {2 * kPiece - 1, 2}, {2 * kPiece, 2},
        {2 * kPiece + 1, 3}, {kMaxValue - 1, 274}, {kMaxValue, 274}};
    std::vector<Rows::Made> rows;
    for (const auto& [size, pieces] : sizes)
        rows.push_back({"key" + std::to_string(size), long_value(size, size), pieces});
    const std::string bytes = made(rows);
    EXPECT_EQ(header_of(bytes).version, kInPieces);
    const auto items = items_of(bytes);
    ASSERT_EQ(items.size(), rows.size());
    for (const auto& row : rows) EXPECT_TRUE(items.at(row.key) == std::pair(row.flags, row.value)) << row.key;
    // Where everything is, as the page about the format says it.
    std::uint64_t at = kPage;
    for (const auto& row : rows) {
        ItemHead head;
        std::memcpy(&head, bytes.data() + at, sizeof head);
        EXPECT_EQ(head.pieces, row.flags);
        EXPECT_EQ(head.cas, hash_of(row.value, row.flags));
        const std::uint64_t end = at + 24 + row.key.size() + head.value_size;
        if (head.pieces == 0) {
            EXPECT_EQ(head.value_size, row.value.size());
            at = padded(end, 16);
            continue;
        }
        EXPECT_EQ(head.value_size, 16 + 4 * head.pieces);
        const std::uint64_t first = padded(end, 4096);
        EXPECT_TRUE(bytes.substr(first, row.value.size()) == row.value);
        for (std::size_t i = 0; i < head.pieces; i++) {
            std::uint32_t crc = 0;
            std::memcpy(&crc, bytes.data() + at + 24 + row.key.size() + 16 + 4 * i, sizeof crc);
            EXPECT_EQ(crc, ir::crc32c(bytes_of(std::string_view(row.value).substr(i * 61440, 61440))));
        }
        at = padded(first + row.value.size(), 16);
    }
    EXPECT_EQ(padded(at, 4096), header_of(bytes).index);
}

// Without a value in pieces a store is as it was before there were any.
TEST_F(PiecesTest, AStoreOfShortValuesHasNothingOfThem) {
    auto rows = many(1000);
    rows.push_back({"longest", long_value(kMaxWhole, 1), 7});
    const std::string bytes = made(rows);
    EXPECT_EQ(header_of(bytes).version, kWhole);
    EXPECT_EQ(bytes.size(), 425984u);
    EXPECT_EQ(hash_of(bytes, 0), 0xeaebb3232684e133u);
}

TEST_F(PiecesTest, TheSameWhateverTheMemoryAndWithAnotherSeed) {
    const auto [first, second] = same_hash(5, 1000);
    auto rows = many(6000);
    rows.insert(rows.begin() + 3000, {"long", long_value(kMaxValue, 3), 1});
    rows.push_back({first, long_value(kMaxWhole + 1, 4), 2});
    rows.push_back({second, long_value(5 * kPiece, 5), 3});
    const std::string small = made(rows, Duplicates::refuse, 5, 48000);
    EXPECT_TRUE(made(rows, Duplicates::refuse, 5) == small);
    EXPECT_NE(header_of(small).seed, 5u);
    const auto items = items_of(small);
    ASSERT_EQ(items.size(), rows.size());
    for (const auto& row : rows) EXPECT_TRUE(items.at(row.key) == std::pair(row.flags, row.value)) << row.key;
}

TEST_F(PiecesTest, OfAKeyThatComesAgain) {
    const std::vector<Rows::Made> rows{
        {"a", long_value(100000, 1), 1}, {"b", "short", 2}, {"a", "short", 3}, {"b", long_value(200000, 2), 4}};
    const auto first = items_of(made(rows, Duplicates::first));
    EXPECT_TRUE(first.at("a").second == rows[0].value);
    EXPECT_EQ(first.at("b").second, "short");
    const auto last = items_of(made(rows, Duplicates::last));
    EXPECT_EQ(last.at("a").second, "short");
    EXPECT_TRUE(last.at("b").second == rows[3].value);
    Rows refused(rows);
    const auto no = build(refused, {.path = path("no")});
    ASSERT_FALSE(no);
    EXPECT_EQ(no.error().problems.size(), 2u);
}

TEST_F(PiecesTest, CheckNamesTheItemAndThePieceThatIsDamaged) {
    const std::string good = made({{"key", long_value(3 * kPiece + 5, 1), 0}, {"other", "short", 0}});
    const auto damaged = [&](std::uint64_t at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        return problems(bad);
    };
    const std::uint64_t first = 2 * kPage;
    for (const std::uint64_t piece : {0, 1, 2, 3}) {
        const std::uint64_t at = first + piece * kPiece;
        const std::vector<std::string> said{"byte " + std::to_string(at) + ": the sum of piece " +
                                            std::to_string(piece) + " of the item at byte 4096 is wrong"};
        EXPECT_EQ(damaged(at), said);
        EXPECT_EQ(damaged(at + (piece == 3 ? 4 : kPiece - 1)), said);
    }
    const std::vector<std::string> item{"byte 4096: the item's sum is wrong"};
    for (std::uint64_t at = kPage + 24 + 3; at < kPage + 24 + 3 + 16 + 4 * 4; at++) EXPECT_EQ(damaged(at), item) << at;
    EXPECT_EQ(damaged(kPage + 14), item);
    // Of many pieces, the first ten are enough.
    std::string all = made({{"key", long_value(kMaxValue, 1), 0}});
    for (std::uint64_t i = 0; i < 274; i++) all[first + i * kPiece] ^= 1;
    EXPECT_EQ(problems(all).size(), kMostProblems);
}

TEST_F(PiecesTest, CheckFindsATableThatLeadsElsewhere) {
    const Forged forged{made({{"key", long_value(3 * kPiece, 1), 0}, {"other", long_value(kMaxWhole, 2), 0}}), 3};
    const std::uint64_t index = header_of(forged.bytes).index;
    EXPECT_EQ(problems(forged.with([](ItemHead&, Pieces&) {})), std::vector<std::string>{});
    const auto one = [&](const std::string& bytes) {
        const auto said = problems(bytes);
        return said.size() == 1 ? said[0] : std::to_string(said.size()) + " problems";
    };
    for (const std::uint64_t at : {std::uint64_t{0}, kPage, 3 * kPage, index, ~std::uint64_t{0}})
        EXPECT_EQ(one(forged.with([&](ItemHead&, Pieces& pieces) { pieces.at = at; })),
                  "byte 4096: the item's table leads to byte " + std::to_string(at) +
                      ", and its value's pieces begin at byte 8192");
    for (const std::uint64_t length :
         {std::uint64_t{0}, std::uint64_t{kMaxWhole}, 2 * kPiece, 3 * kPiece + 1, kMaxValue + 1, ~std::uint64_t{0}})
        EXPECT_EQ(one(forged.with([&](ItemHead&, Pieces& pieces) { pieces.length = length; })),
                  "byte 4096: the item's value has " + std::to_string(length) + " bytes in 3 pieces");
    // As many pieces as these lengths have, and yet no such values.
    for (const auto& [size, length] : {std::pair(kMaxWhole + 1, kMaxWhole), std::pair(kMaxValue, kMaxValue + 1)}) {
        const Forged other{made({{"key", long_value(size, 1), 0}}), 3};
        EXPECT_EQ(one(other.with([&](ItemHead&, Pieces& pieces) { pieces.length = length; })),
                  "byte 4096: the item's value has " + std::to_string(length) + " bytes in " +
                      std::to_string(pieces_of(size)) + " pieces");
    }
    EXPECT_EQ(one(forged.with([](ItemHead& head, Pieces&) { head.pieces = 2; })),
              "byte 4096: the item's table has 28 bytes, and for 2 pieces it has 24");
    // So many pieces that they end behind the items.
    const Forged longer{made({{"key", long_value(10 * kPiece, 1), 0}}), 3};
    std::string cut = longer.bytes;
    cut.erase(2 * kPage + 8 * kPiece, 2 * kPiece);
    Header header = header_of(cut);
    header.index -= 2 * kPiece;
    header.length -= 2 * kPiece;
    header.crc = crc_of(header);
    std::memcpy(cut.data(), &header, sizeof header);
    EXPECT_EQ(one(cut), "byte 4096: the item's value ends at byte " + std::to_string(8192 + 10 * kPiece) +
                            ", and the items at byte " + std::to_string(8192 + 8 * kPiece));
}

TEST_F(PiecesTest, OnlyStoresOfVersionTwoHaveThem) {
    std::string bytes = made({{"key", long_value(100000, 1), 0}});
    const auto with_version = [&](std::uint32_t version) {
        Header header = header_of(bytes);
        header.version = version;
        header.crc = crc_of(header);
        std::memcpy(bytes.data(), &header, sizeof header);
        return problems(bytes);
    };
    EXPECT_EQ(
        with_version(1),
        (std::vector<std::string>{"byte 4096: the item has a value in pieces, and stores of version 1 have none"}));
    EXPECT_EQ(with_version(3),
              (std::vector<std::string>{"byte 8: the store is of version 3, and this program knows 1 and 2"}));
}

TEST_F(PiecesTest, TheLongestValueHasRoomBeforeTheLastPlace) {
    constexpr std::uint64_t end = kMostUnits * kUnit;
    EXPECT_TRUE(has_room(kPage));
    EXPECT_TRUE(has_room(end - 2 * kPage - kMaxValue - kUnit));
    EXPECT_FALSE(has_room(end - 2 * kPage - kMaxValue));
    EXPECT_FALSE(has_room(end));
}

// The specs that read stores know these numbers by heart.
TEST(Pieces, AreThoseOfTheSpecs) {
    const auto constant = [](const std::string& spec, const std::string& name) {
        std::ifstream file(std::string(CHAINIO_SOURCE_DIR "/stdlib-chains/std/") + spec);
        const std::string begin = "const " + name + " = ";
        for (std::string line; std::getline(file, line);)
            if (line.starts_with(begin)) return std::stoull(line.substr(begin.size()));
        return 0ull;
    };
    EXPECT_EQ(constant("store.chain", "PIECE"), kPiece);
    EXPECT_EQ(constant("memcached.chain", "PIECES"), pieces_of(kMaxValue));
    EXPECT_EQ(constant("kv.chain", "PIECES"), pieces_of(kMaxValue));
}

}  // namespace
}  // namespace chainio::store
