#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

#include "runtime/shim/table.h"
#include "tests/support/properties.h"

namespace chainio::shim {
namespace {

TEST(Table, KnowsNothingBeforeItIsMade) {
    Table table;
    EXPECT_EQ(table.watched(0), nullptr);
    EXPECT_EQ(table.watched(-1), nullptr);
    EXPECT_FALSE(table.clear(3).last);
    EXPECT_FALSE(table.duplicate(1, 2));
    EXPECT_FALSE(table.put_file(1, 0, 0, 0));
}

TEST(Table, DescriptorsOutsideAreNotWatched) {
    Table table;
    ASSERT_TRUE(table.create());
    EXPECT_FALSE(table.put_file(kSlots, 0, 1, 2));
    EXPECT_FALSE(table.put_file(-1, 0, 1, 2));
    EXPECT_TRUE(table.put_file(kSlots - 1, 63, 1, 2));
    EXPECT_FALSE(table.duplicate(kSlots - 1, kSlots));
    EXPECT_EQ(table.watched(kSlots), nullptr);
    EXPECT_EQ(table.watched(kSlots - 1)->rule(), 63U);
    EXPECT_EQ(table.highest(), static_cast<int>(kSlots) - 1);
    table.stop();
    EXPECT_EQ(table.watched(kSlots - 1), nullptr);
}

// Random opens, copies and closes against a map of what each number stands for.
TEST(Table, AgreesWithAMap) {
    struct Known {
        int opening;
        unsigned rule;
    };
    EXPECT_TRUE(rc::check([] {
        Table table;
        RC_ASSERT(table.create());
        std::map<int, Known> known;
        std::map<int, int> copies;
        int openings = 0;
        for (int i = 0; i < 100; ++i) {
            const int fd = *rc::gen::inRange(0, 12), to = *rc::gen::inRange(0, 12);
            switch (*rc::gen::inRange(0, 3)) {
                case 0: {
                    if (known.contains(fd)) break;
                    const auto rule = *rc::gen::inRange(0U, 64U);
                    known[fd] = {++openings, rule};
                    copies[openings] = 1;
                    RC_ASSERT(table.put_file(fd, rule, 8, static_cast<std::uint64_t>(openings)));
                    break;
                }
                case 1: {
                    if (fd == to || known.contains(to)) break;
                    RC_ASSERT(table.duplicate(fd, to) == known.contains(fd));
                    if (!known.contains(fd)) break;
                    known[to] = known[fd];
                    ++copies[known[fd].opening];
                    break;
                }
                default: {
                    const Closed closed = table.clear(fd);
                    if (!known.contains(fd)) {
                        RC_ASSERT(!closed.last);
                        break;
                    }
                    RC_ASSERT(closed.last == (--copies[known[fd].opening] == 0));
                    RC_ASSERT(closed.inode == static_cast<std::uint64_t>(known[fd].opening) &&
                              closed.rule == known[fd].rule);
                    known.erase(fd);
                }
            }
            for (int number = 0; number < 12; ++number) {
                const Slot* slot = table.watched(number);
                RC_ASSERT((slot != nullptr) == known.contains(number));
                if (!slot) continue;
                RC_ASSERT(slot->rule() == known[number].rule && slot->kind() == Kind::file);
                RC_ASSERT(table.opening(*slot).inode == static_cast<std::uint64_t>(known[number].opening));
                RC_ASSERT(number <= table.highest());
            }
        }
    }));
}

TEST(Table, SocketsAreCounted) {
    Table table;
    ASSERT_TRUE(table.create());
    EXPECT_FALSE(table.has_sockets());
    table.put_socket(5, Kind::listener, 3);
    EXPECT_TRUE(table.duplicate(5, 6));
    EXPECT_EQ(table.watched(6)->kind(), Kind::listener);
    table.clear(5);
    EXPECT_TRUE(table.has_sockets());
    EXPECT_FALSE(table.clear(6).last);
    EXPECT_FALSE(table.has_sockets());
}

// What was known of the one that had the number before, or of the one that it is a copy of, is not known of it.
TEST(Table, ASocketBeginsWithNothingKnownOfIt) {
    Table table;
    ASSERT_TRUE(table.create());
    table.put_socket(5, Kind::socket, 3);
    Slot& slot = *table.watched(5);
    const auto learn = [&] {
        slot.link = 9;
        slot.data = 77;
        slot.peeked = kPosted;
    };
    const auto knows_nothing = [](const Slot& of) { return of.link == 0U && of.data == 0U && of.peeked == 0U; };
    learn();
    ASSERT_TRUE(table.duplicate(5, 6));
    EXPECT_TRUE(knows_nothing(*table.watched(6)));
    table.clear(5);
    table.put_socket(5, Kind::socket, 3);
    ASSERT_EQ(table.watched(5), &slot);
    EXPECT_TRUE(knows_nothing(slot));
}

// The same of an opening, when all others have had their turn.
TEST(Table, AnOpeningBeginsWithNothingKnownOfIt) {
    Table table;
    ASSERT_TRUE(table.create());
    ASSERT_TRUE(table.put_file(5, 0, 1, 2, Reads::served));
    const Opening* const first = &table.opening(*table.watched(5));
    EXPECT_EQ(first->reads, Reads::served);
    table.opening(*table.watched(5)).mapped = 1;
    table.opening(*table.watched(5)).advised = 1;
    do {
        table.clear(5);
        ASSERT_TRUE(table.put_file(5, 0, 1, 2));
    } while (&table.opening(*table.watched(5)) != first);
    EXPECT_EQ(first->mapped, 0U);
    EXPECT_EQ(first->advised, 0U);
    EXPECT_EQ(first->reads, Reads::cached);
}

TEST(Table, OnlyWithoutATableMayAnythingBeWatched) {
    Table table;
    EXPECT_TRUE(table.may_be_watched(0));
    EXPECT_TRUE(table.may_be_watched(kSlots));
    ASSERT_TRUE(table.create());
    EXPECT_FALSE(table.may_be_watched(0));
    ASSERT_TRUE(table.put_file(7, 1, 2, 3));
    EXPECT_TRUE(table.may_be_watched(7));
    EXPECT_FALSE(table.may_be_watched(6)) << "below the highest";
    EXPECT_FALSE(table.may_be_watched(8));
    EXPECT_TRUE(table.may_be_watched(kSlots)) << "not in the table";
    table.clear(7);
    EXPECT_FALSE(table.may_be_watched(7));
    table.stop();
    EXPECT_TRUE(table.may_be_watched(0));
    EXPECT_TRUE(table.may_be_watched(7));
}

// Threads that open and close numbers of their own, and look at each other's.
TEST(Table, ThreadsDoNotDisturbEachOther) {
    Table table;
    ASSERT_TRUE(table.create());
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20'000; ++i) {
                const auto inode = static_cast<std::uint64_t>(t) << 32 | static_cast<unsigned>(i);
                if (!table.put_file(t, static_cast<unsigned>(t), 1, inode)) ++wrong;
                if (const Slot* other = table.watched((t + 1) % 4))
                    static_cast<void>(table.opening(*other).inode.load());
                const Closed closed = table.clear(t);
                if (!closed.last || closed.inode != inode) ++wrong;
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace chainio::shim
