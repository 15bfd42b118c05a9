// What becomes of an engine's memory, and of reads that find none of it free.
#include <gtest/gtest.h>

#include <string>

#include "runtime/engine/engine.h"
#include "runtime/engine/owners.h"
#include "tests/support/mappings.h"
#include "tests/unit/engine/fake_backend.h"
#include "tests/unit/engine/machine.h"

namespace chainio::engine::test {
namespace {

// An engine over a disk in memory, whose two files are open.
struct OverFake {
    explicit OverFake(FakeDisk of, const MachineOptions& machine_options = {}, const EngineOptions& options = {})
        : disk(std::move(of)), context{&disk, 1, {}} {
        auto made = Engine::create(spec::Loaded::from_artifact(machine(machine_options)), options, make_fake, &context);
        EXPECT_TRUE(made.has_value()) << made.error();
        engine = std::move(*made);
        for (std::uint32_t i = 0; i < 2; i++) {
            OpenedFile file;
            file.file_class = i;
            file.size = disk.files[i].size();
            args.push_back(Argument::file(*engine->add_file(file)));
        }
        args.push_back(Argument::scalar(0));
        args.push_back(Argument::of_bytes({}));
    }

    FakeDisk disk;
    FakeContext context;
    std::unique_ptr<Engine> engine;
    std::vector<Argument> args;
};

FakeDisk one_cell(unsigned enters_left = 0) {
    FakeDisk disk;
    disk.files = {std::vector<std::uint8_t>(64), std::vector<std::uint8_t>(64)};
    disk.files[0][0] = kReturnState;
    disk.enters_left = enters_left;
    return disk;
}

// As a thread that is not the ring's does, to which the kernel says nothing of them.
TEST(EngineFrames, MemoryThatReadsMayStillGoToStaysMapped) {
    const unsigned before = tests::mappings_of("chainio-umem");
    for (const bool can_wait : {true, false}) {
        OverFake over(one_cell(can_wait ? 0 : 1), {}, {.huge_pages = false});
        ASSERT_TRUE(over.engine->submit(0, over.args, 7).has_value());
        std::vector<Completion> out(1);
        EXPECT_EQ(over.engine->reap(out, 0).has_value(), can_wait);
        over.engine.reset();
        EXPECT_EQ(tests::mappings_of("chainio-umem"), before + (can_wait ? 0 : 1));
    }
}

// Who has them knows whether they come back, and may be who waits for the chain.
TEST(EngineFrames, AChainDoesNotWaitForFramesThatWereHandedOut) {
    OverFake over(one_cell(), {}, {.umem_bytes = kLeastMemory, .huge_pages = false});
    std::vector<umem::Frame> taken;
    for (umem::Frame frame; (frame = over.engine->take_frame(umem::kMaxFrame)) != umem::kNoFrame;)
        taken.push_back(frame);
    ASSERT_FALSE(taken.empty());
    std::vector<Completion> out(1);
    ASSERT_TRUE(over.engine->submit(0, over.args, 7).has_value());
    ASSERT_EQ(over.engine->reap(out, 0).value_or(9), 1u);
    EXPECT_EQ(out[0].outcome, static_cast<std::uint32_t>(CIO_NO_MEMORY));
    over.engine->memory().release(taken[0], kHandedOut);
    ASSERT_TRUE(over.engine->submit(0, over.args, 7).has_value());
    ASSERT_EQ(over.engine->reap(out, 1).value_or(9), 1u);
    EXPECT_EQ(out[0].outcome, static_cast<std::uint32_t>(CIO_OK));
    for (std::size_t i = 1; i < taken.size(); i++) over.engine->memory().release(taken[i], kHandedOut);
    EXPECT_EQ(over.engine->leaks(), std::vector<std::string>{});
}

// All frames but one, in which the smallest block finds room.
std::vector<umem::Frame> all_but_one(Engine& engine) {
    std::vector<umem::Frame> taken;
    const auto take_all = [&](std::uint32_t bytes) {
        for (umem::Frame frame; (frame = engine.take_frame(bytes)) != umem::kNoFrame;) taken.push_back(frame);
        engine.memory().release(taken.back(), kHandedOut);
        taken.pop_back();
    };
    take_all(umem::kMaxFrame);
    take_all(umem::kUnit);
    return taken;
}

// A read under way has the last frame. The other one is tried at each reap, in the cache too, and is one read.
TEST(EngineFrames, ReadsAreCountedAndNotHowOftenTheyAreTried) {
    FakeDisk disk = one_cell(1);
    disk.files[1].assign(128, 0);
    disk.files[1][0] = disk.files[1][64] = kReturnState;
    OverFake over(std::move(disk), {.cache_bytes = 4096, .cache_levels = 1},
                  {.umem_bytes = kLeastMemory, .huge_pages = false});
    const std::vector<umem::Frame> taken = all_but_one(*over.engine);
    for (const std::uint64_t start : {0, 64}) {
        over.args[2] = Argument::scalar(start);
        ASSERT_TRUE(over.engine->submit(1, over.args, start).has_value());
    }
    std::vector<Completion> out(2);
    for (int i = 0; i < 5; i++) EXPECT_FALSE(over.engine->reap(out, 0).has_value());
    EXPECT_EQ(over.engine->counters().frame_waits, 1u);
    over.disk.enters_left = 0;
    for (unsigned ended = 0; ended < 2;) {
        const auto count = over.engine->reap(out, 1);
        ASSERT_TRUE(count.has_value()) << count.error();
        for (unsigned i = 0; i < *count; i++) EXPECT_EQ(out[i].outcome, static_cast<std::uint32_t>(CIO_OK));
        ended += *count;
    }
    EXPECT_EQ(over.engine->counters().frame_waits, 1u);
    EXPECT_EQ(over.engine->counters().block_cache_misses, 2u);
    EXPECT_EQ(over.engine->counters().block_cache_hits, 0u);
    for (const umem::Frame frame : taken) over.engine->memory().release(frame, kHandedOut);
}

}  // namespace
}  // namespace chainio::engine::test
