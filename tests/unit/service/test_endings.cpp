// How requests end: whose fault it is, what is replied then, and whether their connection goes on.
#include <gtest/gtest.h>

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

// One that a request names is open or it is not: a server of files can say so.
TEST(Endings, ANameOfNoFileIsAnAbsentCall) {
    static const auto spec = compiled(R"(
files rows = "*.rows"
chain first(file: file rows) -> bytes(max 8) hops 1 { step s(b: block at 0 for 3 in file) { return b } }
service s on tcp 9000 via uring {
  text Line { name: word(max 16) "\n" }
  request { line: Line }
  on request {
    var found = false
    when first(rows[request.line.name]) as v {
      found = true
      reply v
    }
    if !found { reply "no such file" }
  }
  on failure { reply "sorry" }
}
)");
    for (const auto& [name, wanted] : {std::pair("a", "r-2"), std::pair("b", "no such file")}) {
        Rig rig(spec, disk(), {});
        Narrow out;
        out.room = 100;
        std::vector<std::uint32_t> ended;
        const std::string request = std::string(name) + "\n";
        const std::uint32_t slot = rig.start(request, out);
        rig.go_on(slot, ended);
        while (ended.empty() && !testing::Test::HasFatalFailure()) rig.turn(ended);
        EXPECT_EQ(out.text, wanted);
        EXPECT_EQ(rig.requests->ending(slot), Ending::answered);
        rig.requests->release(slot);
    }
}

}  // namespace
}  // namespace chainio::service
