// Thousands of random chains on a disk with faults: every chain ends once, as the reference executor ends it, and leaks
// nothing.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "compiler/ir/artifact.h"
#include "runtime/engine/engine.h"
#include "tests/support/properties.h"
#include "tests/support/reference.h"
#include "tests/support/soak.h"
#include "tests/unit/engine/fake_backend.h"
#include "tests/unit/engine/machine.h"

namespace chainio::engine::test {
namespace {

using Random = std::mt19937_64;

std::vector<std::uint8_t> random_file(Random& random, std::size_t cells) { return random_cells(random, cells); }

struct Case {
    MachineOptions machine;
    FakeDisk disk;
    EngineOptions engine;
    unsigned chains = 40;
};

Case random_case(Random& random) {
    Case c;
    c.machine.hops = 1 + random() % 60;
    c.machine.with_done = random() % 2 == 0;
    c.machine.result = static_cast<ir::ResultKind>(random() % 3);
    if (random() % 2 == 0) {
        c.machine.cache_levels = 1 + random() % 3;
        c.machine.cache_bytes = 512u << (random() % 8);
    }
    c.disk.files = {random_file(random, 1 + random() % 200), random_file(random, 1 + random() % 200)};
    c.disk.align = random() % 2 == 0 ? 1 : 512;
    c.disk.short_percent = random() % 2 * 20;
    c.disk.interrupt_percent = random() % 2 * 15;
    c.disk.cached_percent = random() % 2 * 60;
    c.disk.capacity = 1 + random() % 64;
    for (unsigned i = random() % 4; i-- > 0;) c.disk.bad.insert({random() % 2, random() % 200});
    c.engine.in_flight = 1 + random() % 32;
    c.engine.max_files = 2;
    c.engine.umem_bytes = random() % 2 == 0 ? 256 << 10 : 4 << 20;
    c.engine.huge_pages = false;
    // As where blocks are sent from their frames.
    if (c.engine.umem_bytes > (1 << 20) && random() % 2 == 0) c.engine.least_frame = 4096;
    return c;
}

// The reference sees the same disk: a direct read of a block fails when the widened range cannot be read.
tests::ReferenceRead reader_of(const FakeDisk& disk) {
    return [&disk](std::uint32_t file, std::uint64_t offset, std::span<std::uint8_t> out) -> std::int64_t {
        const std::uint64_t begin = offset / disk.align * disk.align;
        const std::uint64_t end = (offset + out.size() + disk.align - 1) / disk.align * disk.align;
        std::vector<std::uint8_t> wide(end - begin);
        const std::int64_t got = disk.read(file, begin, wide.data(), wide.size());
        if (got < 0) return got;
        const auto skip = static_cast<std::int64_t>(offset - begin);
        const std::int64_t usable = std::clamp<std::int64_t>(got - skip, 0, static_cast<std::int64_t>(out.size()));
        std::memcpy(out.data(), wide.data() + skip, static_cast<std::size_t>(usable));
        return usable;
    };
}

struct Asked {
    std::uint32_t chain;
    std::uint64_t start;
    std::vector<std::uint8_t> name;
    bool cancelled = false;
};

void same(const Completion& got, const tests::ReferenceResult& want) {
    RC_ASSERT(got.outcome == want.outcome);
    RC_ASSERT(got.kind == want.kind);
    RC_ASSERT(got.scalar == want.scalar);
    RC_ASSERT(std::vector<std::uint8_t>(got.bytes.begin(), got.bytes.end()) == want.bytes);
    RC_ASSERT(got.hops == want.hops);
}

struct Totals {
    std::map<std::uint32_t, std::uint64_t> outcomes;
    std::uint64_t chains = 0, cancelled = 0, continued = 0, retries = 0, cache_hits = 0, evictions = 0, frame_waits = 0;
    std::uint64_t reopened = 0;  // files of which reads were under way
};

FileHandle add_file(Engine& engine, const FakeDisk& disk, std::uint32_t number) {
    OpenedFile file;
    file.file_class = number;
    file.direct = disk.align != 1;
    file.offset_align = file.memory_align = disk.align;
    file.size = disk.files[number].size();
    const auto handle = engine.add_file(file);
    RC_ASSERT(handle.has_value());
    RC_ASSERT((*handle & 0xffff) == number);
    return *handle;
}

// There are no more places than files, so that each one waits for what is under way in its own.
void reopen(Engine& engine, const FakeDisk& disk, std::vector<FileHandle>& handles) {
    for (std::uint32_t i = 0; i < handles.size(); i++) {
        RC_ASSERT(engine.close_file(handles[i]).has_value());
        RC_ASSERT(engine.file(handles[i]) == nullptr);
        RC_ASSERT(!engine.close_file(handles[i]).has_value());
        handles[i] = add_file(engine, disk, i);
    }
}

void run_case(std::uint64_t seed, Totals& totals) {
    Random random(seed);
    Case c = random_case(random);
    const ir::Artifact artifact = machine(c.machine);
    RC_ASSERT(ir::validate(artifact.module) == "");
    FakeContext context{&c.disk, seed ^ 0x5bd1e995, {}};
    auto engine = Engine::create(spec::Loaded::from_artifact(artifact), c.engine, make_fake, &context);
    RC_ASSERT(engine.has_value());
    std::vector<FileHandle> handles;
    for (std::uint32_t i = 0; i < 2; i++) handles.push_back(add_file(**engine, c.disk, i));

    std::vector<Asked> asked;
    std::vector<unsigned> ends(c.chains, 0);
    std::vector<Completion> out(1 + random() % 40);
    std::size_t ended = 0;
    while (ended < c.chains) {
        while (asked.size() < c.chains && (*engine)->in_flight() < (*engine)->capacity() && random() % 8 != 0) {
            Asked ask{static_cast<std::uint32_t>(random() % 2), random() % 200 * 64, {}, false};
            if (random() % 30 == 0) ask.start = 7;
            ask.name.resize(random() % 17);
            for (auto& byte : ask.name) byte = static_cast<std::uint8_t>(random());
            const std::vector<Argument> args = {Argument::file(handles[0]), Argument::file(handles[1]),
                                                Argument::scalar(ask.start), Argument::of_bytes(ask.name)};
            RC_ASSERT((*engine)->submit(ask.chain, args, asked.size()).has_value());
            asked.push_back(std::move(ask));
        }
        if (!asked.empty() && random() % 8 == 0) {
            const std::size_t chosen = random() % asked.size();
            const unsigned cancelled = (*engine)->cancel(chosen);
            RC_ASSERT(cancelled <= (ends[chosen] == 0 && !asked[chosen].cancelled ? 1u : 0u));
            if (cancelled != 0) asked[chosen].cancelled = true;
        }
        if (random() % 16 == 0) {
            for (std::size_t i = 0; i < asked.size(); i++)
                if ((*engine)->cancel(i) != 0) asked[i].cancelled = true;
            totals.reopened += (*engine)->reads_under_way() != 0 ? 1 : 0;
            reopen(**engine, c.disk, handles);
        }
        auto count = (*engine)->reap(out, static_cast<unsigned>(random() % 4));
        RC_ASSERT(count.has_value());
        for (unsigned i = 0; i < *count; i++) {
            const Completion& completion = out[i];
            RC_ASSERT(completion.user_data < asked.size());
            RC_ASSERT(++ends[completion.user_data] == 1u);
            const Asked& ask = asked[completion.user_data];
            const std::vector<tests::ReferenceArgument> args = {
                {0, {}, 0}, {0, {}, 1}, {ask.start, {}, 0}, {0, ask.name, 0}};
            if (ask.cancelled) {
                RC_ASSERT(completion.outcome == CIO_CANCELLED);
                RC_ASSERT(completion.bytes.empty());
            } else {
                same(completion, tests::run_reference(artifact, ask.chain, args, {{}, {}}, reader_of(c.disk)));
            }
            totals.outcomes[completion.outcome]++;
            totals.chains++;
            ended++;
        }
    }
    RC_ASSERT((*engine)->in_flight() == 0u);
    // What is left on the device belongs to nobody any more; it must come back as well.
    for (int i = 0; i < 10000 && (*engine)->slab().accounting().in_use != 0 && !(*engine)->leaks().empty(); i++) {
        RC_ASSERT((*engine)->reap(out, 0).has_value());
    }
    RC_ASSERT((*engine)->leaks() == std::vector<std::string>{});
    RC_ASSERT((*engine)->slab().accounting().refused == 0u);
    RC_ASSERT(!context.removed_in_use);
    const auto& counters = (*engine)->counters();
    totals.cancelled += counters.cancelled_reads;
    totals.continued += counters.continued_reads;
    totals.retries += counters.retries;
    totals.cache_hits += counters.block_cache_hits;
    totals.evictions += counters.block_cache_evictions;
    totals.frame_waits += counters.frame_waits;
}

TEST(EngineModel, RandomChainsEndOnceAndAsTheReferenceDoes) {
    Totals totals;
    const bool ok = rc::check([&](std::uint64_t seed) { run_case(seed, totals); });
    EXPECT_TRUE(ok);
    const std::uint64_t cases = tests::soak_count(1000, 100'000);
    std::uint64_t seed = tests::soak_seed();
    const std::uint64_t end = seed + cases;
    const bool all = ok && rc::check([&] {
                         for (std::uint64_t i = 0; i < cases / 100 && seed < end; i++) run_case(seed++, totals);
                     });
    EXPECT_TRUE(all) << "CHAINIO_SEED=" << seed - 1;
    // The cases must have met what they are about, or they prove nothing.
    for (std::uint32_t outcome : {CIO_OK, CIO_MALFORMED, CIO_NOT_FOUND, CIO_SHORT_READ, CIO_IO_ERROR, CIO_HOP_LIMIT,
                                  CIO_CANCELLED, CIO_NO_RESULT, CIO_FANOUT, CIO_BAD_ARGUMENT, CIO_USER}) {
        EXPECT_GT(totals.outcomes[outcome], 0u) << "outcome " << outcome;
    }
    EXPECT_GT(totals.chains, 10000u);
    EXPECT_GT(totals.cancelled, 0u);
    EXPECT_GT(totals.reopened, 0u);
    EXPECT_GT(totals.continued, 0u);
    EXPECT_GT(totals.retries, 0u);
    EXPECT_GT(totals.cache_hits, 0u);
    EXPECT_GT(totals.evictions, 0u);
    EXPECT_GT(totals.frame_waits, 0u);
}

// The kernel refuses in the middle of a wait for both chains, of which one has ended.
TEST(EngineModel, WhatHasEndedIsHandedOverBeforeAnErrorIs) {
    FakeDisk disk;
    disk.files = {std::vector<std::uint8_t>(64), std::vector<std::uint8_t>(64)};
    disk.files[0][0] = kReturnState;
    bool met = false;
    for (std::uint64_t seed = 1; !met && seed < 100; seed++) {
        disk.enters_left = 2;
        FakeContext context{&disk, seed, {}};
        auto engine =
            Engine::create(spec::Loaded::from_artifact(machine({})), {.huge_pages = false}, make_fake, &context);
        ASSERT_TRUE(engine.has_value());
        std::vector<Argument> args;
        for (std::uint32_t i = 0; i < 2; i++) {
            OpenedFile file;
            file.file_class = i;
            file.size = 64;
            args.push_back(Argument::file(*(*engine)->add_file(file)));
        }
        args.push_back(Argument::scalar(0));
        args.push_back(Argument::of_bytes({}));
        for (int i = 0; i < 2; i++) ASSERT_TRUE((*engine)->submit(0, args, 7).has_value());
        std::vector<Completion> out(2);
        const auto count = (*engine)->reap(out, 2);
        if (count && *count == 2) continue;  // both came at once
        met = true;
        ASSERT_TRUE(count.has_value()) << count.error();
        EXPECT_EQ(*count, 1u);
        EXPECT_EQ(out[0].user_data, 7u);
        const auto next = (*engine)->reap(out, 1);
        ASSERT_FALSE(next.has_value());
        EXPECT_EQ(next.error(), "io_uring_enter: Cannot allocate memory");
    }
    EXPECT_TRUE(met);
}

// Bulk chains hold all frames and are interrupted together; an urgent one, first in every queue, waits for a frame.
void run_out_of_frames(std::uint64_t seed) {
    FakeDisk disk;
    disk.interrupt_percent = 50;
    disk.files = {std::vector<std::uint8_t>(1 << 16), std::vector<std::uint8_t>(1 << 16)};
    disk.files[0][0] = kReturnState;
    disk.files[1][0] = kCarryOn;
    disk.files[1][1] = 4;
    constexpr std::uint32_t kOffset = 64, kLength = 60000;
    for (std::size_t child = 0; child < 4; child++) {
        std::uint8_t* entry = disk.files[1].data() + 16 + child * 8;
        std::memcpy(entry, &kOffset, 4);
        std::memcpy(entry + 4, &kLength, 2);
        entry[6] = 2;
    }
    disk.files[1][kOffset] = kCarryOn;
    MachineOptions machine_options;
    EngineOptions options;
    options.umem_bytes = 256 << 10;
    options.huge_pages = false;
    FakeContext context{&disk, seed, {}};
    auto engine = Engine::create(spec::Loaded::from_artifact(machine(machine_options)), options, make_fake, &context);
    ASSERT_TRUE(engine.has_value());
    std::vector<Argument> args;
    for (std::uint32_t i = 0; i < 2; i++) {
        OpenedFile file;
        file.file_class = i;
        file.size = disk.files[i].size();
        auto handle = (*engine)->add_file(file);
        ASSERT_TRUE(handle.has_value());
        args.push_back(Argument::file(*handle));
    }
    args.push_back(Argument::scalar(0));
    args.push_back(Argument::of_bytes({}));
    std::vector<Completion> out(8);
    ASSERT_TRUE((*engine)->submit(1, args, 0).has_value());
    while ((*engine)->counters().frame_waits == 0 && (*engine)->in_flight() != 0) {
        if ((*engine)->in_flight() < 4) ASSERT_TRUE((*engine)->submit(0, args, 1).has_value());
        auto count = (*engine)->reap(out, 0);
        ASSERT_TRUE(count.has_value());
        for (unsigned i = 0; i < *count; i++) EXPECT_EQ(out[i].outcome, CIO_OK) << "chain " << out[i].user_data;
    }
    while ((*engine)->in_flight() != 0) {
        auto count = (*engine)->reap(out, 1);
        ASSERT_TRUE(count.has_value());
        for (unsigned i = 0; i < *count; i++) EXPECT_EQ(out[i].outcome, CIO_OK) << "chain " << out[i].user_data;
    }
    EXPECT_EQ((*engine)->leaks(), std::vector<std::string>{});
}

TEST(EngineModel, AnUrgentReadWaitsForTheFrameOfAnInterruptedOne) {
    for (std::uint64_t seed = 0; seed < 200; seed++) run_out_of_frames(seed);
}

}  // namespace
}  // namespace chainio::engine::test
