// What nobody waits for any more.
#include <unistd.h>

#include <algorithm>

#include "tests/unit/shadow/asking.h"
#include "tests/unit/shadow/kernel.h"

namespace chainio::shadow::test {
namespace {

// As those of a program that has ended: nobody reads what their blocks would name.
TEST_F(Asking, WalksThatAreGivenUpGoNoFurther) {
    constexpr unsigned kWalks = 20;
    begin(64);
    ShadowFile& f = file("a.ptr", 64);
    for (unsigned i = 0; i < kWalks; i++) ASSERT_EQ(walks_->start(walk(f, i, "twice"), now_ns()), Walks::Started::yes);
    walks_->give_up();
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(walks_->outcomes()[CIO_CANCELLED], kWalks);
    EXPECT_EQ(stats().cached, 0u) << "what they are for was not in memory";
    EXPECT_EQ(pages_in_memory(f.path, 32, 32), 0u);
    ahead_->ask_walk(walk(f, 40));
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(in_memory(f, 40, 1)) << "others go on";
}

// What the device has still had ends then, and what is known of it has to be there.
TEST_F(Asking, WalksEndWithAReadUnderWay) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ASSERT_EQ(dup3(ends[0], f.fd, O_CLOEXEC), f.fd);
    ahead_->ask_walk(walk(f, 3));
    step();
    ASSERT_EQ(walks_->in_flight(), 1u);
    EXPECT_EQ(stats().fetches, 1u);
    for (const int end : ends) close(end);
    const RingReadsAre again(RingReads::again);
    walks_.reset();
    EXPECT_EQ(stats().fetches, 0u) << "it is counted when it is tried again";
    EXPECT_EQ(stats().fetched_bytes, 0u);
}

// The next one may find a descriptor.
TEST_F(Asking, AWalkThatCannotBeginIsNoneThatWasDone) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    constexpr std::uint64_t kThen = 1'000'000'000'000;
    {
        const FewDescriptors none(0);
        EXPECT_EQ(walks_->start(walk(f, 1), kThen), Walks::Started::refused);
    }
    EXPECT_EQ(walks_->start(walk(f, 1), kThen), Walks::Started::yes);
    EXPECT_EQ(walks_->start(walk(f, 1), kThen), Walks::Started::duplicate);
    ASSERT_TRUE(all_comes());
}

struct LastLook {
    std::uint64_t runs, opened, reads;
    bool is_told;
};

// Of a server whose program has ended before it has looked at anything.
LastLook last_look(std::uint64_t last_look_ns) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", std::string(kPage, 0));
    const auto server = server_of(kPointers, {.last_look_ns = last_look_ns});
    const tests::MappedRegion region(server->region_path());
    tests::Poster poster(*region.get(), 0);
    EXPECT_TRUE(poster.opened(0, path));
    for (int i = 0; i < 3; i++) EXPECT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(server->run([] { return true; }));
    const auto notes = server->report().notes;
    const std::string note =
        "chains were not shown an event that was left at the program's end (4 times): to show them all would have "
        "taken too long";
    const shim::Stats& stats = region->stats;
    return {stats.chains[0].events, stats.classes[0].opened, stats.classes[0].reads,
            std::ranges::find(notes, note) != notes.end()};
}

TEST(LastLook, WhatIsLeftIsShownToChainsForSomeTimeOnly) {
    const LastLook all = last_look(UINT64_MAX / 2), none = last_look(0);
    EXPECT_EQ(all.runs, 3u);
    EXPECT_FALSE(all.is_told);
    EXPECT_EQ(none.runs, 0u);
    EXPECT_TRUE(none.is_told);
    for (const LastLook& one : {all, none}) {
        EXPECT_EQ(one.opened, 1u);
        EXPECT_EQ(one.reads, 3u);
    }
}

}  // namespace
}  // namespace chainio::shadow::test
