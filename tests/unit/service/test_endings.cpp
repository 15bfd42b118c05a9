// How requests end: whose fault it is, what is replied then, and whether their connection goes on.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/service/compiled.h"
#include "tests/unit/service/rig.h"

namespace chainio::service {
namespace {

using test::Narrow;
using test::Rig;

// Requests say which row they want, and how: 'g' and 'f' before anything is replied, 't' and 'q' behind it.
constexpr const char* kSpec = R"(
files rows = "*.rows"
record Row { magic: u8 == 114  rest: bytes(7) }
chain row(file: file rows, back: i16) -> bytes(max 8) hops 1 {
  step s(r: Row at (back + 2) as u64 * 8 for 8 in file) {
    if back < 0 { return "before" }
    return r.rest[0..2]
  }
}
service s on tcp 9000 via uring {
  request { how: u8  back: i16le }
  on request {
    if request.how == 113 { reply "bye" fail close }
    if request.how == 116 {
      reply "begun "
      let v = row(rows["a"], request.back) else fail close
      reply v
    } else {
      let v = row(rows["a"], request.back) else fail not_found
      reply v
    }
  }
  on malformed { reply "bad" }
  on failure { reply "sorry" }
}
)";

// Four rows, the last of them of another form.
engine::test::FakeDisk disk() {
    const std::string rows = "r-2-----r-1-----r+0-----x+1-----";
    engine::test::FakeDisk made;
    made.files.emplace_back(rows.begin(), rows.end());
    return made;
}

struct Ended {
    std::string text;
    Ending ending = Ending::answered;
    bool closes = false, torn = false;
};

// Where there is no room for a reply, and where it is not whole although that is wanted, it is thrown away, and the
// request fails: as the server does it with datagrams.
struct How {
    std::size_t room = 100;
    bool whole = false;
};

Ended end_of(char how, std::int16_t back, const How& reply = {}) {
    static const auto spec = compiled(kSpec);
    Rig rig(spec, disk(), {});
    Narrow out;
    out.room = reply.room;
    const std::string text{how, static_cast<char>(back), static_cast<char>(back >> 8)};
    std::vector<std::uint32_t> ended;
    const std::uint32_t slot = rig.start(text, out);
    rig.go_on(slot, ended);
    while (ended.empty() && rig.full.empty() && !testing::Test::HasFatalFailure()) rig.turn(ended);
    if (ended.empty() || (reply.whole && rig.requests->is_torn(slot))) {
        ended.clear();
        out.text.clear();
        out.room = 100;
        rig.requests->fail(slot);
        rig.go_on(slot, ended);
        EXPECT_EQ(ended.size(), 1u);
    }
    const Requests& requests = *rig.requests;
    const Ended what{out.text, requests.ending(slot), requests.closes(slot), requests.is_torn(slot)};
    rig.requests->release(slot);
    return what;
}

TEST(Endings, ChainsGetTheSignOfWhatTheyAreGiven) {
    EXPECT_EQ(end_of('g', 0).text, "+0");
    EXPECT_EQ(end_of('g', -1).text, "before");
    EXPECT_EQ(end_of('g', -2).text, "before");
}

TEST(Endings, AFileOfBadFormIsNoRequestOfBadForm) {
    const Ended ended = end_of('g', 1);
    EXPECT_EQ(ended.text, "sorry");
    EXPECT_EQ(ended.ending, Ending::failed);
    EXPECT_FALSE(ended.closes);
}

TEST(Endings, AReplyThatIsNotWholeHasFailedAndCloses) {
    const Ended ended = end_of('t', 1);
    EXPECT_EQ(ended.text, "begun ");
    EXPECT_EQ(ended.ending, Ending::failed);
    EXPECT_TRUE(ended.closes);
    EXPECT_TRUE(ended.torn);
}

TEST(Endings, WhereItIsThrownAwayWhatFollowsIsAnswered) {
    const Ended ended = end_of('t', 1, {.whole = true});
    EXPECT_EQ(ended.text, "sorry");
    EXPECT_EQ(ended.ending, Ending::failed);
    EXPECT_FALSE(ended.closes);
    EXPECT_FALSE(ended.torn);
}

TEST(Endings, WhoseReplyHasNoRoomClosesAllTheSameWhereItSaysSo) {
    EXPECT_EQ(end_of('q', 0).text, "bye");
    EXPECT_TRUE(end_of('q', 0).closes);
    const Ended ended = end_of('q', 0, {.room = 2});
    EXPECT_EQ(ended.text, "sorry");
    EXPECT_EQ(ended.ending, Ending::failed);
    EXPECT_TRUE(ended.closes);
    EXPECT_FALSE(end_of('g', 0, {.room = 1}).closes);
}

// One that a request names is open or it is not: a server of files can say so. No name is that of none, though the
// spec's own "" means the only one.
TEST(Endings, ANameOfNoFileIsAnAbsentCall) {
    static const auto spec = compiled(R"(
files rows = "*.rows"
chain first(file: file rows) -> bytes(max 8) hops 1 { step s(b: block at 0 for 3 in file) { return b } }
service s on tcp 9000 via uring {
  request { length: u8  name: bytes(length) }
  on request {
    var found = false
    when first(rows[request.name]) as v {
      found = true
      reply v
    }
    if !found { reply "no such file" }
  }
  on failure { reply "sorry" }
}
)");
    for (const auto& [name, wanted] :
         {std::pair("a", "r-2"), std::pair("b", "no such file"), std::pair("", "no such file")}) {
        Rig rig(spec, disk(), {});
        Narrow out;
        out.room = 100;
        std::vector<std::uint32_t> ended;
        const std::string request = static_cast<char>(std::strlen(name)) + std::string(name);
        const std::uint32_t slot = rig.start(request, out);
        rig.go_on(slot, ended);
        while (ended.empty() && !testing::Test::HasFatalFailure()) rig.turn(ended);
        EXPECT_EQ(out.text, wanted);
        EXPECT_EQ(rig.requests->ending(slot), Ending::answered);
        rig.requests->release(slot);
    }
}

// The bound on a handler's instructions counts a loop that calls a chain in each round as one round, so that there
// others have their turn, whoever answers.
TEST(Endings, CallsThatNoEngineAnswersGiveOthersTheirTurn) {
    static const auto spec = compiled(R"(
files rows = "*.rows"
chain first(file: file rows) -> bytes(max 8) hops 1 { step s(b: block at 0 for 3 in file) { return b } }
service s on tcp 9000 via uring {
  text Line { name: word(max 16) "\n" }
  request { line: Line }
  on request {
    var found = 0
    for i in range(0, 100) { when first(rows[request.line.name]) { found = found + 1 } }
    reply found:dec
  }
  on failure { reply "sorry" }
}
)");
    Rig rig(spec, disk(), {});
    Narrow of_long, of_other;
    of_long.room = of_other.room = 100;
    const std::string nowhere = "b\n", there = "a\n";
    std::vector<std::uint32_t> ended;
    const std::uint32_t slot = rig.start(nowhere, of_long);
    rig.go_on(slot, ended);
    EXPECT_TRUE(ended.empty());
    EXPECT_EQ(rig.yields, 1u);
    const std::uint32_t other = rig.start(there, of_other);
    rig.go_on(other, ended);
    for (unsigned turns = 0; ended.size() < 2 && turns < 1000 && !testing::Test::HasFatalFailure(); turns++)
        rig.turn(ended);
    ASSERT_EQ(ended.size(), 2u);
    EXPECT_EQ(rig.yields, 100u);
    EXPECT_EQ(of_long.text, "0");
    EXPECT_EQ(of_other.text, "100");
    for (const std::uint32_t each : ended) rig.requests->release(each);
}

}  // namespace
}  // namespace chainio::service
