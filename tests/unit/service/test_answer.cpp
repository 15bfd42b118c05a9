// A reply in frames: what is written and what is referred to, cut into datagrams, and every frame given back.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "runtime/engine/owners.h"
#include "runtime/service/answer.h"
#include "tests/unit/service/nothing.h"

namespace chainio::service {
namespace {

constexpr std::size_t kLongest = kMostDatagrams * 1400;

std::vector<std::uint8_t> random_bytes(std::mt19937& random, std::size_t length) {
    std::vector<std::uint8_t> made(length);
    for (auto& byte : made) byte = static_cast<std::uint8_t>(random());
    return made;
}

// The reply as its datagrams have it, each begun by its number.
std::vector<std::uint8_t> put_together(Answer& answer, std::size_t longest) {
    std::vector<std::uint8_t> all;
    const std::size_t count = (answer.length() + longest - 1) / longest;
    if (!answer.make_heads(count)) return all;
    for (std::size_t number = 0; number < count; number++) {
        const engine::Stretch room = answer.head(number);
        const engine::Stretch head{room.frame, room.offset + room.length - 2, 2};
        answer.data(head)[0] = static_cast<std::uint8_t>(number);
        answer.data(head)[1] = 0xaa;
        std::array<engine::Stretch, Answer::kMostStretches + 1> stretches;
        std::size_t made = answer.cut(head, number * longest, longest, stretches);
        if (count == 1) made = answer.join({stretches.data(), made});
        std::vector<std::uint8_t> datagram;
        for (std::size_t i = 0; i < made; i++)
            datagram.insert(datagram.end(), answer.data(stretches[i]), answer.data(stretches[i]) + stretches[i].length);
        EXPECT_EQ(datagram[0], number);
        EXPECT_EQ(datagram[1], 0xaa);
        EXPECT_LE(datagram.size(), longest + 2);
        all.insert(all.end(), datagram.begin() + 2, datagram.end());
    }
    return all;
}

TEST(Answer, IsWhatWasAddedAndReferredTo) {
    auto engine = engine_of_nothing();
    ASSERT_NE(engine, nullptr);
    std::mt19937 random(20261121);
    Answer answer(kLongest);
    answer.use(*engine);
    unsigned referred = 0;
    for (int round = 0; round < 300; round++) {
        std::vector<std::uint8_t> want;
        const std::size_t parts = 1 + random() % 40;
        for (std::size_t i = 0; i < parts; i++) {
            const auto part = random_bytes(random, 1 + random() % (random() % 8 == 0 ? 9000 : 100));
            const auto room = static_cast<std::uint32_t>(random() % 2 * (random() % 600));  // in front, and behind
            const umem::Frame frame = random() % 2 == 0
                                          ? engine->take_frame(static_cast<std::uint32_t>(part.size()) + 2 * room)
                                          : umem::kNoFrame;
            if (frame != umem::kNoFrame) {
                std::memcpy(engine->memory().data(frame) + room, part.data(), part.size());
                if (answer.refer({frame, room, static_cast<std::uint32_t>(part.size())})) {
                    want.insert(want.end(), part.begin(), part.end());
                    referred++;
                    continue;
                }
                engine->memory().release(frame, engine::kHandedOut);
            }
            // Written in place, as much as there is room for in one piece, or handed over.
            std::size_t taken = 0;
            if (random() % 2 == 0) {
                const auto space = answer.space();
                taken = std::min(part.size(), space.size());
                std::copy_n(part.begin(), taken, space.begin());
                answer.took(taken);
            }
            taken += answer.add(std::span(part).subspan(taken));
            want.insert(want.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(taken));
            if (taken < part.size()) break;
        }
        EXPECT_EQ(answer.length(), want.size());
        const std::size_t longest = std::max<std::size_t>(1 + random() % 3000, want.size() / kMostDatagrams + 1);
        EXPECT_EQ(put_together(answer, longest), want) << "round " << round << ", datagrams of " << longest;
        answer.clear();
        ASSERT_EQ(engine->memory().accounting().in_use, 0u);
    }
    EXPECT_GT(referred, 1000u);
    EXPECT_EQ(engine->memory().accounting().refused, 0u);
}

// All datagrams that a reply may have, of whatever: as many results as are referred to, in front of the rest or behind
// it.
TEST(Answer, TakesAsMuchAsItsDatagramsHold) {
    auto engine = engine_of_nothing();
    ASSERT_NE(engine, nullptr);
    std::mt19937 random(20261201);
    for (const std::size_t longest : {256u, 1400u, 9000u}) {
        const std::size_t most = kMostDatagrams * longest;
        Answer answer(most);
        for (const std::size_t first : {std::size_t{0}, most / 4, most / 2}) {
            answer.use(*engine, most);
            std::vector<std::uint8_t> want = random_bytes(random, first);
            EXPECT_EQ(answer.add(want), first);
            const std::uint32_t length = static_cast<std::uint32_t>(longest) / 2;
            while (want.size() + length + 20 <= most) {
                const auto key = random_bytes(random, 20), value = random_bytes(random, length);
                EXPECT_EQ(answer.add(key), key.size());
                const umem::Frame frame = engine->take_frame(length);
                ASSERT_NE(frame, umem::kNoFrame);
                std::ranges::copy(value, engine->memory().data(frame));
                const bool referred = answer.refer({frame, 0, length});
                if (!referred) engine->memory().release(frame, engine::kHandedOut);
                if (!referred) EXPECT_EQ(answer.add(value), value.size());
                want.insert(want.end(), key.begin(), key.end());
                want.insert(want.end(), value.begin(), value.end());
            }
            const auto rest = random_bytes(random, most - want.size());
            EXPECT_EQ(answer.add(rest), rest.size());
            want.insert(want.end(), rest.begin(), rest.end());
            EXPECT_EQ(put_together(answer, longest), want) << "datagrams of " << longest << ", text of " << first;
            EXPECT_LT(answer.add(std::vector<std::uint8_t>(2 * Answer::kFrame)), 2 * Answer::kFrame) << "but no more";
            EXPECT_FALSE(answer.wants_memory());
            answer.clear();
        }
    }
    EXPECT_EQ(engine->memory().accounting().in_use, 0u);
}

// A block that fills its frame to the end has somebody else's behind it.
TEST(Answer, NothingIsWrittenBehindTheEndOfAFrame) {
    auto engine = engine_of_nothing();
    ASSERT_NE(engine, nullptr);
    Answer answer(kLongest);
    answer.use(*engine);
    for (const std::uint32_t bytes : {512u, 1024u, 2048u, 4096u}) {
        std::vector<umem::Frame> others;
        for (int i = 0; i < 16; i++) others.push_back(engine->take_frame(bytes));
        const umem::Frame value = others[7];
        others.erase(others.begin() + 7);
        for (const umem::Frame frame : others) std::memset(engine->memory().data(frame), 'o', bytes);
        std::memset(engine->memory().data(value), 'v', bytes);
        ASSERT_TRUE(answer.refer({value, 0, bytes}));
        answer.add(std::vector<std::uint8_t>(7, 't'));
        std::vector<std::uint8_t> want(bytes, 'v');
        want.resize(bytes + 7, 't');
        EXPECT_EQ(put_together(answer, 8000), want);
        for (const umem::Frame frame : others) {
            const std::uint8_t* data = engine->memory().data(frame);
            EXPECT_EQ(std::count(data, data + bytes, 'o'), bytes) << "frames of " << bytes;
            engine->memory().release(frame, engine::kHandedOut);
        }
        answer.clear();
    }
}

TEST(Answer, TwoStretchesOfOneFrameGiveItBackOnce) {
    auto engine = engine_of_nothing();
    ASSERT_NE(engine, nullptr);
    Answer answer(kLongest);
    answer.use(*engine);
    const umem::Frame frame = engine->take_frame(5000);
    std::memset(engine->memory().data(frame), 'x', 5000);
    EXPECT_TRUE(answer.refer({frame, 0, 10}));
    EXPECT_TRUE(answer.refer({frame, 4000, 1000}));
    EXPECT_EQ(put_together(answer, 600), std::vector<std::uint8_t>(1010, 'x'));
    // In one datagram, too, where text between them has to stay: each of them may begin where the other one's room is.
    answer.add(std::vector<std::uint8_t>(10, 'x'));
    EXPECT_EQ(put_together(answer, 2000), std::vector<std::uint8_t>(1020, 'x'));
    answer.clear();
    EXPECT_EQ(engine->memory().accounting().in_use, 0u);
    EXPECT_EQ(engine->memory().accounting().refused, 0u);
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// How many pieces a reply of one datagram has: "head", then each part, referred to at `at` of a frame of its own or,
// where that is -1, written.
struct Part {
    std::string text;
    std::int64_t at;
};
std::size_t pieces_of(engine::Engine& engine, const std::vector<Part>& parts) {
    Answer answer(kLongest);
    answer.use(engine);
    std::string want = "head";
    for (const Part& part : parts) {
        want += part.text;
        if (part.at < 0) {
            answer.add(bytes_of(part.text));
            continue;
        }
        const umem::Frame frame = engine.take_frame(Answer::kFrame * 2);
        std::memcpy(engine.memory().data(frame) + part.at, part.text.data(), part.text.size());
        EXPECT_TRUE(
            answer.refer({frame, static_cast<std::uint32_t>(part.at), static_cast<std::uint32_t>(part.text.size())}));
    }
    EXPECT_TRUE(answer.make_heads(1));
    engine::Stretch head = answer.head(0);
    head.offset += head.length - 4;
    head.length = 4;
    std::memcpy(answer.data(head), "head", 4);
    std::array<engine::Stretch, Answer::kMostStretches + 1> stretches;
    const std::size_t made = answer.join(std::span(stretches).first(answer.cut(head, 0, want.size() - 4, stretches)));
    std::string got;
    for (std::size_t i = 0; i < made; i++)
        got.append(reinterpret_cast<const char*>(answer.data(stretches[i])), stretches[i].length);
    EXPECT_EQ(got, want);
    EXPECT_GE(stretches[0].offset % Answer::kFrame, Answer::kHeadroom) << "room for the packet's headers";
    answer.clear();
    EXPECT_EQ(engine.memory().accounting().in_use, 0u);
    return made;
}

TEST(Answer, IsOnePieceWhereTheFrameHasRoomAroundTheBytes) {
    auto engine = engine_of_nothing();
    ASSERT_NE(engine, nullptr);
    const std::string value(1000, 'v'), text(20, 't'), much(600, 'm');
    EXPECT_EQ(pieces_of(*engine, {{text, -1}, {value, 512}, {text, -1}}), 1u);
    EXPECT_EQ(pieces_of(*engine, {{value, 68}, {text, -1}}), 1u) << "headers and head just fit";
    EXPECT_EQ(pieces_of(*engine, {{value, 67}, {text, -1}}), 2u);
    EXPECT_EQ(pieces_of(*engine, {{text, -1}, {value, 4096 - 1020}, {text, -1}}), 1u);
    EXPECT_EQ(pieces_of(*engine, {{text, -1}, {value, 4096 - 1019}, {text, -1}}), 2u) << "over the end of a piece";
    EXPECT_EQ(pieces_of(*engine, {{text, -1}, {value, 4096 - 1000}, {text, -1}}), 2u) << "which is where it ends";
    EXPECT_EQ(pieces_of(*engine, {{text, -1}, {value, 4096 + 87}, {text, -1}}), 2u) << "or begins";
    EXPECT_EQ(pieces_of(*engine, {{text, -1}, {value, 4096 + 88}, {text, -1}}), 1u);
    EXPECT_EQ(pieces_of(*engine, {{much, -1}, {value, 2000}, {much, -1}}), 3u) << "much text stays where it is";
    // Text goes behind what it follows; what has none in front of it needs no headers either.
    EXPECT_EQ(pieces_of(*engine, {{value, 512}, {text, -1}, {value, 0}, {text, -1}, {value, 100}}), 3u);
}

TEST(Answer, WithoutMemoryItTakesWhatThereIsRoomFor) {
    auto engine = engine_of_nothing();
    ASSERT_NE(engine, nullptr);
    std::vector<umem::Frame> all;
    for (umem::Frame frame; (frame = engine->take_frame(Answer::kFrame)) != umem::kNoFrame;) all.push_back(frame);
    engine->memory().release(all.back(), engine::kHandedOut);
    all.pop_back();
    Answer answer(kLongest);
    answer.use(*engine);
    const std::vector<std::uint8_t> much(10000, 'y');
    EXPECT_EQ(answer.add(much), Answer::kFrame - Answer::kHeads);
    EXPECT_FALSE(answer.make_heads(2));
    answer.clear();
    for (const umem::Frame frame : all) engine->memory().release(frame, engine::kHandedOut);
    EXPECT_EQ(engine->memory().accounting().in_use, 0u);
}

}  // namespace
}  // namespace chainio::service
