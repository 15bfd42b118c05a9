// Walks that nobody waits for any more.
#include <unistd.h>

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

}  // namespace
}  // namespace chainio::shadow::test
