#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/shim/post.h"
#include "tests/support/in_child.h"
#include "tests/support/properties.h"

namespace chainio::shim {
namespace {

struct Unmap {
    void operator()(Region* region) const { munmap(region, kRegionBytes); }
};
std::unique_ptr<Region, Unmap> make_region() {
    void* memory = mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return std::unique_ptr<Region, Unmap>(static_cast<Region*>(memory));
}

// The server's side, as protocol.h says it: the next event, or nothing.
struct Read {
    Event event;
    std::string payload;
};
bool take(Ring& ring, Read& out) {
    while (true) {
        const std::uint32_t head = ring.head.load(), at = head % kRingBytes, rest = kRingBytes - at;
        if (head == ring.tail.load(std::memory_order_acquire)) return false;
        if (rest < sizeof(Event)) {
            ring.head.store(head + rest);
            continue;
        }
        std::memcpy(&out.event, ring.data + at, sizeof(Event));
        EXPECT_GE(out.event.bytes, sizeof(Event));
        EXPECT_LE(out.event.bytes, rest);
        EXPECT_EQ(out.event.bytes % 8, 0);
        if (out.event.kind != EventKind::skip)
            out.payload.assign(reinterpret_cast<char*>(ring.data + at + sizeof(Event)), out.event.length);
        ring.head.store(head + out.event.bytes, std::memory_order_release);
        if (out.event.kind != EventKind::skip) return true;
    }
}

std::string payload_of(std::uint64_t number, std::size_t size) {
    std::string text(size, 0);
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(number * 31 + i);
    return text;
}

Holder& holder_of(Region& region, const Ring* ring) { return region.holders[ring - region.rings]; }

// As where the file system has no room: pages behind the end of a file cannot be touched either.
TEST(Claim, WithoutMemoryForARingThereIsNone) {
    const int fd = memfd_create("region", MFD_CLOEXEC);
    const auto sized = [&](std::size_t rings) {
        return ftruncate(fd, static_cast<off_t>(offsetof(Region, rings) + rings * sizeof(Ring))) == 0;
    };
    ASSERT_TRUE(sized(0));
    void* memory = mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const std::unique_ptr<Region, Unmap> region(static_cast<Region*>(memory));
    EXPECT_EQ(claim(*region, {1, 1}), nullptr);
    ASSERT_TRUE(sized(8));
    EXPECT_EQ(claim(*region, {5, 1}), &region->rings[5]);
    region->holders[5].owner = 0;
    EXPECT_EQ(claim(*region, {20, 1}), &region->rings[5]) << "one that was taken before has its memory";
    close(fd);
}

TEST(Claim, AnImageFreesWhatEarlierOnesOfItsProcessHave) {
    const auto region = make_region();
    constexpr std::uint32_t kProcess = 100, kPids = 7, kImage = 2;
    const auto claimed = [&](const Taker& taker) { return claim(*region, taker); };
    const Ring* earlier[] = {claimed({5, kProcess, kPids, 1}), claimed({6, kProcess, kPids, 1})};
    const Ring* others[] = {claimed({7, kProcess, kPids + 1, 1}), claimed({8, kProcess + 1, kPids, 1}),
                            claimed({9, kProcess, kPids, kImage})};
    Ring* half = claimed({10, kProcess, kPids, 1});
    holder_of(*region, half).owner = 10 | kTaking;
    free_of_earlier_images(*region, {11, kProcess, 0, kImage});
    for (const Ring* ring : earlier)
        EXPECT_NE(holder_of(*region, ring).owner, 0U) << "nobody knows in which namespace that is its number";
    free_of_earlier_images(*region, {11, kProcess, kPids, kImage});
    for (const Ring* ring : earlier) EXPECT_EQ(holder_of(*region, ring).owner, 0U);
    for (const Ring* ring : others) EXPECT_NE(holder_of(*region, ring).owner, 0U);
    EXPECT_EQ(holder_of(*region, half).owner, 10 | kTaking) << "its process is another's still";
}

// A page fault for each ring would take longer than many a program that is started.
TEST(Claim, WhoLooksForARingTouchesNoneOfOtherProcesses) {
    const auto region = make_region();
    while (claim(*region, {5, 100, 7, 1})) {}
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = (reinterpret_cast<std::uintptr_t>(region->rings) + page - 1) / page * page;
    const auto end = reinterpret_cast<std::uintptr_t>(region.get()) + kRegionBytes;
    EXPECT_EQ(tests::in_child([&] {
                  if (mprotect(reinterpret_cast<void*>(first), end - first, PROT_NONE) != 0) return 1;
                  free_of_earlier_images(*region, {6, 101, 7, 2});
                  return claim(*region, {6, 101, 7, 2}) || take_over(*region, {6, 101, 8, 2}) ? 2 : 0;
              }),
              0);
}

std::uint32_t own_pids() {
    struct stat status{};
    return stat("/proc/self/ns/pid", &status) == 0 ? static_cast<std::uint32_t>(status.st_ino) : 0;
}

// A child that has taken all rings, has posted by each, and has been killed.
class AllTaken : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(own_pids(), 0U) << "there is no /proc/self/ns/pid here";
        int done[2];
        ASSERT_EQ(pipe(done), 0);
        child_ = fork();
        if (child_ == 0) {
            const auto id = static_cast<std::uint32_t>(getpid());
            Event event{};
            event.kind = EventKind::closed;
            event.process = id;
            std::uint32_t head = 0;
            while (Ring* ring = claim(*region_, {id, id, own_pids()})) put(*ring, head, event, nullptr, 0);
            (void)!write(done[1], "x", 1);
            while (true) pause();
        }
        char word = 0;
        ASSERT_EQ(read(done[0], &word, 1), 1);
        close(done[0]);
        close(done[1]);
        for (const Holder& holder : region_->holders) ASSERT_EQ(holder.owner, static_cast<std::uint32_t>(child_));
    }
    void end_child() {
        kill(child_, SIGKILL);
        waitpid(child_, nullptr, 0);
        child_ = 0;
    }
    void TearDown() override {
        if (child_ > 0) end_child();
    }
    Taker taker() const {
        return {static_cast<std::uint32_t>(gettid()), static_cast<std::uint32_t>(getpid()), own_pids()};
    }
    std::unique_ptr<Region, Unmap> region_ = make_region();
    pid_t child_ = 0;
};

TEST_F(AllTaken, WhatADeadThreadHasIsTakenOverAndNothingOfItLost) {
    EXPECT_EQ(take_over(*region_, taker()), nullptr) << "it lives";
    end_child();
    EXPECT_EQ(claim(*region_, taker()), nullptr);
    Ring* ring = take_over(*region_, taker());
    ASSERT_NE(ring, nullptr);
    EXPECT_EQ(holder_of(*region_, ring).owner, taker().thread);
    EXPECT_EQ(holder_of(*region_, ring).process, taker().process);
    std::uint32_t head = ring->head;
    Event event{};
    event.kind = EventKind::closed;
    event.process = taker().process;
    ASSERT_TRUE(put(*ring, head, event, nullptr, 0));
    Read first, second;
    ASSERT_TRUE(take(*ring, first));
    ASSERT_TRUE(take(*ring, second));
    EXPECT_NE(first.event.process, taker().process) << "what its last owner has posted";
    EXPECT_EQ(second.event.process, taker().process);
}

TEST_F(AllTaken, NumbersOfAnotherNamespaceSayNothing) {
    end_child();
    Taker other = taker();
    other.pids++;
    EXPECT_EQ(take_over(*region_, other), nullptr);
    other.pids = 0;
    EXPECT_EQ(take_over(*region_, other), nullptr);
    for (Holder& holder : region_->holders) holder.owner = 5 | kTaking;
    EXPECT_EQ(take_over(*region_, taker()), nullptr) << "somebody is about to take them";
}

TEST_F(AllTaken, AThreadThatPostsFindsOne) {
    end_child();
    Process process{};
    std::thread([&] {
        post_event(*region_, process, Event{}, nullptr, 0);
        EXPECT_NE(producer.ring, nullptr);
    }).join();
    EXPECT_EQ(region_->stats.no_ring, 0U);
}

// Random posts and looks of the server: what is read is what was posted, in order, less what was refused and counted;
// and nothing is refused while there is room for it.
TEST(Post, RingAgreesWithAQueue) {
    auto region = make_region();
    int refused = 0, wrapped = 0;
    EXPECT_TRUE(rc::check([&] {
        Ring& ring = region->rings[0];
        const auto start = *rc::gen::element(0U, kRingBytes - 40, kRingBytes - 8, 0U - 4096, 0U - 16) & ~7U;
        ring.tail = ring.head = start;
        ring.lost = 0;
        std::uint32_t seen = start, lost = 0;
        std::deque<std::pair<std::uint64_t, std::size_t>> queue;
        std::uint64_t number = 0;
        const auto steps = *rc::gen::container<std::vector<int>>(200, rc::gen::inRange(0, 10));
        for (const int step : steps) {
            Read read;
            if (step < 1) {
                for (int i = 0; i < 6 && !queue.empty(); ++i) {
                    RC_ASSERT(take(ring, read));
                    RC_ASSERT(read.event.inode == queue.front().first);
                    RC_ASSERT(read.payload == payload_of(queue.front().first, queue.front().second));
                    queue.pop_front();
                }
                continue;
            }
            const std::size_t size = *rc::gen::element<std::size_t>(0, 1, 7, 8, 100, 1000, 4095, 4096);
            Event event{};
            event.kind = EventKind::ready;
            event.inode = ++number;
            event.length = static_cast<std::uint32_t>(size);
            const std::uint32_t tail = ring.tail;
            if (put(ring, seen, event, payload_of(number, size).data(), event.length)) {
                queue.emplace_back(number, size);
                wrapped += ring.tail / kRingBytes != tail / kRingBytes;
            } else {
                ++lost;
                RC_ASSERT(tail - ring.head + 2 * (sizeof(Event) + 4096) > kRingBytes);
            }
            RC_ASSERT(ring.lost == lost);
        }
        refused += static_cast<int>(lost);
        Read read;
        for (; !queue.empty(); queue.pop_front()) {
            RC_ASSERT(take(ring, read));
            RC_ASSERT(read.event.inode == queue.front().first);
        }
        RC_ASSERT(!take(ring, read));
    }));
    EXPECT_GT(refused, 0);
    EXPECT_GT(wrapped, 0);
}

TEST(Post, WhatTheServerWroteIsNotBelieved) {
    auto region = make_region();
    Ring& ring = region->rings[0];
    std::uint32_t seen = 4096;  // ahead of the tail: more room than there is
    ring.head = 4096;
    EXPECT_FALSE(put(ring, seen, Event{}, nullptr, 0));
    EXPECT_EQ(ring.lost, 1U);
}

TEST(Post, OneThreadWritesWhileAnotherReads) {
    auto region = make_region();
    constexpr std::uint64_t kEvents = 50'000;
    Ring& ring = region->rings[3];
    std::thread writer([&] {
        std::uint32_t seen = 0;
        for (std::uint64_t i = 1; i <= kEvents; ++i) {
            Event event{};
            event.kind = EventKind::ready;
            event.inode = i;
            const std::string payload = payload_of(i, i % 300);
            event.length = static_cast<std::uint32_t>(payload.size());
            while (!put(ring, seen, event, payload.data(), event.length)) std::this_thread::yield();
        }
    });
    for (std::uint64_t i = 1; i <= kEvents;) {
        Read read;
        if (!take(ring, read)) {
            std::this_thread::yield();
            continue;
        }
        ASSERT_EQ(read.event.inode, i);
        ASSERT_EQ(read.payload, payload_of(i, i % 300));
        ++i;
    }
    writer.join();
}

TEST(Post, EveryRingHasOneOwner) {
    auto region = make_region();
    std::vector<std::thread> threads;
    std::atomic<unsigned> taken{0}, refused{0};
    for (unsigned t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (unsigned i = 0; i < kRings / 8 + 1; ++i) (claim(*region, {1000 + t * 100 + i, 7}) ? taken : refused)++;
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(taken, kRings);
    EXPECT_EQ(refused, 8U);
    std::vector<std::uint32_t> owners;
    for (const Holder& holder : region->holders) owners.push_back(holder.owner);
    for (const auto& word : region->used_rings) EXPECT_EQ(word.load(), UINT64_MAX) << "the server looks at no other";
    std::ranges::sort(owners);
    EXPECT_EQ(std::ranges::adjacent_find(owners), owners.end());
    EXPECT_NE(owners.front(), 0U);
}

// Threads come and go: each gives its ring back, and what it posted stays to be read.
TEST(Post, AThreadGivesItsRingBack) {
    auto region = make_region();
    Process process{};
    for (unsigned i = 0; i < 2 * kRings; ++i)
        std::thread([&] {
            Event event{};
            event.kind = EventKind::closed;
            event.inode = i;
            post_event(*region, process, event, nullptr, 0);
            release_ring(*region, process);
        }).join();
    unsigned events = 0;
    for (Ring& ring : region->rings) {
        EXPECT_EQ(holder_of(*region, &ring).owner, 0U);
        for (Read read; take(ring, read);) {
            EXPECT_EQ(read.event.process, static_cast<std::uint32_t>(getpid()));
            ++events;
        }
    }
    EXPECT_EQ(events, 2 * kRings);
    EXPECT_EQ(region->stats.no_ring, 0U);
}

// A table's filter of 160 KiB takes 17 us out of the page cache, a MiB some 100.
TEST(Post, ToCopyMuchIsNoWait) {
    EXPECT_EQ(quick_for(0), kSlowReadNs);
    EXPECT_EQ(quick_for(4096), kSlowReadNs + 512);
    EXPECT_GT(quick_for(160 * 1024), 35'000U);
    EXPECT_LT(quick_for(1024 * 1024), 160'000U) << "disks take longer for it";
}

TEST(Post, WithoutARingItIsCounted) {
    auto region = make_region();
    Process process{};
    for (Holder& holder : region->holders) holder.owner = 1;
    std::thread([&] {
        for (int i = 0; i < 5; ++i) post_event(*region, process, Event{}, nullptr, 0);
    }).join();
    EXPECT_EQ(region->stats.no_ring, 5U);
}

// To look for one takes long, so that it is not done at each post.
TEST(Post, WhoHasFoundNoRingFindsOneOnceThereIs) {
    auto region = make_region();
    Process process{};
    for (Holder& holder : region->holders) holder.owner = 1;
    std::thread([&] {
        post_event(*region, process, Event{}, nullptr, 0);
        for (Holder& holder : region->holders) holder.owner = 0;
        std::uint64_t posts = 1;
        for (; producer.ring == nullptr && posts < 100'000; ++posts) post_event(*region, process, Event{}, nullptr, 0);
        EXPECT_NE(producer.ring, nullptr);
        EXPECT_GT(posts, 1000U);
        EXPECT_EQ(region->stats.no_ring, posts - 1) << "the last one has found room";
        release_ring(*region, process);
    }).join();
}

// Those that a program had which this process has executed another one instead of.
TEST(Post, TheFirstPostFreesTheRingsOfEarlierImages) {
    const auto region = make_region();
    ASSERT_NE(own_pids(), 0U) << "there is no /proc/self/ns/pid here";
    const auto id = static_cast<std::uint32_t>(getpid());
    region->images = 5;
    const Ring* earlier = claim(*region, {id, id, own_pids(), 5});
    Process process{};
    std::thread([&] {
        post_event(*region, process, Event{}, nullptr, 0);
        EXPECT_EQ(holder_of(*region, earlier).owner, 0U);
        release_ring(*region, process);
    }).join();
}

// A child finds the page zeroed, and takes a ring of its own although its thread's memory still names its parent's.
TEST(Post, AChildHasItsOwnRing) {
    auto region = make_region();
    auto* process =
        static_cast<Process*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(madvise(process, 4096, MADV_WIPEONFORK), 0);
    Event event{};
    event.kind = EventKind::closed;
    std::thread([&] {
        post_event(*region, *process, event, nullptr, 0);
        const Ring* mine = producer.ring;
        const pid_t child = fork();
        if (child == 0) {
            post_event(*region, *process, event, nullptr, 0);
            const Ring* own = producer.ring;
            const bool good =
                own && own != mine && holder_of(*region, own).process == static_cast<std::uint32_t>(getpid());
            _exit(good ? 0 : 1);
        }
        int status = 1;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
        EXPECT_EQ(producer.ring, mine);
        EXPECT_EQ(holder_of(*region, mine).owner, static_cast<std::uint32_t>(gettid()));
        EXPECT_EQ(tests::in_child([&] {
                      release_ring(*region, *process);
                      return producer.ring == nullptr ? 0 : 1;
                  }),
                  0);
        EXPECT_EQ(holder_of(*region, mine).owner, static_cast<std::uint32_t>(gettid()))
            << "which a child does not give back";
        release_ring(*region, *process);
    }).join();
    munmap(process, 4096);
}

// What its last owner has left in it is still to be read, however far the server had come in the thread's own ring.
TEST(Post, WhoTakesARingKnowsHowFullItIs) {
    auto region = make_region();
    Process process{};
    std::thread([&] {
        const auto post = [&](unsigned times) {
            for (unsigned i = 0; i < times; ++i) post_event(*region, process, Event{}, nullptr, 0);
        };
        constexpr unsigned kMany = 1000;
        constexpr auto kBytes = static_cast<std::uint32_t>(kMany * sizeof(Event));
        static_assert(kBytes > kRingBytes / 2 && 2 * kBytes > kRingBytes);
        post(kMany);
        producer.ring->head = kBytes;
        post(1);
        release_ring(*region, process);
        for (Ring& ring : region->rings) {
            ring.tail = kBytes;
            ring.head = 0;
        }
        post(kMany);
        const Ring& ring = *producer.ring;
        EXPECT_LE(ring.tail - ring.head, kRingBytes) << "what nobody has read is written over";
        EXPECT_GT(ring.lost, 0U);
        release_ring(*region, process);
    }).join();
}

// A server that was killed has said nothing. Who finds no room in the ring asks after it, now and then.
TEST(Post, AServerThatIsDeadIsFound) {
    auto region = make_region();
    Process process{};
    std::thread([&] {
        const auto lose = [&](std::uint32_t most) {
            while (producer.ring == nullptr || producer.ring->lost < most)
                post_event(*region, process, Event{}, nullptr, 0);
        };
        region->server = static_cast<std::uint32_t>(getpid());
        lose(1000);
        EXPECT_EQ(process.alone, 0u);
        const pid_t dead = fork();
        if (dead == 0) _exit(0);
        ASSERT_EQ(waitpid(dead, nullptr, 0), dead);
        region->server = static_cast<std::uint32_t>(dead);
        lose(2000);
        EXPECT_EQ(process.alone, 1u);
        release_ring(*region, process);
    }).join();
}

TEST(Post, AHandlerInsideAPostLosesItsOwn) {
    auto region = make_region();
    Process process{};
    std::thread([&] {
        post_event(*region, process, Event{}, nullptr, 0);
        const std::uint32_t tail = producer.ring->tail;
        producer.writing = true;  // as it is in the middle of a post
        post_event(*region, process, Event{}, nullptr, 0);
        EXPECT_EQ(producer.ring->tail, tail);
        EXPECT_EQ(producer.ring->lost, 1U);
        // A handler that jumped out of the post must not silence the thread for good.
        for (int i = 0; i < 100; ++i) post_event(*region, process, Event{}, nullptr, 0);
        EXPECT_GT(producer.ring->tail, tail);
        const std::uint32_t further = producer.ring->tail;
        producer.writing = true;
        post_event(*region, process, Event{}, nullptr, 0);
        EXPECT_EQ(producer.ring->tail, further) << "and a later one is lost as ever";
        release_ring(*region, process);
    }).join();
}

TEST(Post, OnlyASleepingServerIsWoken) {
    auto region = make_region();
    wake(*region);
    EXPECT_EQ(region->asleep, 0U);
    region->asleep = 1;
    wake(*region);
    EXPECT_EQ(region->asleep, 0U);
}

TEST(Post, ARingThatFillsWakesTheServer) {
    auto region = make_region();
    Process process{};
    std::thread([&] {
        region->asleep = 1;
        const unsigned half = kRingBytes / 2 / sizeof(Event);
        for (unsigned i = 0; i < half; ++i) post_event(*region, process, Event{}, nullptr, 0);
        EXPECT_EQ(region->asleep, 1U) << "a few events wait until the server looks";
        for (unsigned i = 0; i < 2; ++i) post_event(*region, process, Event{}, nullptr, 0);
        EXPECT_EQ(region->asleep, 0U);
        region->asleep = 1;
        producer.ring->head = producer.ring->tail.load();  // it has looked
        for (unsigned i = 0; i < half / 2; ++i) post_event(*region, process, Event{}, nullptr, 0);
        EXPECT_EQ(region->asleep, 1U);
        release_ring(*region, process);
    }).join();
}

}  // namespace
}  // namespace chainio::shim
