// What programs write into rings: every event arrives once and in order, and nothing that is written there can do harm.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <random>
#include <thread>

#include "runtime/shadow/inbox.h"
#include "tests/support/properties.h"
#include "tests/support/shadow_poster.h"
#include "tests/support/soak.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using shim::Event;
using shim::EventKind;
using tests::Poster;

struct Taken final : MessageSink {
    std::vector<std::pair<Event, std::string>> all;
    std::vector<std::uint32_t> processes, asked;
    void on_message(const Message& message) override {
        asked.push_back(message.asked);
        all.emplace_back(message.event,
                         std::string(reinterpret_cast<const char*>(message.payload.data()), message.payload.size()));
    }
    void on_process(std::uint32_t process) override { processes.push_back(process); }
    bool may_serve(std::uint32_t) override { return serving; }
    bool pauses() const override { return pausing; }
    bool pausing = false, serving = false;
};

class InboxTest : public testing::Test {
  protected:
    std::unique_ptr<shim::Region> region_ = std::make_unique<shim::Region>();
    Inbox inbox_{*region_, 2, 1};
    Taken taken_;
    unsigned drain() { return inbox_.drain(taken_, 1000, true); }
    Event read_event(std::uint64_t offset) {
        Event event{};
        event.kind = EventKind::read;
        event.offset = offset;
        event.length = 100;
        return event;
    }
};

TEST_F(InboxTest, EventsArriveInOrderThroughManyTurnsOfTheRing) {
    Poster poster(*region_, 5);
    std::mt19937_64 random(tests::soak_seed());
    unsigned posted = 0;
    for (int turn = 0; turn < 400; turn++) {
        for (int i = 0; i < 20; i++) {
            Event event{};
            event.kind = EventKind::opened;
            event.offset = posted;
            // All remainders of the ring's end are met, those without room for an event among them.
            ASSERT_TRUE(poster.post_text(event, std::string(1 + random() % 500, static_cast<char>('a' + posted % 26))));
            posted++;
        }
        drain();
    }
    ASSERT_EQ(taken_.all.size(), posted);
    for (unsigned i = 0; i < posted; i++) {
        ASSERT_EQ(taken_.all[i].first.offset, i);
        ASSERT_EQ(taken_.all[i].second.front(), static_cast<char>('a' + i % 26));
        ASSERT_EQ(taken_.all[i].second.size(), taken_.all[i].first.length);
    }
    EXPECT_EQ(region_->stats.bad_events, 0u);
    EXPECT_EQ(taken_.processes, std::vector<std::uint32_t>{static_cast<std::uint32_t>(getpid())});
}

// Whose number is given to another one.
TEST_F(InboxTest, AProcessThatHasEndedIsForgotten) {
    const pid_t child = fork();
    if (child == 0) pause();
    ASSERT_GT(child, 0);
    const auto number = static_cast<std::uint32_t>(child);
    struct stat pids{};
    ASSERT_EQ(stat("/proc/self/ns/pid", &pids), 0);
    const auto posts_as = [&](unsigned ring, std::uint32_t image) {
        Poster poster(*region_, ring, number, number);
        poster.holder().image = image;
        poster.holder().pids = static_cast<std::uint32_t>(pids.st_ino);
        ASSERT_TRUE(poster.post(read_event(0)));
        drain();
    };
    posts_as(1, 1);
    inbox_.reclaim();
    posts_as(2, 2);
    EXPECT_EQ(region_->stats.processes, 1u) << "it may have executed another program";
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    inbox_.reclaim();
    posts_as(3, 3);
    EXPECT_EQ(region_->stats.processes, 1u) << "what it has left behind is its own";
    inbox_.reclaim();
    posts_as(4, 4);
    EXPECT_EQ(region_->stats.processes, 2u);
    EXPECT_EQ(taken_.processes, (std::vector{number, number}));
}

// Each page of it is looked up.
TEST_F(InboxTest, OfAReadThatNobodyMakesOnlySoMuchCounts) {
    Poster poster(*region_, 0);
    Event event = read_event(0);
    event.length = UINT32_MAX;
    const std::vector<std::uint8_t> asked_for(sizeof(std::uint32_t), 0xff);
    ASSERT_TRUE(poster.post(event, asked_for));
    EXPECT_EQ(drain(), 1u);
    ASSERT_EQ(taken_.all.size(), 1u);
    EXPECT_EQ(taken_.all[0].first.length, 256u << 20);
    EXPECT_EQ(taken_.asked[0], 256u << 20);
}

// The region is sparse: looking at a ring's head would give it memory.
TEST(Inbox, RingsThatNobodyTookTakeNoMemory) {
    const int fd = memfd_create("region", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(fd, static_cast<off_t>(shim::kRegionBytes)), 0);
    void* at = mmap(nullptr, shim::kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(at, MAP_FAILED);
    auto& region = *static_cast<shim::Region*>(at);
    const auto blocks = [&] {
        struct stat info{};
        fstat(fd, &info);
        return info.st_blocks;
    };
    Inbox inbox(region, 1, 1);
    Taken taken;
    Poster poster(region, 200);
    inbox.drain(taken, 10, true);
    const auto before = blocks();
    for (int i = 0; i < 3; i++) {
        inbox.drain(taken, 10, true);
        EXPECT_FALSE(inbox.pending(true));
        inbox.reclaim();
    }
    EXPECT_EQ(blocks(), before);
    EXPECT_LT(before * 512, 1 << 17);
    Event event{};
    event.kind = EventKind::closed;
    ASSERT_TRUE(poster.post(event));
    EXPECT_TRUE(inbox.pending(true));
    inbox.drain(taken, 10, true);
    EXPECT_EQ(taken.all.size(), 1u);
    munmap(at, shim::kRegionBytes);
    close(fd);
}

TEST_F(InboxTest, AProducerAndTheServerWorkAtTheSameTime) {
    constexpr std::uint64_t kEvents = 200'000;
    std::thread producer([&] {
        Poster poster(*region_, 9);
        for (std::uint64_t i = 0; i < kEvents;) {
            if (poster.post(read_event(i))) i++;
        }
    });
    std::uint64_t next = 0;
    while (next < kEvents) {
        taken_.all.clear();
        drain();
        for (const auto& [event, text] : taken_.all) ASSERT_EQ(event.offset, next++);
    }
    producer.join();
    EXPECT_EQ(region_->stats.bad_events, 0u);
}

TEST_F(InboxTest, WhileTheSinkPausesEachRingHandsOverOne) {
    Poster first(*region_, 3), second(*region_, 4);
    for (std::uint64_t i = 0; i < 5; i++) {
        ASSERT_TRUE(first.post(read_event(i)));
        ASSERT_TRUE(second.post(read_event(100 + i)));
    }
    taken_.pausing = true;
    EXPECT_EQ(drain(), 2u);
    EXPECT_EQ(drain(), 2u);
    EXPECT_TRUE(inbox_.pending(true));
    taken_.pausing = false;
    EXPECT_EQ(drain(), 6u);
    EXPECT_FALSE(inbox_.pending(true));
}

// A process that has outlived the run's program posts while it is being drained.
TEST_F(InboxTest, TheLastDrainEndsThoughProgramsGoOnPosting) {
    struct PostsOn final : MessageSink {
        Poster& poster;
        Event event;
        unsigned taken = 0, most;
        PostsOn(Poster& by, const Event& what, unsigned bound) : poster(by), event(what), most(bound) {}
        void on_message(const Message&) override {
            if (++taken < most) poster.post(event);
        }
        void on_process(std::uint32_t) override {}
        bool pauses() const override { return true; }
    };
    Poster poster(*region_, 3), other(*region_, 4);
    for (std::uint64_t i = 0; i < 5; i++) {
        ASSERT_TRUE(poster.post(read_event(i)));
        ASSERT_TRUE(other.post(read_event(i)));
    }
    PostsOn sink(poster, read_event(100), 1000);
    inbox_.drain_rest(sink);
    // Five of each, of which the first ring's come before the second ring's are looked at.
    EXPECT_EQ(sink.taken, 10u);
    EXPECT_TRUE(inbox_.pending(true)) << "what was posted meanwhile";
    EXPECT_TRUE(other.taken());
}

TEST_F(InboxTest, WhatFindsNoRoomIsCounted) {
    Poster poster(*region_, 0);
    unsigned lost = 0;
    for (std::uint64_t i = 0; i < 5000; i++) lost += poster.post(read_event(i)) ? 0 : 1;
    inbox_.drain(taken_, 10'000, true);
    EXPECT_GT(lost, 3000u);
    EXPECT_EQ(taken_.all.size(), 5000u - lost);
    EXPECT_EQ(region_->stats.lost_events, lost);
}

TEST_F(InboxTest, WhatARingLosesWhenItIsEmptyIsCountedAsWell) {
    Poster poster(*region_, 0);
    ASSERT_TRUE(poster.post(read_event(1)));
    drain();
    poster.ring().lost += 5;  // one that is longer than the ring
    inbox_.reclaim();
    EXPECT_EQ(region_->stats.lost_events, 5u);
    inbox_.reclaim();
    EXPECT_EQ(region_->stats.lost_events, 5u);
}

TEST_F(InboxTest, NoRingKeepsTheOthersWaiting) {
    Poster first(*region_, 3), second(*region_, 4);
    for (std::uint64_t i = 0; i < 5; i++) {
        ASSERT_TRUE(first.post(read_event(i)));
        ASSERT_TRUE(second.post(read_event(100 + i)));
    }
    EXPECT_EQ(inbox_.drain(taken_, 3, true), 6u);
    EXPECT_EQ(taken_.all[3].first.offset, 100u);
    EXPECT_EQ(inbox_.drain(taken_, 3, true), 4u);
}

TEST_F(InboxTest, AProcessIsHeardOfOnceWhateverRingsItHas) {
    constexpr std::uint32_t kOther = 0x7ffffff0;
    Poster first(*region_, 3), second(*region_, 4);
    drain();
    EXPECT_EQ(taken_.processes.size(), 1u);
    EXPECT_EQ(region_->stats.processes, 1u);
    Poster other(*region_, 4, kOther, kOther);  // has taken the ring over meanwhile
    drain();
    EXPECT_EQ(taken_.processes, (std::vector<std::uint32_t>{static_cast<std::uint32_t>(getpid()), kOther}));
    EXPECT_EQ(region_->stats.processes, 2u);
}

// As children of fork that each read once.
TEST_F(InboxTest, ProcessesThatFollowEachOtherOnARingAreAllCounted) {
    constexpr std::uint32_t kOther = 0x7ffffff0;
    for (std::uint32_t i = 0; i < 3; i++) {
        Poster one(*region_, 4, kOther + i, kOther + i);
        ASSERT_TRUE(one.post(read_event(i)));
        ASSERT_TRUE(one.post(read_event(i)));
    }
    drain();
    EXPECT_EQ(region_->stats.processes, 3u);
    EXPECT_EQ(taken_.processes, std::vector{kOther + 2}) << "who may live";
    Poster elsewhere(*region_, 4, kOther, kOther);
    elsewhere.holder().pids = 1;
    Poster(*region_, 4, kOther + 5, kOther + 5).post(read_event(0));
    elsewhere.holder().process = kOther;
    drain();
    EXPECT_EQ(region_->stats.processes, 4u) << "numbers of another PID namespace say nothing";
}

struct Hostile {
    const char* name;
    void (*change)(Event&);
};

class HostileEvent : public InboxTest, public testing::WithParamInterface<Hostile> {};

TEST_P(HostileEvent, IsCountedAndTheRestOfItsRingThrownAway) {
    Poster good(*region_, 1), bad(*region_, 2);
    ASSERT_TRUE(bad.post(read_event(1)));
    Event event = read_event(2);
    std::vector<std::uint8_t> payload(64, 'x');
    const std::uint32_t at = bad.ring().tail;
    ASSERT_TRUE(bad.post(event, payload));
    std::memcpy(&event, bad.ring().data + at, sizeof event);
    GetParam().change(event);
    std::memcpy(bad.ring().data + at, &event, sizeof event);
    ASSERT_TRUE(bad.post(read_event(3)));
    ASSERT_TRUE(good.post(read_event(4)));
    drain();
    EXPECT_EQ(region_->stats.bad_events, 1u);
    std::vector<std::uint64_t> offsets;
    for (const auto& [taken, text] : taken_.all) offsets.push_back(taken.offset);
    EXPECT_EQ(offsets, (std::vector<std::uint64_t>{4, 1})) << "what came before it, and other rings";
    ASSERT_TRUE(bad.taken());
    ASSERT_TRUE(bad.post(read_event(5)));
    drain();
    EXPECT_EQ(taken_.all.back().first.offset, 5u) << "the ring goes on";
}

INSTANTIATE_TEST_SUITE_P(
    Inbox, HostileEvent,
    testing::Values(Hostile{"no_bytes", [](Event& e) { e.bytes = 0; }},
                    Hostile{"one_byte", [](Event& e) { e.bytes = 1; }}, Hostile{"odd", [](Event& e) { e.bytes = 43; }},
                    Hostile{"short", [](Event& e) { e.bytes = 32; }},
                    Hostile{"longer_than_what_is_there", [](Event& e) { e.bytes = 65528; }},
                    Hostile{"unknown_kind", [](Event& e) { e.kind = static_cast<EventKind>(200); }},
                    Hostile{"class_out_of_range", [](Event& e) { e.source = 2; }},
                    Hostile{"offset_out_of_range", [](Event& e) { e.offset = UINT64_MAX; }},
                    Hostile{"payload_longer_than_the_event",
                            [](Event& e) {
                                e.kind = EventKind::opened;
                                e.length = 65;
                            }},
                    Hostile{"endless_payload",
                            [](Event& e) {
                                e.kind = EventKind::opened;
                                e.length = UINT32_MAX;
                            }},
                    Hostile{"no_path",
                            [](Event& e) {
                                e.kind = EventKind::opened;
                                e.length = 0;
                            }},
                    Hostile{"socket_out_of_range",
                            [](Event& e) {
                                e.kind = EventKind::ready;
                                e.source = 1;
                                e.length = 8;
                            }},
                    Hostile{"probe_out_of_range",
                            [](Event& e) {
                                e.kind = EventKind::probe;
                                e.source = 32;
                                e.length = 8;
                            }}),
    [](const auto& info) { return std::string(info.param.name); });

// What stands behind the ring belongs to another one, or to nobody.
TEST_F(InboxTest, AnEventThatGoesOverTheEndOfItsRingIsNone) {
    Poster poster(*region_, 0);
    while (shim::kRingBytes - poster.ring().tail % shim::kRingBytes > 64) {
        ASSERT_TRUE(poster.post(read_event(1)));
        drain();
    }
    taken_.all.clear();
    const std::uint32_t at = poster.ring().tail % shim::kRingBytes;
    ASSERT_GE(shim::kRingBytes - at, sizeof(Event)) << "there is room for the head of one";
    Event event = read_event(2);
    event.bytes = static_cast<std::uint16_t>(shim::kRingBytes - at + 8);
    std::memcpy(poster.ring().data + at, &event, sizeof event);
    poster.ring().tail += event.bytes;
    drain();
    EXPECT_TRUE(taken_.all.empty());
    EXPECT_EQ(region_->stats.bad_events, 1u);
}

TEST_F(InboxTest, OfARingThatClaimsMoreThanItHoldsNothingIsTaken) {
    Poster poster(*region_, 0);
    ASSERT_TRUE(poster.post(read_event(1)));
    poster.ring().tail += shim::kRingBytes;
    EXPECT_EQ(drain(), 1u);
    EXPECT_TRUE(taken_.all.empty());
    EXPECT_EQ(region_->stats.bad_events, 1u);
    EXPECT_TRUE(poster.taken());
}

struct Bound {
    const char* name;
    EventKind kind;
    std::uint64_t offset;
    std::size_t length;  // of the text, or of the read
    std::uint32_t source = 0;
    void (*pass)(Event&);  // makes it one that goes past the bound
};

class EventAtABound : public InboxTest, public testing::WithParamInterface<Bound> {
  protected:
    void post(Event event) {
        Poster poster(*region_, 0);
        const bool has_text = event.kind != EventKind::read && event.kind != EventKind::closed;
        const std::vector<std::uint8_t> text(has_text ? event.length : 0, 'x');
        ASSERT_TRUE(poster.post(event, text));
        drain();
    }
};

TEST_P(EventAtABound, IsTakenAndOnePastItIsNot) {
    const Bound& bound = GetParam();
    Event event{};
    event.kind = bound.kind;
    event.offset = bound.offset;
    event.length = static_cast<std::uint32_t>(bound.length);
    event.source = static_cast<std::uint8_t>(bound.source);
    post(event);
    EXPECT_EQ(taken_.all.size(), 1u);
    EXPECT_EQ(region_->stats.bad_events, 0u);
    bound.pass(event);
    post(event);
    EXPECT_EQ(taken_.all.size(), 1u);
    EXPECT_EQ(region_->stats.bad_events, 1u);
}

constexpr auto kOneByteMore = [](Event& e) { e.length++; };
constexpr auto kNextSource = [](Event& e) { e.source++; };
constexpr auto kFurtherOn = [](Event& e) { e.offset++; };

INSTANTIATE_TEST_SUITE_P(
    Inbox, EventAtABound,
    testing::Values(Bound{"path", EventKind::opened, 0, shim::kMaxPath - 1, 1, kOneByteMore},
                    Bound{"passed_path", EventKind::passed, 0, shim::kMaxPath - 1, 1, kOneByteMore},
                    Bound{"passed_socket", EventKind::passed, 0, 8, 1, kNextSource},
                    Bound{"note", EventKind::note, 0, shim::kMaxPath - 1, 0, kOneByteMore},
                    Bound{"peek", EventKind::ready, 0, shim::kMaxPeek, 0, kOneByteMore},
                    Bound{"probe", EventKind::probe, 0, shim::kMaxProbeBytes, shim::kMaxProbes - 1, kOneByteMore},
                    Bound{"ran_longer", EventKind::ran, 0, sizeof(shim::Ran), 0, kOneByteMore},
                    Bound{"ran_shorter", EventKind::ran, 0, sizeof(shim::Ran), 0, [](Event& e) { e.length -= 8; }},
                    Bound{"ran_chain", EventKind::ran, 0, sizeof(shim::Ran), shim::kMaxChains - 1, kNextSource},
                    Bound{"ran_place", EventKind::ran, INT64_MAX, sizeof(shim::Ran), 0, kFurtherOn},
                    Bound{"read_end", EventKind::read, INT64_MAX - 100, 100, 1, kFurtherOn},
                    Bound{"closed_class", EventKind::closed, 0, 0, 1, kNextSource}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(InboxTest, GarbageRingsNeverDoHarm) {
    region_->used_rings[0] = 1 << 17;
    EXPECT_TRUE(rc::check([&](const std::vector<std::uint8_t>& bytes, std::uint32_t tail, std::uint32_t owner) {
        shim::Ring& ring = region_->rings[17];
        for (std::size_t i = 0; i < shim::kRingBytes; i++)
            ring.data[i] = bytes.empty() ? 0xff : bytes[i % bytes.size()];
        region_->holders[17].owner = owner;
        region_->holders[17].process = tail;
        ring.tail = tail;
        inbox_.drain(taken_, 100'000, true);
        RC_ASSERT(ring.head.load() == tail);
        RC_ASSERT(!inbox_.pending(true));
        for (const auto& [event, text] : taken_.all) RC_ASSERT(text.size() <= 65536u);
        taken_.all.clear();
    }));
    // Whatever it was before, a ring that is used as it should be works.
    region_->rings[17].tail = (region_->rings[17].tail.load() + 63) & ~63u;
    drain();
    Poster poster(*region_, 17);
    ASSERT_TRUE(poster.post(read_event(77)));
    taken_.all.clear();
    drain();
    ASSERT_EQ(taken_.all.size(), 1u);
    EXPECT_EQ(taken_.all[0].first.offset, 77u);
}

TEST_F(InboxTest, AProgramThatRewritesThePlanGainsNothing) {
    region_->plan.class_count = UINT32_MAX;
    Poster poster(*region_, 0);
    Event event = read_event(1);
    event.source = 63;
    ASSERT_TRUE(poster.post(event));
    drain();
    EXPECT_TRUE(taken_.all.empty());
    EXPECT_EQ(region_->stats.bad_events, 1u);
}

TEST_F(InboxTest, EventsOfAThreadThatHasEndedAlreadyAreTaken) {
    {
        Poster poster(*region_, 3);
        ASSERT_TRUE(poster.post(read_event(1)));
        poster.holder().owner = 0;
    }
    EXPECT_TRUE(inbox_.pending(true));
    EXPECT_EQ(drain(), 1u);
    EXPECT_EQ(taken_.all.size(), 1u);
    EXPECT_FALSE(inbox_.pending(true));
}

TEST_F(InboxTest, RingsOfDeadProcessesAreFreedAndThoseOfLivingOnesKept) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    Poster alive(*region_, 0);
    Poster dead(*region_, 1, static_cast<std::uint32_t>(child), static_cast<std::uint32_t>(child));
    ASSERT_TRUE(dead.post(read_event(1)));
    drain();
    ASSERT_EQ(inbox_.rings(), 2u);
    inbox_.reclaim();
    EXPECT_NE(dead.holder().owner, 0u) << "it has moved since the last look";
    inbox_.reclaim();
    EXPECT_EQ(dead.holder().owner, 0u);
    EXPECT_NE(alive.holder().owner, 0u);
    EXPECT_EQ(inbox_.rings(), 1u);
    EXPECT_EQ(taken_.all.size(), 1u) << "what it had posted was taken first";
    EXPECT_NE(region_->holders[1].process, 0u) << "it may be another's by now";
    // Its next owner goes on behind it.
    Poster next(*region_, 1);
    ASSERT_TRUE(next.post(read_event(2)));
    drain();
    EXPECT_EQ(taken_.all.size(), 2u);
    EXPECT_EQ(region_->stats.bad_events, 0u);
}

TEST_F(InboxTest, RingsOfAnotherPidNamespaceAreNotJudged) {
    constexpr std::uint32_t kNobody = 0x7ffffff0;
    Poster dead(*region_, 1, kNobody, kNobody), elsewhere(*region_, 2, kNobody, kNobody);
    Poster half(*region_, 3, 0, kNobody | shim::kTaking), half_elsewhere(*region_, 4, 0, kNobody | shim::kTaking);
    elsewhere.holder().pids = half_elsewhere.holder().pids = 1;
    drain();
    ASSERT_EQ(inbox_.rings(), 4u);
    for (int i = 0; i < 3; i++) inbox_.reclaim();
    EXPECT_EQ(dead.holder().owner, 0u);
    EXPECT_EQ(half.holder().owner, 0u) << "whoever was about to take it has ended";
    EXPECT_EQ(half_elsewhere.holder().owner, 0u) << "wherever that was";
    EXPECT_EQ(elsewhere.holder().owner, kNobody) << "there somebody may have that number";
}

// As where it was stopped amid that: it would write into a ring that another thread has by then.
TEST_F(InboxTest, ARingThatSomebodyIsAboutToTakeIsFreedOnceThatThreadHasEnded) {
    std::atomic<std::uint32_t> number{0};
    std::atomic<bool> ends{false};
    std::thread stopped([&] {
        number = static_cast<std::uint32_t>(gettid());
        number.notify_one();
        ends.wait(false);
    });
    number.wait(0);
    Poster half(*region_, 3, 0, number | shim::kTaking);
    drain();
    for (int i = 0; i < 3; i++) inbox_.reclaim();
    EXPECT_EQ(half.holder().owner, number | shim::kTaking);
    ends = true;
    ends.notify_one();
    stopped.join();
    EXPECT_TRUE(happens([&] {
        inbox_.reclaim();
        return half.holder().owner == 0;
    }));
}

// Nobody lives there who could take them over. Its number may come again, in a namespace that has the number of that
// one.
TEST_F(InboxTest, RingsOfPidNamespacesThatHaveEndedAreFreedOnceRingsAreFew) {
    constexpr std::uint32_t kNobody = 0x7ffffff0;
    std::vector<Poster> posters;
    for (unsigned i = 0; i < shim::kRings / 2; i++) {
        posters.emplace_back(*region_, i, kNobody, kNobody + i % 2);
        posters.back().holder().pids = 1;
    }
    const Poster here(*region_, shim::kRings / 2);
    drain();
    EXPECT_EQ(region_->stats.processes, 2u);
    for (int i = 0; i < 2; i++) inbox_.reclaim();
    EXPECT_TRUE(std::ranges::all_of(posters, [](Poster& poster) { return poster.holder().owner == 0; }));
    EXPECT_EQ(inbox_.rings(), 1u) << "that of who lives here";
    Poster again(*region_, 0, kNobody, kNobody);
    again.holder().image = 7;
    drain();
    EXPECT_EQ(region_->stats.processes, 3u) << "it is another one";
}

// Its number is another process's here, of which /proc tells other rings.
TEST_F(InboxTest, AProcessOfAnotherPidNamespaceIsCountedButNeitherWatchedNorServed) {
    const auto self = static_cast<std::uint32_t>(getpid());
    Poster elsewhere(*region_, 1, self, self), here(*region_, 2, self, self);
    elsewhere.holder().pids = 1;
    taken_.serving = true;
    drain();
    EXPECT_EQ(region_->stats.processes, 2u);
    EXPECT_EQ(taken_.processes, std::vector{self}) << "that of this one alone, though it came behind the other";
    EXPECT_EQ(region_->serves[1], 0u);
    EXPECT_EQ(region_->serves[2], self);
}

}  // namespace
}  // namespace chainio::shadow::test
