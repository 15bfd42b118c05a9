// Several users of one io_uring: each gets what is its own, reads from its own files into its own memory, and one call
// serves all of them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/ring/shared.h"
#include "tests/support/in_child.h"
#include "tests/support/refused_call.h"

namespace chainio::ring {
namespace {

// What happens as this thread looks at the clock, the `looks`th time from now on: a byte comes through a pipe, and so
// many seconds go by.
struct AtTheClock {
    unsigned looks = 0;
    int pipe = -1;
    time_t seconds = 0;
};
thread_local AtTheClock at_the_clock;

}  // namespace
}  // namespace chainio::ring

// The standard library's clocks ask for the time by way of this.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
    auto& then = chainio::ring::at_the_clock;
    const auto failed = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
    if (then.looks == 0 || --then.looks != 0) return failed;
    EXPECT_EQ(write(then.pipe, "x", 1), 1);
    now->tv_sec += then.seconds;
    return failed;
}

namespace chainio::ring {
namespace {

constexpr std::size_t kRegion = std::size_t{1} << 20;

// A seat with a file of its own in slot 0, and a registered region of its own.
struct User {
    User(Shared& ring, const std::string& text, metrics::Fallbacks& fallbacks) : seat(ring.sit()), bytes(text.size()) {
        std::string path = testing::TempDir() + "chainio-shared-XXXXXX";
        fd = mkstemp(path.data());
        unlink(path.c_str());
        EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
        memory = static_cast<char*>(mmap(nullptr, kRegion, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        EXPECT_TRUE(seat->register_file(0, fd, fallbacks));
        EXPECT_EQ(seat->register_region(memory, kRegion, fallbacks), kRegion);
    }
    ~User() {
        seat->unregister_file(0);
        seat.reset();
        munmap(memory, kRegion);
        close(fd);
    }
    void read(std::uint64_t data) {
        io_uring_sqe* sqe = seat->next_sqe(data);
        io_uring_prep_read_fixed(sqe, static_cast<int>(seat->file_slot(0)), memory, static_cast<unsigned>(bytes), 0,
                                 static_cast<int>(seat->buffer_slot()));
        sqe->flags |= IOSQE_FIXED_FILE;
    }
    std::string text() const { return {memory, bytes}; }

    std::unique_ptr<Seat> seat;
    std::size_t bytes;
    int fd = -1;
    char* memory = nullptr;
};

std::unique_ptr<Shared> ring_for(unsigned seats, metrics::Fallbacks& fallbacks, unsigned entries = 8) {
    auto ring =
        Shared::create({.entries = entries, .cq_entries = 4 * entries, .seats = seats, .file_slots = 2}, fallbacks);
    return ring ? std::move(*ring) : nullptr;
}

// A kernel that refuses whatever it is asked, until the end of the scope.
class Refusing {
  public:
    explicit Refusing(Shared& ring) : ring_(ring.ring().get()), before_(ring_->enter_ring_fd) {
        ring_->enter_ring_fd = 1'000'000;  // neither a descriptor nor a registered ring
    }
    ~Refusing() { ring_->enter_ring_fd = before_; }

  private:
    io_uring* ring_;
    int before_;
};

TEST(Shared, AKernelThatTakesNothingIsNotAskedForEver) {
    metrics::Fallbacks fallbacks;
    const auto ring = ring_for(1, fallbacks);
    if (ring == nullptr) GTEST_SKIP() << "no io_uring here";
    const auto seat = ring->sit();
    ASSERT_EQ(ring->bind(), 0);
    ASSERT_TRUE(ring->has_room(8));
    const Refusing refusing(*ring);
    for (int i = 0; i < 20; i++) io_uring_prep_nop(seat->next_sqe(1));
    EXPECT_FALSE(ring->has_room(1));
    EXPECT_FALSE(ring->submit_all());
    EXPECT_EQ(ring->turn(0), -EAGAIN);
}

TEST(Shared, ARingThatIsNotTheThreadsSaysSoAtOnce) {
    metrics::Fallbacks fallbacks;
    const auto ring = ring_for(1, fallbacks);
    if (ring == nullptr) GTEST_SKIP() << "no io_uring here";
    const auto seat = ring->sit();
    ASSERT_EQ(ring->bind(), 0);
    io_uring_prep_nop(seat->next_sqe(1));
    std::thread([&] {
        EXPECT_FALSE(ring->submit_all());
        EXPECT_FALSE(ring->has_room(1));
        EXPECT_EQ(ring->turn(0), -EEXIST);
    }).join();
    EXPECT_EQ(ring->turn(0), -EEXIST) << "what the other one started is lost";
}

// The queues are one in both processes: what a child took from there its parent would wait for in vain.
TEST(Shared, AChildTakesNothingOfWhatItsParentHasStarted) {
    metrics::Fallbacks fallbacks;
    const auto ring = ring_for(1, fallbacks);
    if (ring == nullptr) GTEST_SKIP() << "no io_uring here";
    const auto seat = ring->sit();
    const auto turn_in_child = [&] { return tests::in_child([&] { return -ring->turn(0); }); };
    EXPECT_EQ(turn_in_child(), EEXIST) << "a ring that nobody has used yet";
    io_uring_prep_nop(seat->next_sqe(1));
    ASSERT_TRUE(ring->submit_all());
    EXPECT_EQ(turn_in_child(), EEXIST);
    ASSERT_EQ(ring->turn(0), 0);
    EXPECT_EQ(seat->waiting(), 1u);
}

TEST(Shared, ARingThatCannotBeEnabledSaysWhy) {
    metrics::Fallbacks fallbacks;
    const auto ring = ring_for(1, fallbacks);
    if (ring == nullptr) GTEST_SKIP() << "no io_uring here";
    const auto seat = ring->sit();
    std::thread([&] {
        tests::refuse_call(SYS_io_uring_register, ENOMEM);
        for (int i = 0; i < 20; i++) io_uring_prep_nop(seat->next_sqe(1));
        EXPECT_FALSE(ring->submit_all());
        EXPECT_EQ(ring->turn(0), -ENOMEM);
    }).join();
}

TEST(Shared, AKernelThatNeverHasMemoryIsNotAskedForEver) {
    metrics::Fallbacks fallbacks;
    const auto ring = ring_for(1, fallbacks);
    if (ring == nullptr) GTEST_SKIP() << "no io_uring here";
    const auto seat = ring->sit();
    std::thread([&] {
        ASSERT_EQ(ring->bind(), 0);
        tests::refuse_call(SYS_io_uring_enter, EAGAIN);
        io_uring_prep_nop(seat->next_sqe(1));
        unsigned turns = 0;
        EXPECT_EQ(ring->turn(0), 0) << "it may have some soon";
        while (turns < 1'000'000 && ring->turn(0) == 0) turns++;
        EXPECT_LT(turns, 1'000'000u);
        EXPECT_EQ(ring->turn(0), -EAGAIN);
    }).join();
}

TEST(Shared, ASeatKnowsOfWhoseCompletionsHaveCome) {
    metrics::Fallbacks fallbacks;
    const auto ring = ring_for(2, fallbacks);
    if (ring == nullptr) GTEST_SKIP() << "no io_uring here";
    const auto seat = ring->sit(), other = ring->sit();
    ASSERT_EQ(ring->bind(), 0);
    io_uring_prep_nop(seat->next_sqe(7));
    EXPECT_FALSE(seat->has_for(7));
    ASSERT_TRUE(ring->submit_all());
    EXPECT_EQ(seat->waiting(), 0u);
    EXPECT_TRUE(seat->has_for(7)) << "it is in the ring";
    EXPECT_FALSE(seat->has_for(8));
    EXPECT_FALSE(other->has_for(7));
    ASSERT_EQ(ring->turn(0), 0);
    EXPECT_EQ(seat->waiting(), 1u);
    EXPECT_TRUE(seat->has_for(7)) << "it is at the seat";
    EXPECT_FALSE(seat->has_for(8));
    EXPECT_FALSE(other->has_for(7));
    seat->take();
    EXPECT_FALSE(seat->has_for(7));
    for (int i = 0; i < 48; i++) io_uring_prep_nop(seat->next_sqe(7));
    ASSERT_TRUE(ring->submit_all());
    EXPECT_TRUE(seat->has_for(8)) << "it may be among those that the ring has no room for";
}

TEST(Shared, ATurnThatASignalEndsIsNoFailure) {
    metrics::Fallbacks fallbacks;
    const auto ring = ring_for(1, fallbacks);
    if (ring == nullptr) GTEST_SKIP() << "no io_uring here";
    std::thread([&] {
        ASSERT_EQ(ring->bind(), 0);
        tests::refuse_call(SYS_io_uring_enter, EINTR);
        EXPECT_EQ(ring->turn(1), 0);
        EXPECT_EQ(ring->turn(1, 30), 0);
    }).join();
}

TEST(Shared, OperationsThatHaveRoomAreTakenTogether) {
    metrics::Fallbacks fallbacks;
    const auto ring = ring_for(1, fallbacks);
    if (ring == nullptr) GTEST_SKIP() << "no io_uring here";
    const auto seat = ring->sit();
    for (int i = 0; i < 7; i++) io_uring_prep_nop(seat->next_sqe(1));
    const std::uint64_t before = ring->submissions();
    ASSERT_TRUE(ring->has_room(2));
    EXPECT_EQ(ring->submissions(), before + 1);
    io_uring_prep_nop(seat->next_sqe(2));
    io_uring_prep_nop(seat->next_sqe(3));
    EXPECT_EQ(ring->submissions(), before + 1);
    unsigned came = 0;
    while (came < 9) {
        ASSERT_EQ(ring->turn(1), 0);
        for (; seat->waiting() != 0; came++) seat->take();
    }
}

TEST(Shared, OneTurnServesAllAndEachReadsItsOwn) {
    metrics::Fallbacks fallbacks;
    auto ring = ring_for(3, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    User first(*ring, "what the first one has", fallbacks), second(*ring, "the second one's", fallbacks);
    first.read(7);
    second.read(7);
    second.read((std::uint64_t{1} << 47) + 8);
    ASSERT_EQ(ring->turn(3), 0);
    ASSERT_EQ(first.seat->waiting(), 1u);
    ASSERT_EQ(second.seat->waiting(), 2u);
    const Came came = first.seat->take();
    EXPECT_EQ(came.data, 7u);
    EXPECT_EQ(came.result, static_cast<int>(first.bytes));
    EXPECT_EQ(first.text(), "what the first one has");
    std::uint64_t sum = 0;
    while (second.seat->waiting() != 0) sum += second.seat->take().data;
    EXPECT_EQ(sum, (std::uint64_t{1} << 47) + 15);
    EXPECT_EQ(second.text(), "the second one's");
    EXPECT_TRUE(fallbacks.all().empty());
}

// The kernel tells a disk of several reads at once from three operations on: two get a third, of which nobody hears.
TEST(Shared, TwoReadsAreThreeOperations) {
    metrics::Fallbacks fallbacks;
    const auto ring = ring_for(1, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    User user(*ring, "all of it", fallbacks);
    const auto taken_of = [&](unsigned reads, unsigned others) {
        const unsigned before = *ring->ring().get()->sq.khead;
        for (unsigned i = 0; i < reads; i++) user.read(i);
        for (unsigned i = 0; i < others; i++) io_uring_prep_nop(user.seat->next_sqe(reads + i));
        for (unsigned came = 0; came < reads + others;) {
            EXPECT_EQ(ring->turn(1), 0);
            for (; user.seat->waiting() != 0; came++) EXPECT_GE(user.seat->take().result, 0);
        }
        EXPECT_EQ(ring->turn(0), 0);
        EXPECT_EQ(user.seat->waiting(), 0u);
        return *ring->ring().get()->sq.khead - before;
    };
    EXPECT_EQ(taken_of(1, 0), 1u);
    EXPECT_EQ(taken_of(2, 0), 3u);
    EXPECT_EQ(taken_of(3, 0), 3u);
    EXPECT_EQ(taken_of(1, 1), 2u);
    EXPECT_EQ(taken_of(0, 2), 2u);
}

TEST(Shared, WhoTakesASeatGetsNothingOfTheOneBefore) {
    metrics::Fallbacks fallbacks;
    auto ring = ring_for(1, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    char byte = 0;
    auto before = ring->sit();
    EXPECT_EQ(ring->sit(), nullptr) << "there is one seat";
    io_uring_prep_read(before->next_sqe(1), pipes[0], &byte, 1, 0);
    ASSERT_EQ(ring->turn(0), 0);
    before.reset();
    auto after = ring->sit();
    ASSERT_NE(after, nullptr);
    ASSERT_EQ(write(pipes[1], "x", 1), 1);
    ASSERT_EQ(ring->turn(1), 0);
    EXPECT_EQ(byte, 'x');
    EXPECT_EQ(after->waiting(), 0u);
    close(pipes[0]);
    close(pipes[1]);
}

// Pages that the kernel keeps in place for this process, in KiB.
long pinned_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmPin:")) return std::stol(line.substr(6));
    return -1;
}

TEST(Shared, WhoLeavesASeatLeavesNothingPinned) {
    metrics::Fallbacks fallbacks;
    auto ring = ring_for(2, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    const long before = pinned_kib();
    ASSERT_GE(before, 0);
    {
        const User user(*ring, "it has a region", fallbacks);
        EXPECT_EQ(pinned_kib(), before + static_cast<long>(kRegion / 1024));
    }
    EXPECT_EQ(pinned_kib(), before) << "the ring is still there";
}

TEST(Shared, ATurnEndsWithItsTime) {
    metrics::Fallbacks fallbacks;
    auto ring = ring_for(1, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(ring->turn(1, 30), 0);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
    EXPECT_EQ(ring->turn(1, 0), 0);
}

TEST(Shared, ATurnThatSpinsForLongerThanItMayWaitEndsWithItsTime) {
    metrics::Fallbacks fallbacks;
    auto ring = Shared::create({.entries = 8, .cq_entries = 32, .seats = 1, .spin_us = 60'000'000}, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ((*ring)->turn(1, 30), 0);
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(took, std::chrono::milliseconds(30));
    EXPECT_LT(took, std::chrono::seconds(30));
}

// Something comes to it at its `looks`-th look, or before it sleeps; the thread then has a turn that waits for nothing.
struct Other : Beside {
    unsigned looks = 0, looked = 0, slept = 0;
    bool came_before_sleep = false;
    bool any_came() override { return looks != 0 && ++looked >= looks; }
    bool fall_asleep() override {
        slept++;
        return !came_before_sleep;
    }
};

TEST(Shared, ATurnDoesNotSleepWhereSomethingHasComeByMemory) {
    metrics::Fallbacks fallbacks;
    for (const bool spins : {false, true}) {
        auto ring =
            Shared::create({.entries = 8, .cq_entries = 32, .seats = 1, .spin_us = spins ? 1000u : 0}, fallbacks);
        if (!ring) GTEST_SKIP() << "there is no io_uring";
        auto seat = (*ring)->sit();
        Other other;
        other.came_before_sleep = true;
        (*ring)->set_beside(&other);
        io_uring_prep_nop(seat->next_sqe(7));
        EXPECT_EQ((*ring)->turn(2), 0) << "it would wait for ever";
        EXPECT_EQ(other.slept, 1u);
        EXPECT_EQ(seat->waiting(), 1u) << "what was started is done";
        EXPECT_EQ((*ring)->turn(0), 0);
        EXPECT_EQ(other.slept, 1u) << "it did not mean to";
        (*ring)->set_beside(nullptr);
        EXPECT_EQ((*ring)->turn(1, 20), 0);
        EXPECT_EQ(other.slept, 1u);
    }
}

TEST(Shared, ATurnThatSpinsFindsWhatHasComeByMemory) {
    metrics::Fallbacks fallbacks;
    auto ring = Shared::create({.entries = 8, .cq_entries = 32, .seats = 1, .spin_us = 60'000'000}, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    Other other;
    other.looks = 50;
    (*ring)->set_beside(&other);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ((*ring)->turn(1), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    EXPECT_EQ(other.looked, 50u);
    EXPECT_EQ(other.slept, 0u) << "nobody has to ring for who looks";
    (*ring)->set_beside(nullptr);
}

// How often the thread has gone to sleep meanwhile, in rounds in which a byte comes a moment after it is waited for.
long sleeps_of_rounds(Shared& ring, Seat& seat, int rounds) {
    int pipes[2];
    EXPECT_EQ(pipe(pipes), 0);
    std::atomic<int> wanted = 0;
    std::atomic<bool> ready = false;
    std::thread writer([&] {
        ready = true;
        for (int round = 1; round <= rounds; round++) {
            while (wanted.load() < round) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::microseconds(300));
            EXPECT_EQ(write(pipes[1], "x", 1), 1);
        }
    });
    while (!ready.load()) std::this_thread::yield();  // a thread that starts may have its parent wait in the kernel
    rusage before{}, after{};
    getrusage(RUSAGE_THREAD, &before);
    for (int round = 1; round <= rounds; round++) {
        char byte = 0;
        io_uring_prep_read(seat.next_sqe(1), pipes[0], &byte, 1, 0);
        wanted = round;
        while (seat.waiting() == 0) EXPECT_EQ(ring.turn(1), 0);
        EXPECT_EQ(seat.take().result, 1);
        EXPECT_EQ(byte, 'x');
    }
    getrusage(RUSAGE_THREAD, &after);
    writer.join();
    close(pipes[0]);
    close(pipes[1]);
    return after.ru_nvcsw - before.ru_nvcsw;
}

TEST(Shared, ATurnThatSpinsSleepsOnlyWhenItsTimeIsOver) {
    constexpr int kRounds = 50;
    for (const bool spins : {false, true}) {
        metrics::Fallbacks fallbacks;
        auto ring =
            Shared::create({.entries = 8, .cq_entries = 32, .seats = 1, .spin_us = spins ? 10'000'000u : 0}, fallbacks);
        if (!ring) GTEST_SKIP() << "there is no io_uring";
        const auto seat = (*ring)->sit();
        const long slept = sleeps_of_rounds(**ring, *seat, kRounds);
        if (spins) {
            EXPECT_LE(slept, 2);
        } else {
            EXPECT_GE(slept, kRounds / 2);
        }
    }
}

TEST(Shared, ATurnThatSpinsInVainSleepsAsOthersDo) {
    metrics::Fallbacks fallbacks;
    auto ring = Shared::create({.entries = 8, .cq_entries = 32, .seats = 1, .spin_us = 1000}, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    const auto seat = (*ring)->sit();
    EXPECT_EQ((*ring)->turn(1, 30), 0);
    EXPECT_EQ(seat->waiting(), 0u);
    io_uring_prep_nop(seat->next_sqe(1));
    EXPECT_EQ((*ring)->turn(2, 30), 0) << "there is only one";
    EXPECT_EQ(seat->waiting(), 1u);
    // A kernel that refuses is asked as often as without.
    io_uring_prep_nop(seat->next_sqe(2));
    const Refusing refusing(**ring);
    EXPECT_LT((*ring)->turn(1), 0);
}

TEST(Shared, ATurnThatSpinsWhereItPaysDoesWhereSomethingComes) {
    metrics::Fallbacks fallbacks;
    auto ring = Shared::create(
        {.entries = 8, .cq_entries = 32, .seats = 1, .spin_us = 10'000'000, .spin_where_it_pays = true}, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    const auto seat = (*ring)->sit();
    EXPECT_LE(sleeps_of_rounds(**ring, *seat, 50), 2);
}

// A call to sleep is made each time, and one to look before where it looks.
std::uint64_t calls_of_vain_turns(Shared& ring, unsigned turns) {
    const std::uint64_t before = ring.calls();
    for (unsigned i = 0; i < turns; i++) EXPECT_EQ(ring.turn(1, 1), 0);
    return ring.calls() - before;
}

TEST(Shared, ATurnThatSpinsInVainAgainAndAgainLooksSeldom) {
    metrics::Fallbacks fallbacks;
    auto ring = Shared::create({.entries = 8, .cq_entries = 32, .seats = 1, .spin_us = 1, .spin_where_it_pays = true},
                               fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    const auto seat = (*ring)->sit();
    const auto calls_of = [&](unsigned turns) { return calls_of_vain_turns(**ring, turns); };
    calls_of(Spinning::kMost);
    EXPECT_EQ(calls_of(4 * Spinning::kTry), 4 * Spinning::kTry + 4);
    // What is there at once is no reason to look.
    for (unsigned i = 0; i < 8 * Spinning::kTry; i++) {
        io_uring_prep_nop(seat->next_sqe(i));
        EXPECT_EQ((*ring)->turn(1), 0);
        seat->take();
    }
    EXPECT_EQ(calls_of(4 * Spinning::kTry), 4 * Spinning::kTry + 4);
}

// A byte comes once the turn has looked in vain, as many seconds later as given.
void turn_that_finds(Shared& ring, Seat& seat, time_t seconds) {
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    char byte = 0;
    io_uring_prep_read(seat.next_sqe(1), pipes[0], &byte, 1, 0);
    at_the_clock = {.looks = 2, .pipe = pipes[1], .seconds = seconds};  // the first is when it begins
    EXPECT_EQ(ring.turn(1, 30'000), 0);
    at_the_clock = {};
    ASSERT_EQ(seat.waiting(), 1u);
    EXPECT_EQ(seat.take().result, 1);
    for (const int end : pipes) close(end);
}

// The second time it is stopped between its looks, and goes on when its time is over.
TEST(Shared, ALookThatFindsSomethingPaysForTwoThatDoNot) {
    for (const time_t stopped : {0, 60}) {
        metrics::Fallbacks fallbacks;
        auto ring = Shared::create(
            {.entries = 8, .cq_entries = 32, .seats = 1, .spin_us = 50'000, .spin_where_it_pays = true}, fallbacks);
        if (!ring) GTEST_SKIP() << "there is no io_uring";
        const auto seat = (*ring)->sit();
        calls_of_vain_turns(**ring, Spinning::kMost / 2);  // what it begins with
        EXPECT_EQ(calls_of_vain_turns(**ring, Spinning::kTry - 1), Spinning::kTry - 1);
        turn_that_finds(**ring, *seat, stopped);
        EXPECT_EQ(calls_of_vain_turns(**ring, 4), 4u + 2) << "stopped for " << stopped << " s";
    }
}

// It is stopped while it looks, and nothing has come when it goes on.
TEST(Shared, ATurnSleepsForWhatItsLookHasLeft) {
    metrics::Fallbacks fallbacks;
    auto ring = Shared::create({.entries = 8, .cq_entries = 32, .seats = 1, .spin_us = 1'000'000}, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    const auto begin = std::chrono::steady_clock::now();
    at_the_clock = {.looks = 2, .pipe = pipes[1], .seconds = 29};
    EXPECT_EQ((*ring)->turn(1, 30'000), 0);
    at_the_clock = {};
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
    for (const int end : pipes) close(end);
}

TEST(Shared, TakesMoreThanItsQueuesHoldAtOnce) {
    metrics::Fallbacks fallbacks;
    auto ring = ring_for(2, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    auto seat = ring->sit();
    constexpr unsigned kMany = 5000;
    const std::uint64_t before = ring->submissions();
    for (unsigned i = 0; i < kMany; i++) io_uring_prep_nop(seat->next_sqe(i));
    EXPECT_GT(ring->submissions(), before);
    std::vector<bool> seen(kMany);
    unsigned count = 0;
    while (count < kMany) {
        ASSERT_EQ(ring->turn(1), 0);
        for (; seat->waiting() != 0; count++) seen[seat->take().data] = true;
    }
    EXPECT_EQ(std::ranges::count(seen, true), kMany);
}

TEST(Shared, WhatHasComeStaysInItsOrderWhenThereIsNoRoomForMore) {
    metrics::Fallbacks fallbacks;
    auto ring = ring_for(1, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    auto seat = ring->sit();
    unsigned begun = 0;
    const auto have_waiting = [&](std::size_t count) {
        while (seat->waiting() < count) {
            io_uring_prep_nop(seat->next_sqe(begun++));
            ASSERT_EQ(ring->turn(1), 0);
        }
    };
    have_waiting(700);
    for (unsigned i = 0; i < 300; i++) EXPECT_EQ(seat->take().data, i);
    have_waiting(3000);
    for (unsigned i = 300; i < begun; i++) ASSERT_EQ(seat->take().data, i);
    EXPECT_EQ(seat->waiting(), 0u);
}

}  // namespace
}  // namespace chainio::ring
