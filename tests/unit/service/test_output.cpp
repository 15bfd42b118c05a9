// Replies of a connection: text and frames in their order, and each frame given back when nobody has a use for it.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "runtime/engine/owners.h"
#include "runtime/service/output.h"
#include "runtime/service/peers.h"
#include "tests/unit/service/bytes.h"
#include "tests/unit/service/nothing.h"

namespace chainio::service {
namespace {

struct Lending {
    std::unique_ptr<engine::Engine> engine = engine_of_nothing();
    Lender lender{*engine};
    std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(64);
    Output output{memory.data(), memory.size()};
    Lending() { output.use(lender, 4); }
    std::uint64_t in_use() const { return engine->slab().accounting().in_use; }

    engine::Stretch filled(std::string_view text) const {
        const umem::Frame frame = engine->take_frame(4096);
        std::memcpy(engine->memory().data(frame), text.data(), text.size());
        return {frame, 0, static_cast<std::uint32_t>(text.size())};
    }
    std::string unsent() const {
        std::array<Output::Piece, Output::kMostPieces> room;
        std::string all;
        for (const Output::Piece& piece : output.unsent(room, SIZE_MAX))
            all.append(piece.data, piece.data + piece.length);
        return all;
    }
};

TEST(Output, IsTextAndFramesInTheirOrder) {
    Lending made;
    made.output.add(bytes("<"));
    const engine::Stretch value = made.filled("value");
    ASSERT_TRUE(made.output.refer(value));
    made.output.add(bytes(">"));
    made.output.add(bytes("!"));
    EXPECT_EQ(made.unsent(), "<value>!");
    std::array<Output::Piece, Output::kMostPieces> room;
    EXPECT_EQ(made.output.unsent(room, SIZE_MAX).size(), 3u);
    EXPECT_EQ(made.output.unsent(room, 1).size(), 1u) << "no more than was asked for";
    made.output.sent(3);
    EXPECT_EQ(made.unsent(), "lue>!") << "a part of a frame was taken";
    made.output.let_go(value.frame);
    EXPECT_EQ(made.in_use(), 1u) << "the rest of it is to be sent";
    made.output.sent(4);
    EXPECT_EQ(made.in_use(), 0u);
    EXPECT_EQ(made.lender.frames, 0u);
    EXPECT_EQ(made.lender.bytes, 0u);
    EXPECT_EQ(made.unsent(), "!");
}

TEST(Output, WholeRepliesLeaveWhileTheNextOneIsWritten) {
    Lending made;
    std::array<Output::Piece, Output::kMostPieces> room;
    made.output.add(bytes("<a>"));
    EXPECT_EQ(made.output.of_whole(), 0u);
    made.output.end_reply();
    made.output.add(bytes("<b"));
    EXPECT_EQ(made.output.of_whole(), 3u);
    const auto first = made.output.unsent(room, SIZE_MAX, made.output.of_whole());
    ASSERT_EQ(first.size(), 1u);
    EXPECT_EQ(first[0].length, 3u) << "no byte of the reply that goes on, though it is the same piece of text";
    made.output.sent(2);
    EXPECT_EQ(made.output.of_whole(), 1u);
    made.output.sent(1);
    EXPECT_EQ(made.output.of_whole(), 0u);
    EXPECT_TRUE(made.output.unsent(room, SIZE_MAX, 0).empty());
    const engine::Stretch value = made.filled("value");
    ASSERT_TRUE(made.output.refer(value));
    made.output.add(bytes(">"));
    made.output.end_reply();
    made.output.add(bytes("<c"));
    EXPECT_EQ(made.output.of_whole(), 8u) << "text, a frame and text";
    EXPECT_EQ(made.output.unsent(room, SIZE_MAX, 8).size(), 3u);
    made.output.sent(10);
    EXPECT_EQ(made.output.of_whole(), 0u) << "a blocked reply is sent from as well";
    made.output.let_go(value.frame);
}

TEST(Output, AFrameIsKeptWhileItsRequestOrTheKernelHasAUseForIt) {
    Lending made;
    const engine::Stretch value = made.filled("value");
    ASSERT_TRUE(made.output.refer(value));
    made.output.sent(5);
    EXPECT_TRUE(made.output.empty());
    EXPECT_EQ(made.in_use(), 1u) << "the request may refer to it once more";
    ASSERT_TRUE(made.output.refer(value));
    EXPECT_EQ(made.lender.frames, 1u);
    std::array<Output::Piece, Output::kMostPieces> room;
    const std::uint32_t lent = made.output.unsent(room, SIZE_MAX)[0].lent;
    made.output.keeps(lent);
    made.output.sent(2);
    made.output.keeps(lent);
    made.output.sent(3);
    made.output.let_go(value.frame);
    EXPECT_EQ(made.output.kept(), 2u);
    made.output.let_go_of(lent);
    EXPECT_EQ(made.in_use(), 1u) << "the kernel has said so for one of two sends";
    made.output.let_go_of(lent);
    EXPECT_EQ(made.in_use(), 0u);
    EXPECT_EQ(made.output.kept(), 0u);
    EXPECT_EQ(made.engine->slab().accounting().refused, 0u);
}

TEST(Output, ASendThatTookNothingIsNoVerdictOnCopying) {
    Lending made;
    const engine::Stretch value = made.filled("value");
    ASSERT_TRUE(made.output.refer(value));
    std::array<Output::Piece, Output::kMostPieces> room;
    const std::uint32_t lent = made.output.unsent(room, SIZE_MAX)[0].lent;
    made.output.keeps(lent);
    made.output.keeps(lent, false);
    made.output.keeps(lent);
    EXPECT_TRUE(made.output.let_go_of(lent, false));
    EXPECT_FALSE(made.output.let_go_of(lent, true)) << "one of the two is said of the send without bytes";
    EXPECT_TRUE(made.output.let_go_of(lent, true));
    EXPECT_EQ(made.output.kept(), 0u);
    made.output.sent(5);
    made.output.let_go(value.frame);
    EXPECT_EQ(made.in_use(), 0u);
}

TEST(Output, WhoVanishesLeavesOnlyWhatTheKernelStillHas) {
    Lending made;
    for (const char* text : {"first", "second", "third"}) ASSERT_TRUE(made.output.refer(made.filled(text)));
    std::array<Output::Piece, Output::kMostPieces> room;
    const std::uint32_t lent = made.output.unsent(room, SIZE_MAX)[0].lent;
    made.output.keeps(lent);
    made.output.sent(5);
    made.output.abandon();
    EXPECT_TRUE(made.output.empty());
    EXPECT_EQ(made.in_use(), 1u);
    made.output.let_go_of(lent);
    EXPECT_EQ(made.in_use(), 0u);
}

TEST(Output, WhatFindsNoPlaceIsTheCallersStill) {
    Lending made;
    made.output.add(bytes("0123456789"));
    const engine::Stretch small = made.filled("abc");
    EXPECT_FALSE(made.output.refer(small)) << "too short to be worth it";
    made.engine->memory().release(small.frame, engine::kHandedOut);
    std::vector<engine::Stretch> taken;
    for (std::size_t i = 0; i < Output::kMostLent; i++) {
        taken.push_back(made.filled("value"));
        ASSERT_TRUE(made.output.refer(taken.back()));
    }
    const engine::Stretch more = made.filled("value");
    EXPECT_FALSE(made.output.refer(more)) << "as many frames as there may be";
    EXPECT_TRUE(made.output.refer(taken.back())) << "which is no other frame";
    made.output.abandon();
    made.lender.most = 4096;
    ASSERT_TRUE(made.output.refer(more));
    const engine::Stretch other = made.filled("value");
    EXPECT_FALSE(made.output.refer(other)) << "as much memory as may wait";
    made.engine->memory().release(other.frame, engine::kHandedOut);
    made.output.abandon();
    EXPECT_EQ(made.in_use(), 0u);
}

// Whatever is added, sent and let go of in whatever order: the bytes that leave are those that were added, and all
// frames come back once.
TEST(Output, RandomReplies) {
    Lending made;
    std::mt19937 random(20261122);
    std::string added, left;
    std::deque<std::uint32_t> with_kernel;
    for (int round = 0; round < 20000; round++) {
        const unsigned what = random() % 8;
        if (what < 3) {
            const std::string text(1 + random() % 20, static_cast<char>('a' + random() % 26));
            added += text.substr(0, made.output.add(bytes(text)));
        } else if (what < 5) {
            const std::string text(4 + random() % 60, static_cast<char>('A' + random() % 26));
            const engine::Stretch value = made.filled(text);
            unsigned times = 0;
            while (times < 3 && random() % 3 != 0 && made.output.refer(value)) times++;
            for (unsigned i = 0; i < times; i++) added += text;
            if (times == 0)
                made.engine->memory().release(value.frame, engine::kHandedOut);
            else
                made.output.let_go(value.frame);
        } else if (what < 7) {
            std::array<Output::Piece, Output::kMostPieces> room;
            const auto pieces = made.output.unsent(room, 1);
            if (pieces.empty()) continue;
            const std::size_t length = 1 + random() % pieces[0].length;
            left.append(pieces[0].data, pieces[0].data + length);
            if (pieces[0].lent != Output::kText && random() % 2 == 0) {
                made.output.keeps(pieces[0].lent);
                with_kernel.push_back(pieces[0].lent);
            }
            made.output.sent(length);
        } else if (!with_kernel.empty()) {
            made.output.let_go_of(with_kernel.front());
            with_kernel.pop_front();
        }
    }
    left += made.unsent();
    EXPECT_GT(left.size(), 30000u);
    EXPECT_EQ(left, added);
    made.output.abandon();
    for (const std::uint32_t lent : with_kernel) made.output.let_go_of(lent);
    EXPECT_EQ(made.in_use(), 0u);
    EXPECT_EQ(made.lender.bytes, 0u);
    EXPECT_EQ(made.engine->slab().accounting().refused, 0u);
}

TEST(Peers, AreCopiedToForAWhileAfterAFewCopiesInARow) {
    Peers peers;
    EXPECT_FALSE(peers.was_copied(7, 1));
    EXPECT_FALSE(peers.was_copied(7, 1));
    peers.was_not_copied(7);
    EXPECT_FALSE(peers.was_copied(7, 1));
    EXPECT_FALSE(peers.was_copied(7, 1));
    EXPECT_FALSE(peers.copies(7, 1));
    EXPECT_TRUE(peers.was_copied(7, 1)) << "the third in a row";
    EXPECT_FALSE(peers.was_copied(7, 1)) << "which is said once";
    EXPECT_TRUE(peers.copies(7, Peers::kBelievedNs));
    EXPECT_FALSE(peers.copies(8, Peers::kBelievedNs));
    EXPECT_FALSE(peers.copies(7, Peers::kBelievedNs + 1)) << "routes change";
    EXPECT_FALSE(peers.was_copied(7, Peers::kBelievedNs + 2)) << "it is found out anew";
}

}  // namespace
}  // namespace chainio::service
