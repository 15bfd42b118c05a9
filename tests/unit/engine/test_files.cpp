// The engine over real files and the real ring: alignment, the page cache, files that change, the block cache,
// priorities.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include "runtime/engine/engine.h"
#include "runtime/engine/owners.h"
#include "tests/support/in_child.h"
#include "tests/support/reference.h"
#include "tests/support/soak.h"
#include "tests/unit/engine/fake_backend.h"
#include "tests/unit/engine/machine.h"

namespace chainio::engine::test {
namespace {

// Beside the test program: /tmp may be a tmpfs, which has no device to read from. It has no name there for longer than
// a moment, so that nothing of it is left whatever ends this process.
class DiskFile {
  public:
    explicit DiskFile(const std::vector<std::uint8_t>& bytes) {
        std::string made = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "chainio-engine-XXXXXX";
        fd_ = mkostemp(made.data(), O_CLOEXEC);
        EXPECT_EQ(unlink(made.c_str()), 0);
        EXPECT_EQ(write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
        path_ = "/proc/self/fd/" + std::to_string(fd_);
    }
    ~DiskFile() { close(fd_); }
    DiskFile(const DiskFile&) = delete;
    DiskFile& operator=(const DiskFile&) = delete;
    const std::string& path() const { return path_; }

  private:
    int fd_ = -1;
    std::string path_;
};

// A file whose cells lead from one to the next at odd offsets, and end with their sum.
std::vector<std::uint8_t> walk_file(std::size_t cells, Op end) {
    std::vector<std::uint8_t> bytes(cells * 77 + 64);
    for (std::size_t i = 0; i < cells; i++) {
        std::uint8_t* at = bytes.data() + i * 77;
        const auto next = static_cast<std::uint32_t>((i + 1) * 77);
        const std::uint16_t length = 64;
        at[0] = i + 1 == cells ? end : kCarryOn;
        at[1] = i + 1 == cells ? 0 : 1;
        at[8] = static_cast<std::uint8_t>(i);
        std::memcpy(at + 16, &next, 4);
        std::memcpy(at + 20, &length, 2);
    }
    return bytes;
}

ir::Artifact walk_machine(std::uint32_t hops = 1000, MachineOptions options = {}) {
    options.hops = hops;
    options.result = ir::ResultKind::scalar;
    return machine(options);
}

std::unique_ptr<Engine> engine_of(const ir::Artifact& artifact, EngineOptions options = {.in_flight = 16}) {
    auto engine = Engine::create(spec::Loaded::from_artifact(artifact), options);
    EXPECT_TRUE(engine) << engine.error();
    return std::move(*engine);
}

std::vector<Argument> args_of(FileHandle a, FileHandle b, std::uint64_t start) {
    return {Argument::file(a), Argument::file(b), Argument::scalar(start), Argument::of_bytes({})};
}

Completion run_one(Engine& engine, FileHandle a, FileHandle b, std::uint64_t start, std::uint32_t chain = 0) {
    EXPECT_TRUE(engine.submit(chain, args_of(a, b, start), 1));
    std::vector<Completion> out(1);
    EXPECT_EQ(engine.reap(out, 1).value_or(0), 1u);
    return out[0];
}

struct Way {
    const char* name;
    OpenMode mode;
    bool ring;
    unsigned in_flight;
};

class EveryWay : public testing::TestWithParam<Way> {};

TEST_P(EveryWay, GivesWhatTheReferenceGives) {
    const Way way = GetParam();
    const auto bytes = walk_file(60, kReturnSum);
    const DiskFile file(bytes);
    const ir::Artifact artifact = walk_machine();
    auto engine = engine_of(artifact, {.in_flight = way.in_flight, .use_ring = way.ring});
    auto a = engine->open_file(0, file.path(), way.mode);
    auto b = engine->open_file(1, file.path(), way.mode);
    ASSERT_TRUE(a && b);
    const int fd = open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    const tests::ReferenceRead read = [&](std::uint32_t, std::uint64_t offset, std::span<std::uint8_t> out) {
        return tests::reference_pread(fd, offset, out);
    };
    std::vector<Completion> out(way.in_flight);
    unsigned submitted = 0, ended = 0;
    while (ended < 300) {
        while (submitted < 300 && engine->in_flight() < way.in_flight) {
            ASSERT_TRUE(engine->submit(0, args_of(*a, *b, submitted % 60 * 77), submitted));
            submitted++;
        }
        auto count = engine->reap(out, 1);
        ASSERT_TRUE(count) << count.error();
        for (unsigned i = 0; i < *count; i++) {
            const auto want = tests::run_reference(
                artifact, 0, {{}, {0, {}, 1}, {out[i].user_data % 60 * 77, {}, 0}, {}}, {{}, {}}, read);
            EXPECT_EQ(out[i].outcome, want.outcome);
            EXPECT_EQ(out[i].scalar, want.scalar);
            EXPECT_EQ(out[i].hops, want.hops);
            ended++;
        }
    }
    close(fd);
    EXPECT_TRUE(engine->leaks().empty());
    const auto& counters = engine->counters();
    EXPECT_GT(counters.ring_reads + counters.plain_reads + counters.page_cache_reads, 0u);
    if (way.in_flight == 1) {
        EXPECT_EQ(counters.ring_reads, 0u) << "a chain that is alone is read by pread";
    }
    if (way.in_flight > 1 && way.mode == OpenMode::buffered && way.ring &&
        engine->fallbacks().count("no-nowait") == 0) {
        EXPECT_GT(counters.page_cache_reads, 0u) << "what was just written is in the page cache";
    }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, EveryWay,
    testing::Values(Way{"buffered", OpenMode::buffered, true, 16}, Way{"direct", OpenMode::direct, true, 16},
                    Way{"alone", OpenMode::buffered, true, 1}, Way{"direct_alone", OpenMode::direct, true, 1},
                    Way{"plain", OpenMode::buffered, false, 16}, Way{"plain_direct", OpenMode::direct, false, 16}),
    [](const auto& info) { return std::string(info.param.name); });

// As two editions of a daemon do it: the ring's owner takes the turns, and each engine finds what is its own.
TEST(EngineFiles, TwoEnginesReadOverOneRing) {
    metrics::Fallbacks fallbacks;
    auto ring = ring::Shared::create({.entries = 8, .cq_entries = 16, .seats = 2, .file_slots = 64}, fallbacks);
    if (!ring) GTEST_SKIP() << ring.error();
    const DiskFile files[] = {DiskFile(walk_file(60, kReturnSum)), DiskFile(walk_file(45, kReturnSum))};
    std::vector<std::unique_ptr<Engine>> engines;
    std::vector<std::pair<FileHandle, FileHandle>> handles;
    for (const DiskFile& file : files) {
        engines.push_back(engine_of(walk_machine(), {.in_flight = 16, .ring = ring->get()}));
        ASSERT_TRUE(engines.back()->by_turns());
        EXPECT_EQ(engines.back()->poll_fd(), -1);
        const auto handle = engines.back()->open_file(0, file.path(), OpenMode::direct);
        const auto other = engines.back()->open_file(1, file.path(), OpenMode::direct);
        ASSERT_TRUE(handle && other);
        handles.emplace_back(*handle, *other);
        for (unsigned i = 0; i < 16; i++) ASSERT_TRUE(engines.back()->submit(0, args_of(*handle, *other, 0), i));
    }
    std::vector<Completion> out(16);
    unsigned ended[] = {0, 0};
    std::uint64_t sums[] = {0, 0};
    while (ended[0] + ended[1] < 32) {
        for (int i = 0; i < 2; i++) {
            const auto count = engines[i]->reap(out, 0);
            ASSERT_TRUE(count) << count.error();
            for (unsigned j = 0; j < *count; j++) sums[i] += out[j].scalar;
            ended[i] += *count;
        }
        ASSERT_EQ((*ring)->turn(engines[0]->in_flight() + engines[1]->in_flight() == 0 ? 0 : 1), 0);
    }
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(sums[i], 16 * run_one(*engines[i], handles[i].first, handles[i].second, 0).scalar);
    EXPECT_NE(sums[0], sums[1]);
    for (const auto& engine : engines) {
        EXPECT_TRUE(engine->leaks().empty());
        EXPECT_GT(engine->counters().ring_reads, 0u);
    }
    // A third one has no seat left, and looks for a ring of its own.
    EXPECT_FALSE(engine_of(walk_machine(), {.in_flight = 16, .ring = ring->get()})->by_turns());
}

// Who takes turns with others leaves off amid a chain that needs no device, as of a client that has gone by then.
TEST(EngineFiles, AChainWhoseNextBlockIsThereCanBeCancelled) {
    metrics::Fallbacks fallbacks;
    auto ring = ring::Shared::create({.entries = 8, .cq_entries = 16, .seats = 1, .file_slots = 64}, fallbacks);
    if (!ring) GTEST_SKIP() << ring.error();
    const DiskFile file(walk_file(400, kReturnSum));
    auto engine = engine_of(walk_machine(), {.in_flight = 4, .ring = ring->get()});
    auto a = engine->open_file(0, file.path(), OpenMode::buffered),
         b = engine->open_file(1, file.path(), OpenMode::buffered);
    ASSERT_TRUE(a && b && engine->by_turns());
    for (const std::uint64_t number : {1, 2}) ASSERT_TRUE(engine->submit(0, args_of(*a, *b, 0), number));
    std::vector<Completion> out(2);
    ASSERT_EQ(engine->reap(out, 0).value_or(9), 0u);
    if (engine->fallbacks().count("no-nowait") != 0) GTEST_SKIP() << "reads from the page cache take the device's way";
    ASSERT_TRUE(engine->has_ready());
    EXPECT_EQ(engine->cancel(1), 1u);
    std::uint32_t outcomes[3] = {9999, 9999, 9999};
    for (unsigned ended = 0; ended < 2;) {
        const auto count = engine->reap(out, 0);
        ASSERT_TRUE(count) << count.error();
        for (unsigned i = 0; i < *count; i++) outcomes[out[i].user_data] = out[i].outcome;
        ended += *count;
        ASSERT_EQ((*ring)->turn(engine->reads_under_way() == 0 ? 0 : 1), 0);
    }
    EXPECT_EQ(outcomes[1], static_cast<std::uint32_t>(CIO_CANCELLED));
    EXPECT_EQ(outcomes[2], static_cast<std::uint32_t>(CIO_OK));
    EXPECT_TRUE(engine->leaks().empty());
}

TEST(EngineFiles, CyclesEndAtTheHopLimit) {
    auto bytes = walk_file(3, kCarryOn);
    bytes[2 * 77 + 1] = 1;  // the last cell leads back to the first
    std::memset(bytes.data() + 2 * 77 + 16, 0, 4);
    const DiskFile file(bytes);
    auto engine = engine_of(walk_machine(100));
    auto a = engine->open_file(0, file.path()), b = engine->open_file(1, file.path());
    ASSERT_TRUE(a && b);
    const Completion end = run_one(*engine, *a, *b, 0);
    EXPECT_EQ(end.outcome, static_cast<std::uint32_t>(CIO_HOP_LIMIT));
    EXPECT_EQ(end.hops, 100u);
}

TEST(EngineFiles, AFileThatIsTruncatedMeanwhileEndsWithShortRead) {
    for (const OpenMode mode : {OpenMode::buffered, OpenMode::direct}) {
        const DiskFile file(walk_file(60, kReturnSum));
        auto engine = engine_of(walk_machine());
        auto a = engine->open_file(0, file.path(), mode), b = engine->open_file(1, file.path(), mode);
        ASSERT_TRUE(a && b);
        EXPECT_EQ(run_one(*engine, *a, *b, 0).outcome, static_cast<std::uint32_t>(CIO_OK));
        ASSERT_EQ(truncate(file.path().c_str(), 30 * 77 + 10), 0);
        EXPECT_EQ(run_one(*engine, *a, *b, 0).outcome, static_cast<std::uint32_t>(CIO_SHORT_READ));
        EXPECT_EQ(run_one(*engine, *a, *b, 59 * 77).outcome, static_cast<std::uint32_t>(CIO_SHORT_READ));
        EXPECT_TRUE(engine->leaks().empty());
    }
}

TEST(EngineFiles, RefusesFilesByNameAndReason) {
    auto engine = engine_of(walk_machine(), {.in_flight = 2, .max_files = 2});
    auto missing = engine->open_file(0, "/nonexistent/x");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().message, "file '/nonexistent/x' for class 'plain': No such file or directory");
    EXPECT_TRUE(missing.error().system);
    auto directory = engine->open_file(0, "/");
    ASSERT_FALSE(directory);
    EXPECT_NE(directory.error().message.find("it is a directory"), std::string::npos);
    const std::string fifo = testing::TempDir() + "chainio-fifo-" + std::to_string(getpid());
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    EXPECT_FALSE(engine->open_file(0, fifo));
    unlink(fifo.c_str());
    const DiskFile file({1, 2, 3});
    auto first = engine->open_file(0, file.path()), second = engine->open_file(0, file.path());
    ASSERT_TRUE(first && second);
    auto third = engine->open_file(0, file.path());
    ASSERT_FALSE(third);
    EXPECT_NE(third.error().message.find("all 2 file slots are in use"), std::string::npos);
    EXPECT_TRUE(engine->close_file(*second));
    EXPECT_FALSE(engine->close_file(*second)) << "a handle is good once";
    EXPECT_TRUE(engine->open_file(0, file.path()));
}

// A new kernel is not to blame, and no newer one would help.
TEST(EngineFiles, SaysWhoDoesNotTellTheAlignment) {
    auto engine = engine_of(walk_machine(), {.in_flight = 1});
    const int fd = memfd_create("on tmpfs, which does not", MFD_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_TRUE(engine->open_file(0, "/proc/self/fd/" + std::to_string(fd), OpenMode::direct));
    close(fd);
    EXPECT_EQ(engine->fallbacks().count("direct-alignment"), 1u);
    EXPECT_EQ(engine->fallbacks().all().front().reason,
              "the file system, or a kernel before Linux 6.1, does not tell the alignment of O_DIRECT (statx); 4096 is "
              "used");
}

TEST(EngineFiles, ArgumentsThatDoNotFitAreRefusedByName) {
    auto engine = engine_of(walk_machine(), {.in_flight = 1});
    const DiskFile file(walk_file(2, kReturnSum));
    auto a = engine->open_file(0, file.path()), b = engine->open_file(1, file.path());
    ASSERT_TRUE(a && b);
    const auto message = [&](std::vector<Argument> args) {
        auto submitted = engine->submit(0, args, 0);
        return submitted ? std::string("accepted") : submitted.error().message;
    };
    auto args = args_of(*a, *b, std::uint64_t{1} << 40);
    EXPECT_EQ(message(args), "argument 'start' of chain 'first': the value does not fit u40");
    args = args_of(*a, *b, 0);
    args.pop_back();
    EXPECT_EQ(message(args), "chain 'first' takes 4 arguments, not 3");
    args = args_of(*b, *a, 0);
    EXPECT_NE(message(args).find("was opened for class 'kept', not 'plain'"), std::string::npos);
    args = args_of(*a, *b, 0);
    const std::vector<std::uint8_t> longer(17);
    args[3] = Argument::of_bytes(longer);
    EXPECT_EQ(message(args), "argument 'name' of chain 'first': 17 bytes are more than its 16");
    EXPECT_EQ(message(args_of(*a, *b, 0)), "accepted");
    auto full = engine->submit(0, args_of(*a, *b, 0), 0);
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().kind, SubmitError::Kind::full);
    auto closed = engine->close_file(*a);
    ASSERT_FALSE(closed);
    EXPECT_NE(closed.error().find("is in use by 1 chains"), std::string::npos);
}

// What another chain of the spec may be given is of no use to this one, whose program goes by its own limits.
TEST(EngineFiles, ArgumentsAreMeasuredByTheirOwnChain) {
    auto artifact = walk_machine();
    artifact.module.chains[0].params[2].is_signed = true;
    artifact.module.chains[1].params[3].max = 32;
    artifact.layout = ir::layout_of(artifact.module);
    auto engine = engine_of(std::move(artifact), {.in_flight = 8});
    const DiskFile file(walk_file(2, kReturnSum));
    auto a = engine->open_file(0, file.path()), b = engine->open_file(1, file.path());
    ASSERT_TRUE(a && b);
    const std::vector<std::uint8_t> longer(17);
    const auto message = [&](std::uint32_t chain, std::int64_t start, bool is_long) {
        auto args = args_of(*a, *b, static_cast<std::uint64_t>(start));
        if (is_long) args[3] = Argument::of_bytes(longer);
        auto submitted = engine->submit(chain, args, 0);
        return submitted ? std::string("accepted") : submitted.error().message;
    };
    EXPECT_EQ(message(0, 0, true), "argument 'name' of chain 'first': 17 bytes are more than its 16");
    EXPECT_EQ(message(1, 0, true), "accepted");
    constexpr std::int64_t kLeast = -(std::int64_t{1} << 39);
    EXPECT_EQ(message(0, kLeast, false), "accepted");
    EXPECT_EQ(message(0, -kLeast - 1, false), "accepted");
    for (const std::int64_t start : {kLeast - 1, -kLeast})
        EXPECT_EQ(message(0, start, false), "argument 'start' of chain 'first': the value does not fit i40");
    EXPECT_EQ(message(1, -1, false), "argument 'start' of chain 'second': the value does not fit u40");
}

TEST(EngineFiles, TheBlockCacheKeepsUpperLevelsAndStaysWithinItsSize) {
    MachineOptions options;
    options.cache_bytes = 4096;
    options.cache_levels = 3;
    const DiskFile file(walk_file(60, kReturnSum));
    auto engine = engine_of(walk_machine(1000, options), {.in_flight = 4});
    auto a = engine->open_file(0, file.path()), b = engine->open_file(1, file.path());
    ASSERT_TRUE(a && b);
    // Chain 1 begins in file b, which is kept; its further reads are in file a.
    for (int turn = 0; turn < 10; turn++)
        EXPECT_EQ(run_one(*engine, *a, *b, 0, 1).outcome, static_cast<std::uint32_t>(CIO_OK));
    EXPECT_EQ(engine->counters().block_cache_misses, 1u);
    EXPECT_EQ(engine->counters().block_cache_hits, 9u);
    for (std::uint64_t i = 0; i < 40; i++) run_one(*engine, *a, *b, i * 77, 1);
    EXPECT_GT(engine->counters().block_cache_evictions, 20u);
    EXPECT_TRUE(engine->leaks().empty());
    EXPECT_LE(engine->slab().accounting().in_use_bytes, 4096u);
}

// Results lie in blocks that the cache has as well: once they are given back, nobody holds either.
TEST(EngineFiles, AFileThatIsClosedLeavesNoBlockBehind) {
    MachineOptions options;
    options.cache_bytes = 65536;
    options.cache_levels = 3;
    options.result = ir::ResultKind::slice;
    const DiskFile file(walk_file(4, kReturnSlice));
    auto engine = engine_of(machine(options), {.in_flight = 4});
    auto a = engine->open_file(0, file.path()), b = engine->open_file(1, file.path());
    ASSERT_TRUE(a && b);
    const std::uint64_t last = std::uint64_t{3} * 77;
    for (std::uint64_t i = 0; i < 4; i++) ASSERT_TRUE(engine->submit(1, args_of(*a, *b, last), i));
    std::vector<Completion> out(4);
    for (unsigned ended = 0; ended < 4;) ended += engine->reap(out, 4 - ended).value_or(4);
    for (int turn = 0; turn < 10; turn++) EXPECT_EQ(run_one(*engine, *a, *b, last, 1).bytes.size(), 12u);
    EXPECT_EQ(engine->counters().block_cache_hits, 10u);
    EXPECT_EQ(engine->reap({}, 0).value_or(1), 0u);
    EXPECT_EQ(engine->slab().accounting().in_use, 1u) << "of those that are read at the same time one is kept";
    for (const FileHandle each : {*a, *b}) {
        const auto closed = engine->close_file(each);
        EXPECT_TRUE(closed) << closed.error();
    }
    EXPECT_EQ(engine->slab().accounting().in_use_bytes, 0u);
}

// Of a block that is read several times at once the cache takes one; the others are kept where their frames can be
// sent.
TEST(EngineFiles, WhatACacheHasTwiceIsKeptInNoFrameThatIsTooSmall) {
    MachineOptions options;
    options.cache_bytes = 65536;
    options.cache_levels = 3;
    options.result = ir::ResultKind::slice;
    const DiskFile file(walk_file(4, kReturnSlice));
    for (const std::uint32_t least : {umem::kUnit, 4096u}) {
        auto engine = engine_of(machine(options), {.in_flight = 4, .least_frame = least});
        auto a = engine->open_file(0, file.path()), b = engine->open_file(1, file.path());
        ASSERT_TRUE(a && b);
        for (std::uint64_t i = 0; i < 4; i++) ASSERT_TRUE(engine->submit(1, args_of(*a, *b, std::uint64_t{3} * 77), i));
        std::vector<Completion> out(4);
        unsigned kept = 0;
        for (unsigned ended = 0; ended < 4;) {
            const unsigned count = engine->reap(out, 4 - ended).value_or(0);
            ASSERT_NE(count, 0u);
            ended += count;
            for (unsigned i = 0; i < count; i++) {
                EXPECT_EQ(out[i].bytes.size(), 12u);
                const auto stretch = engine->keep(out[i]);
                if (!stretch) continue;
                kept++;
                EXPECT_GE(engine->memory().frame_bytes(stretch->frame), least);
                EXPECT_TRUE(engine->memory().release(stretch->frame, kHandedOut));
            }
        }
        EXPECT_EQ(kept, least == umem::kUnit ? 3u : 0u);
        EXPECT_EQ(engine->reap({}, 0).value_or(1), 0u);
        EXPECT_TRUE(engine->leaks().empty());
    }
}

TEST(EngineFiles, BlocksOnTheWayAreKeptForAWhileAndThoseAtTheEndAreNot) {
    const DiskFile file(walk_file(60, kReturnSum));
    for (const bool long_enough : {true, false}) {
        auto engine =
            engine_of(walk_machine(),
                      {.in_flight = 4, .passed_ns = long_enough ? std::uint64_t{1} << 60 : 1, .passed_bytes = 65536});
        auto a = engine->open_file(0, file.path()), b = engine->open_file(1, file.path());
        ASSERT_TRUE(a && b);
        // Two blocks on the way, and the last.
        for (int turn = 0; turn < 10; turn++)
            EXPECT_EQ(run_one(*engine, *a, *b, std::uint64_t{57} * 77).outcome, static_cast<std::uint32_t>(CIO_OK));
        EXPECT_EQ(engine->counters().block_cache_hits, long_enough ? 18u : 0u);
        EXPECT_EQ(engine->counters().block_cache_misses, long_enough ? 12u : 30u);
        EXPECT_TRUE(engine->leaks().empty());
        EXPECT_LE(engine->slab().accounting().in_use_bytes, 4096u);
    }
}

TEST(EngineFiles, UrgentChainsAreReadFirst) {
    FakeDisk disk;
    disk.files = {walk_file(60, kReturnSum), walk_file(60, kReturnSum)};
    FakeContext context{&disk, 1, {}};
    auto engine = Engine::create(spec::Loaded::from_artifact(walk_machine()), {.in_flight = 8, .huge_pages = false},
                                 make_fake, &context);
    ASSERT_TRUE(engine);
    FileHandle handles[2];
    for (std::uint32_t i = 0; i < 2; i++) {
        OpenedFile file;
        file.file_class = i;
        handles[i] = *(*engine)->add_file(file);
    }
    // Chain 1 is in the class with priority 7, chain 0 in that with 0; submitted last, it goes first.
    for (std::uint64_t i = 0; i < 3; i++)
        ASSERT_TRUE((*engine)->submit(1, args_of(handles[0], handles[1], (50 + i) * 77), i));
    for (std::uint64_t i = 0; i < 3; i++)
        ASSERT_TRUE((*engine)->submit(0, args_of(handles[0], handles[1], (40 + i) * 77), i));
    std::vector<Completion> out(8);
    while ((*engine)->in_flight() > 0) ASSERT_TRUE((*engine)->reap(out, 1));
    ASSERT_GE(context.order.size(), 6u);
    for (unsigned i = 0; i < 3; i++) EXPECT_EQ(context.order[i], (40u + i) * 77);
    for (unsigned i = 3; i < 6; i++) EXPECT_EQ(context.order[i], (50u + i - 3) * 77);
}

TEST(EngineFiles, WithoutMemoryForAnyBlockAChainEndsWithNoMemory) {
    // The slab has room, but not for a frame as large as the file's alignment asks for.
    FakeDisk disk;
    disk.files = {walk_file(4, kReturnSum), walk_file(4, kReturnSum)};
    FakeContext context{&disk, 1, {}};
    auto engine = Engine::create(spec::Loaded::from_artifact(walk_machine()), {.in_flight = 2, .huge_pages = false},
                                 make_fake, &context);
    ASSERT_TRUE(engine);
    OpenedFile file;
    file.memory_align = 1u << 20;
    const FileHandle a = *(*engine)->add_file(file);
    file.file_class = 1;
    const FileHandle b = *(*engine)->add_file(file);
    EXPECT_EQ(run_one(**engine, a, b, 0).outcome, static_cast<std::uint32_t>(CIO_NO_MEMORY));
    EXPECT_EQ(run_one(**engine, a, b, 0).outcome, static_cast<std::uint32_t>(CIO_NO_MEMORY));
}

TEST(EngineFiles, WithoutPrivilegesMoreMemoryIsUsedThanMayBeRegistered) {
    const DiskFile file(walk_file(60, kReturnSum));
    chmod(file.path().c_str(), 0644);
    const int code = tests::in_child([&] {
        const rlimit limit{512 << 10, 512 << 10};
        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 77;
        const int here = open(file.path().c_str(), O_RDONLY);
        if (geteuid() == 0 && setuid(65534) != 0) return 77;
        auto engine =
            Engine::create(spec::Loaded::from_artifact(walk_machine()), {.in_flight = 64, .umem_bytes = 4 << 20});
        if (!engine) return 1;
        const std::string path = "/proc/self/fd/" + std::to_string(here);
        auto a = (*engine)->open_file(0, path), b = (*engine)->open_file(1, path);
        if (!a || !b) return 77;
        if ((*engine)->fallbacks().count("no-ring") != 0) return 77;
        if ((*engine)->fallbacks().count("unregistered-buffers") != 1) return 2;
        std::vector<Completion> out(64);
        for (std::uint64_t i = 0; i < 64; i++) {
            if (!(*engine)->submit(0, args_of(*a, *b, 0), i)) return 3;
        }
        for (unsigned ended = 0; ended < 64;) {
            auto count = (*engine)->reap(out, 1);
            if (!count) return 4;
            for (unsigned i = 0; i < *count; i++) {
                if (out[i].outcome != CIO_OK) return 5;
            }
            ended += *count;
        }
        return (*engine)->leaks().empty() ? 0 : 6;
    });
    if (code == 77) GTEST_SKIP() << "this process cannot give up its privileges, or has no io_uring";
    EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace chainio::engine::test
