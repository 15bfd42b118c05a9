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

}  // namespace
}  // namespace chainio::engine::test
