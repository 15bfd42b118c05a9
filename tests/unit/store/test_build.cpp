#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/support/in_child.h"
#include "tests/unit/store/store_test.h"
#include "tests/unit/store/stores.h"
#include "tools/chainio/store/build.h"
#include "tools/chainio/store/check.h"
#include "tools/chainio/store/files.h"
#include "tools/chainio/store/format.h"

namespace chainio::store {
namespace {

TEST_F(StoreTest, HoldsWhatItWasGiven) {
    const auto rows = many(5000);
    Rows source(rows);
    const auto built = build(source, {.path = path("a.store")});
    ASSERT_TRUE(built) << built.error().problems[0];
    EXPECT_EQ(built->items, 5000u);
    EXPECT_EQ(built->buckets, 278u);
    const std::string bytes = read("a.store");
    EXPECT_EQ(bytes.size(), built->bytes);
    EXPECT_EQ(bytes.size() % 4096, 0u);
    const auto items = items_of(bytes);
    ASSERT_EQ(items.size(), rows.size());
    for (const auto& row : rows) EXPECT_EQ(items.at(row.key), std::pair(row.flags, row.value));
    const auto checked = check(path("a.store"));
    ASSERT_TRUE(checked);
    EXPECT_TRUE(checked->problems.empty()) << checked->problems[0];
    EXPECT_EQ(checked->items, 5000u);
    EXPECT_EQ(files(), 1u);
}

TEST_F(StoreTest, OfNothingIsAStore) {
    Rows source({}), again({});
    const auto refused = build(again, {.path = path("a.store")});
    ASSERT_FALSE(refused);
    EXPECT_FALSE(refused.error().system);
    EXPECT_EQ(
        refused.error().problems[0],
        path("a.store") + ": not made, since there are no items to put in; --allow-empty makes a store without any");
    EXPECT_EQ(files(), 0u);
    ASSERT_TRUE(build(source, {.path = path("a.store"), .allow_empty = true}));
    const auto checked = check(path("a.store"));
    ASSERT_TRUE(checked);
    EXPECT_TRUE(checked->problems.empty());
    EXPECT_EQ(checked->buckets, 1u);
}

TEST_F(StoreTest, IsTheSameWhateverTheMemory) {
    // 5,000 entries of 24 bytes: two runs and a rest, or all in memory.
    for (const auto& [name, memory] :
         {std::pair("small", std::size_t{48000}), std::pair("large", std::size_t{1} << 20)}) {
        Rows source(many(5000));
        ASSERT_TRUE(build(source, {.path = path(name), .memory = memory}));
    }
    EXPECT_EQ(read("small"), read("large"));
}

TEST_F(StoreTest, TakesAnotherSeedWhenHashesAreTheSame) {
    const auto [first, second] = same_hash(5, 1000);
    ASSERT_NE(first, second);
    ASSERT_EQ(hash_of(first, 5), hash_of(second, 5));
    auto rows = many(100);
    rows.push_back({first, "first", 0});
    rows.push_back({second, "second", 0});
    rows.push_back({"key7", "again", 9});
    Rows source(rows);
    const auto built = build(source, {.path = path("a.store"), .duplicates = Duplicates::last, .seed = 5});
    ASSERT_TRUE(built) << built.error().problems[0];
    EXPECT_NE(hash_of(first, built->seed), hash_of(second, built->seed));
    EXPECT_EQ(built->dropped, 1u);
    const auto items = items_of(read("a.store"));
    EXPECT_EQ(items.at(first).second, "first");
    EXPECT_EQ(items.at(second).second, "second");
    EXPECT_EQ(items.at("key7"), (std::pair<std::uint32_t, std::string>(9, "again")));
    EXPECT_TRUE(check(path("a.store"))->problems.empty());
}

TEST_F(StoreTest, KeysThatCrowdIntoOneBucketFollowOneAnother) {
    // Of many keys, those that fall into the first of the few buckets that a smaller number has.
    const auto crowd = [](std::size_t wanted) {
        std::vector<Rows::Made> rows;
        const std::uint64_t buckets = (wanted + kFill - 1) / kFill;
        for (unsigned i = 0; rows.size() < wanted; i++) {
            std::string key = "key" + std::to_string(i);
            if (bucket_of(hash_of(key, 0), buckets) == 0) rows.push_back({key, key, i});
        }
        return rows;
    };
    const auto rows = crowd(kSlots * (1 + kMostFurther));
    Rows source(rows);
    const auto built = build(source, {.path = path("full")});
    ASSERT_TRUE(built);
    EXPECT_EQ(built->seed, 0u);
    EXPECT_EQ(built->overflow, kMostFurther);
    EXPECT_EQ(items_of(read("full")).size(), rows.size());
    EXPECT_TRUE(check(path("full"))->problems.empty());
    Rows more(crowd(kSlots * (1 + kMostFurther) + 1));
    const auto other = build(more, {.path = path("more")});
    ASSERT_TRUE(other);
    EXPECT_NE(other->seed, 0u);  // with which they do not crowd
    EXPECT_TRUE(check(path("more"))->problems.empty());
}

TEST_F(StoreTest, SaysWhichKeysComeAgain) {
    const std::vector<Rows::Made> rows{
        {"a", "1", 0}, {"b\x01", "2", 0}, {"b\x01", "3", 0}, {"c", "4", 0}, {"a", "5", 0}};
    Rows refused(rows), first(rows), last(rows);
    const auto no = build(refused, {.path = path("no")});
    ASSERT_FALSE(no);
    EXPECT_FALSE(no.error().system);
    auto problems = no.error().problems;
    std::ranges::sort(problems);
    EXPECT_EQ(
        problems,
        (std::vector<std::string>{
            "row 3: the key 'b\\x01' is there already, from row 2; keep one of them, or say --duplicates first or last",
            "row 5: the key 'a' is there already, from row 1; keep one of them, or say --duplicates first or last"}));
    EXPECT_EQ(files(), 0u);
    ASSERT_TRUE(build(first, {.path = path("first"), .duplicates = Duplicates::first}));
    ASSERT_TRUE(build(last, {.path = path("last"), .duplicates = Duplicates::last}));
    EXPECT_EQ(items_of(read("first")).at("a").second, "1");
    EXPECT_EQ(items_of(read("last")).at("a").second, "5");
    EXPECT_EQ(check(path("last"))->items, 3u);
}

TEST_F(StoreTest, ReplacesStoresAndNothingElse) {
    Rows one(many(10)), two(many(20)), three(many(10));
    ASSERT_TRUE(build(one, {.path = path("a.store")}));
    ASSERT_TRUE(build(two, {.path = path("a.store")}));
    EXPECT_EQ(check(path("a.store"))->items, 20u);
    write("letter", "dear reader");
    const auto no = build(three, {.path = path("letter")});
    ASSERT_FALSE(no);
    EXPECT_EQ(no.error().problems[0],
              path("letter") + ": what is there is no store, and stays as it is; remove it, or name another file");
    EXPECT_EQ(read("letter"), "dear reader");
    EXPECT_EQ(files(), 2u);
}

TEST_F(StoreTest, WhatIsNoFileIsRefusedWithoutWaiting) {
    Rows one(many(10)), two(many(10));
    ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    const auto built = build(one, {.path = path("pipe")});
    ASSERT_FALSE(built);
    EXPECT_EQ(built.error().problems[0], path("pipe") + ": is not a file on a disk; stores are");
    const auto pipe = check(path("pipe"));
    ASSERT_TRUE(pipe);
    EXPECT_EQ(pipe->problems[0], path("pipe") + ": is not a file on a disk; stores are");
    EXPECT_FALSE(pipe->of_ours);
    const auto folder = check(path("."));
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error(), path(".") + ": is a folder, not a store; name a file in it");
    const auto into = build(two, {.path = path(".")});
    ASSERT_FALSE(into);
    EXPECT_TRUE(into.error().system);
    const auto letter = check(write("letter", "dear reader"));
    ASSERT_TRUE(letter);
    EXPECT_EQ(letter->problems[0], path("letter") + ": byte 0: this is no store; `chainio store build` makes one");
    EXPECT_FALSE(letter->of_ours);
}

TEST_F(StoreTest, KeepsModeOwnerAndLinkOfWhatItReplaces) {
    Rows one(many(10)), two(many(20)), three(many(30));
    std::filesystem::create_directory(path("folder"));
    const std::string real = path("folder/a.store");
    ASSERT_TRUE(build(one, {.path = real}));
    ASSERT_EQ(chmod(real.c_str(), 0640), 0);
    const bool root = geteuid() == 0;
    if (root) ASSERT_EQ(chown(real.c_str(), 12345, 23456), 0);
    std::filesystem::create_symlink("folder/a.store", path("link"));
    ASSERT_TRUE(build(two, {.path = path("link")}));
    EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
    struct stat now{};
    ASSERT_EQ(stat(real.c_str(), &now), 0);
    EXPECT_EQ(now.st_mode & 07777, mode_t{0640});
    EXPECT_EQ(now.st_uid, root ? uid_t{12345} : geteuid());
    EXPECT_EQ(now.st_gid, root ? gid_t{23456} : getegid());
    EXPECT_EQ(check(real)->items, 20u);
    // A link to nothing yet: what it names is made.
    std::filesystem::create_symlink("folder/new.store", path("early"));
    ASSERT_TRUE(build(three, {.path = path("early")}));
    EXPECT_TRUE(std::filesystem::is_symlink(path("early")));
    EXPECT_EQ(check(path("folder/new.store"))->items, 30u);
    EXPECT_EQ(files(), 3u);
}

TEST_F(StoreTest, ANewOneHasTheModeThatTheUserGivesToFiles) {
    Rows rows(many(10));
    const mode_t before = umask(027);
    const auto built = build(rows, {.path = path("a.store")});
    umask(before);
    ASSERT_TRUE(built);
    struct stat now{};
    ASSERT_EQ(stat(path("a.store").c_str(), &now), 0);
    EXPECT_EQ(now.st_mode & 07777, mode_t{0640});
}

// Who may not give a file its group gives another group no more than everybody has.
TEST_F(StoreTest, AnotherGroupGetsNoMoreThanEverybody) {
    if (geteuid() != 0) GTEST_SKIP() << "without privileges there is no file of a group that is not this user's";
    constexpr unsigned kOther = 12345;
    const std::vector<std::pair<mode_t, mode_t>> modes{{0664, 0644}, {0675, 0655}, {0757, 0757}};
    ASSERT_EQ(chmod(path(".").c_str(), 0777), 0);
    for (const auto& [had, has] : modes) {
        Rows first(many(5));
        ASSERT_TRUE(build(first, {.path = path("a.store")}));
        ASSERT_EQ(chmod(path("a.store").c_str(), had), 0);
        ASSERT_EQ(tests::in_child([&] {
                      Rows rows(many(10));
                      const bool other =
                          setresgid(kOther, kOther, kOther) == 0 && setresuid(kOther, kOther, kOther) == 0;
                      return other && build(rows, {.path = path("a.store")}) ? 0 : 1;
                  }),
                  0);
        struct stat now{};
        ASSERT_EQ(stat(path("a.store").c_str(), &now), 0);
        EXPECT_EQ(now.st_gid, kOther);
        EXPECT_EQ(now.st_mode & 07777, has);
        std::filesystem::remove(path("a.store"));
    }
}

// Looks into the folder while a store is being made, as one would after the builder was killed there.
class Watched : public Rows {
  public:
    Watched(std::vector<Made> rows, std::function<void()> look) : Rows(std::move(rows)), look_(std::move(look)) {}
    std::expected<bool, Problem> next(Row& row) override {
        look_();
        return Rows::next(row);
    }

  private:
    std::function<void()> look_;
};

TEST_F(StoreTest, HasNoNameUntilItIsWhole) {
    const int probe = open(path(".").c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (probe < 0) GTEST_SKIP() << "this file system makes no files without a name";
    close(probe);
    Watched source(many(10), [this] { EXPECT_EQ(files(), 0u); });
    ASSERT_TRUE(build(source, {.path = path("a.store")}));
    EXPECT_EQ(files(), 1u);
}

TEST_F(StoreTest, CheckFindsEveryDamagedByte) {
    Rows source(many(40));
    const auto built = build(source, {.path = path("a.store")});
    ASSERT_TRUE(built);
    const std::string good = read("a.store");
    Header header;
    std::memcpy(&header, good.data(), sizeof header);
    std::size_t found = 0, looked = 0;
    // Every byte of the header, the items without the zeros between them, and the buckets.
    std::vector<std::size_t> places;
    for (std::size_t at = 0; at < sizeof header; at++) places.push_back(at);
    for (std::size_t at = header.index; at < header.index + header.buckets * sizeof(Bucket); at++) places.push_back(at);
    ItemHead head;
    for (std::size_t at = kPage, i = 0; i < 40; i++) {
        std::memcpy(&head, good.data() + at, sizeof head);
        const std::size_t size = sizeof head + head.key_size + head.value_size;
        for (std::size_t k = 0; k < size; k++) places.push_back(at + k);
        at += padded(size, kUnit);
    }
    for (std::size_t i = 0; i < places.size(); i += i < 64 ? 1 : 7) {
        std::string bad = good;
        bad[places[i]] = static_cast<char>(bad[places[i]] ^ 0x20);
        write("bad", bad);
        looked++;
        found += !check(path("bad"))->problems.empty();
    }
    EXPECT_EQ(found, looked);
    write("bad", good.substr(0, good.size() - 4096));
    EXPECT_EQ(check(path("bad"))->problems,
              (std::vector<std::string>{path("bad") + ": byte 0: the store has " + std::to_string(good.size()) +
                                        " bytes, and the file " + std::to_string(good.size() - 4096)}));
    EXPECT_FALSE(check(path("none")));
}

// Sums say that bytes are as somebody wrote them, and not that he knew what a store is.
TEST_F(StoreTest, CheckTakesNoBucketAtItsWord) {
    Rows source(many(10));
    const auto built = build(source, {.path = path("a.store")});
    ASSERT_TRUE(built);
    ASSERT_EQ(built->buckets, 1u);
    const std::string good = read("a.store");
    Header header;
    std::memcpy(&header, good.data(), sizeof header);
    const auto said_of = [&](auto change) {
        Bucket bucket;
        std::memcpy(&bucket, good.data() + header.index, sizeof bucket);
        change(bucket);
        bucket.crc = crc_of(bucket);
        std::string forged = good;
        std::memcpy(forged.data() + header.index, &bucket, sizeof bucket);
        const auto said = check(write("forged", forged))->problems;
        return said.empty() ? "nothing" : said.front().substr(path("forged").size() + 2);
    };
    const std::string at = "byte " + std::to_string(header.index) + ": ";
    EXPECT_EQ(said_of([](Bucket&) {}), "nothing");
    EXPECT_EQ(said_of([](Bucket& bucket) { std::swap(bucket.slots[3], bucket.slots[4]); }),
              at + "slot 4 of bucket 0 is out of order");
    EXPECT_EQ(said_of([](Bucket& bucket) { bucket.slots[4] = bucket.slots[3]; }),
              at + "slot 4 of bucket 0 is out of order");
    EXPECT_EQ(said_of([](Bucket& bucket) { bucket.used--; }),
              "byte 0: the header says 10 items, and the buckets have 9");
    std::uint64_t item = 0;
    const auto other_hash = [&](Bucket& bucket) {
        bucket.slots[3].hash++;
        item = at_of(bucket.slots[3].place);
    };
    const std::string said = said_of(other_hash);
    EXPECT_EQ(said, "byte " + std::to_string(item) + ": the item's key has another hash than its slot");
}

// As many buckets as make the sizes come round to those of one would be read for years.
TEST_F(StoreTest, CheckTakesNoHeaderAtItsWord) {
    constexpr std::uint64_t kRound = (std::uint64_t{1} << 55);
    const auto said_of = [&](std::uint64_t buckets, std::uint64_t overflow, std::uint64_t index) {
        Header header;
        header.buckets = buckets;
        header.overflow = overflow;
        header.index = index;
        header.length = 2 * kPage;
        header.crc = crc_of(header);
        std::string bytes(2 * kPage, '\0');
        std::memcpy(bytes.data(), &header, sizeof header);
        return check(write("forged", bytes))->problems;
    };
    const std::vector<std::string> contradict{path("forged") + ": byte 0: the header's figures contradict each other"};
    const auto all = [&] {
        alarm(30);
        return said_of(kRound + 1, 0, kPage) == contradict && said_of(kRound, 1, kPage) == contradict &&
               said_of(1, kRound, kPage) == contradict && said_of(1, kMostFurther + 1, kPage) == contradict &&
               said_of(16, 0, ~std::uint64_t{kPage - 1}) == contradict && said_of(1, 0, kPage) != contradict;
    };
    EXPECT_EXIT(std::_Exit(all() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST_F(StoreTest, CheckNamesTenProblemsAndCountsTheOthers) {
    Rows source(many(40));
    ASSERT_TRUE(build(source, {.path = path("a.store")}));
    std::string bad = read("a.store");
    ItemHead head;
    for (std::size_t at = kPage, damaged = 1; damaged <= 40; damaged++) {
        std::memcpy(&head, bad.data() + at, sizeof head);
        bad[at] = static_cast<char>(bad[at] ^ 1);  // of the sum
        at += padded(sizeof head + head.key_size + head.value_size, kUnit);
        const auto checked = check(write("bad", bad));
        ASSERT_TRUE(checked);
        EXPECT_EQ(checked->problems.size(), std::min(damaged, kMostProblems));
        EXPECT_EQ(checked->problems.size() + checked->more_problems, damaged);
    }
}

// The name that a file has before its own; what a signal handler has seen of it.
std::string* g_other_name = nullptr;
std::atomic<unsigned> g_looks{0}, g_found{0};
void look_for_it(int) {
    g_looks++;
    if (access(g_other_name->c_str(), F_OK) == 0) g_found++;
}

// A signal that ends the program leaves nothing behind: none comes while there is such a name.
TEST_F(StoreTest, NoSignalSeesTheNameThatAFileHasBeforeItsOwn) {
    std::string name = path("a.store") + "." + std::to_string(getpid()) + ".0";
    g_other_name = &name;
    const auto before = signal(SIGUSR1, look_for_it);
    std::atomic<bool> ends{false};
    std::thread sender([&, there = pthread_self()] {
        while (!ends) {
            const auto looks = g_looks.load();
            pthread_kill(there, SIGUSR1);
            // One after the other: a flood of them would leave that thread no time for anything else.
            while (!ends && g_looks == looks) std::this_thread::yield();
        }
    });
    while (g_looks == 0) std::this_thread::yield();
    for (int i = 0; i < 100; i++) {
        auto made = NewFile::create(path("a.store"));
        if (i == 50) std::filesystem::create_directories(path("a.store/in/the/way"));
        EXPECT_EQ(made && made->commit(Place::taken), i < 50);
        if (i == 49) std::filesystem::remove(path("a.store"));
    }
    ends = true;
    sender.join();
    signal(SIGUSR1, before);
    EXPECT_EQ(g_found, 0u);
    EXPECT_EQ(files(), 1u);
}

TEST_F(StoreTest, TakesNoPlaceThatIsNotFreeAnyMore) {
    auto made = NewFile::create(path("a.store"));
    ASSERT_TRUE(made);
    write("a.store", "of somebody else");
    const auto committed = made->commit(Place::free);
    ASSERT_FALSE(committed);
    EXPECT_EQ(committed.error(),
              "cannot be put in its place: File exists; another file has come there meanwhile, run it again");
    EXPECT_EQ(read("a.store"), "of somebody else");
    EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace chainio::store
