// The serialised form: equal after a round trip, and nothing damaged is accepted.
#include <random>

#include "compiler/ir/hash.h"
#include "tests/unit/ir/ir_fixture.h"

namespace chainio::ir::test {
namespace {

Artifact rich_artifact() {
    Module m = module_with_step(step([](Builder& b) {
        b.line = {0, 12};
        Operand key = b.arg(0);
        b.check_range(Space::block, imm(0), imm(64), CIO_MALFORMED);
        auto [v, n] = b.varint(VarintKind::sqlite, Space::block, key, imm(64), CIO_MALFORMED);
        b.if_(
            b.binary(BinOp::ult, v, key), [&] { b.add(Fail{CIO_USER}); },
            [&] { b.add(EmitBytes{block_slice(1, 2), 8, 64}); });
        b.loop(n, 9, CIO_OVERFLOW, [&](Operand i) {
            b.add(Next{0, 0, i, imm(512), b.hash(HashAlgo::xxh64, block_slice(0, 4), imm(1), 4)});
        });
        b.add(CopyToState{imm(8), {Space::literal, imm(1), imm(3)}, 16});
        b.add(End{});
    }));
    m.classes = {{"meta", 0, 3, {{99000, 150000}}}};
    m.chains[0].priority_class = 0;
    m.chains[0].initial_state.assign(64, 7);
    m.sockets = {{"peers", true, 9234}};
    m.probes = {{"part_open", "usdt", "a:b", {{"path", 64, false, true, 256}}}};
    m.services = {{"kv",
                   {{false, 9100, "xdp"}},
                   0,
                   {65536, 1000000000, {0, 1}, {1, 256}},
                   {8, "\n"},
                   {8, "\r\n"},
                   -1,
                   -1,
                   -1,
                   -1,
                   -1}};
    Artifact a = artifact_of(m);
    a.bounds[1] = {1234, 256};
    return a;
}

TEST(Serialize, ARoundTripChangesNothing) {
    Artifact a = rich_artifact();
    auto bytes = serialize(a);
    auto back = deserialize(bytes);
    ASSERT_TRUE(back) << back.error();
    EXPECT_EQ(serialize(*back), bytes);
    EXPECT_EQ(dump(back->module), dump(a.module));
    EXPECT_EQ(back->bounds[1].instructions, 1234u);
    EXPECT_EQ(back->module.chains[0].initial_state[63], 7);
    EXPECT_EQ(back->module.services[0].cache.ttl_ns, 1000000000u);
    EXPECT_EQ(back->module.services[0].cache.compared, (std::vector<std::uint8_t>{0, 1}));
    EXPECT_EQ(back->module.services[0].cache.head, (std::vector<std::uint16_t>{1, 256}));
}

TEST(Serialize, WhatIsTooLongIsNotCalledDamaged) {
    Artifact a = rich_artifact();
    a.module.app.assign(kMaxSpecBytes, 'x');
    const auto bytes = serialize(a);
    const auto back = deserialize(bytes);
    ASSERT_FALSE(back);
    EXPECT_EQ(back.error(), "the specification has " + std::to_string(bytes.size()) +
                                " bytes; at most 16777216 are read; split the spec into several artifacts");
}

TEST(Serialize, EveryTruncationAndEveryFlippedByteIsRefused) {
    auto bytes = serialize(rich_artifact());
    for (std::size_t n = 0; n < bytes.size(); n++) EXPECT_FALSE(deserialize(std::span(bytes).first(n))) << n;
    for (std::size_t i = 0; i < bytes.size(); i++) {
        auto damaged = bytes;
        damaged[i] ^= 0x10;
        EXPECT_FALSE(deserialize(damaged)) << i;
    }
    bytes.push_back(0);
    EXPECT_FALSE(deserialize(bytes));
}

// With a right checksum the contents decide: whatever is accepted must be valid, and run without leaving its memory.
TEST(Serialize, DamageUnderAValidChecksumIsHarmless) {
    auto bytes = serialize(rich_artifact());
    std::mt19937_64 random(42);
    std::size_t accepted = 0;
    for (int round = 0; round < 20000; round++) {
        auto damaged = bytes;
        for (int k = 0; k < 1 + round % 3; k++)
            damaged[24 + random() % (damaged.size() - 24)] = static_cast<std::uint8_t>(random());
        std::uint32_t crc = crc32c(std::span(damaged).subspan(24));
        std::memcpy(damaged.data() + 16, &crc, 4);
        auto artifact = deserialize(damaged);
        if (!artifact) continue;
        accepted++;
        EXPECT_EQ(validate(artifact->module), "");
        if (artifact->module.programs.size() < 2) continue;
        Ran ran = run(*artifact, std::vector<std::uint8_t>(100, static_cast<std::uint8_t>(random())));
        EXPECT_FALSE(ran.trace.out_of_range);
    }
    EXPECT_GT(accepted, 100u) << "the damage never reached the contents";
}

}  // namespace
}  // namespace chainio::ir::test
