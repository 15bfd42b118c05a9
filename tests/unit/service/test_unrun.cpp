// Requests that are not run, and what they would have said of the bytes behind them.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/service/compiled.h"
#include "tests/unit/service/rig.h"

namespace chainio::service {
namespace {

using test::Rig;

// A chain that a shed request must not need; and what is said when one fails, or is of bad form.
std::string spec_of_parts(const std::string& handlers) {
    return R"(
files rows = "*.rows"
chain part(file: file rows, key: bytes(max 8)) -> bytes(max 16) hops 1 {
  step s(b: block at key.decimal() * 16 for 16 in file) { return b }
}
service s on tcp 9000 via uring, udp 9001 via uring {
  text Line { word: token(max 8) " " number: token(max 8) "\n" }
  request { line: Line }
)" + handlers +
           "}\n";
}

constexpr const char* kRequest = R"(  on request {
    let line = request.line
    if line.word == "quit" { fail close }
    skip line.number.decimal()
    let v = part(rows["a"], line.number) else { fail failed }
    reply v
  }
)";
constexpr const char* kOthers = R"(  on malformed { skip 3  reply "bad" }
  on failure { skip 7  reply "sorry" }
)";

class Unrun : public testing::Test {
  protected:
    void serve(const std::string& handlers) {
        engine::test::FakeDisk disk;
        disk.files.resize(1);
        disk.files[0].resize(4096);
        rig_ = std::make_unique<Rig>(compiled(spec_of_parts(handlers).c_str()), std::move(disk), Rig::Options{});
        program_ = rig_->engine().spec().module().services[0].on_request_udp;
    }
    Requests::Unrun told(const std::string& text) { return rig_->requests->unrun(0, program_, bytes_of(text)); }
    // Of the request and of the reply for which there is no place.
    Requests::Unrun unanswered(const std::string& text) {
        return rig_->requests->unanswered(0, program_, bytes_of(text));
    }

  private:
    static std::span<const std::uint8_t> bytes_of(const std::string& text) {
        return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
    }
    std::unique_ptr<Rig> rig_;
    std::int32_t program_ = -1;
};

TEST_F(Unrun, SkipsAsIfItHadFailed) {
    serve(std::string(kRequest) + kOthers);
    const Requests::Unrun shed = told("set 5\n"), silent = unanswered("set 5\n");
    EXPECT_EQ(shed.ending, Ending::failed);
    EXPECT_EQ(shed.skips, 5u);
    EXPECT_FALSE(shed.closes);
    EXPECT_EQ(silent.skips, 5u + 7u) << "on failure would have skipped, too";
    EXPECT_FALSE(silent.closes);
}

TEST_F(Unrun, OfBadFormSkipsAsSuch) {
    serve(std::string(kRequest) + kOthers);
    EXPECT_EQ(told("nothing\n").ending, Ending::malformed);
    EXPECT_EQ(told("nothing\n").skips, 0u);
    EXPECT_EQ(unanswered("nothing\n").skips, 3u);
    EXPECT_FALSE(unanswered("nothing\n").closes);
}

TEST_F(Unrun, ClosesWhatItWouldHaveClosed) {
    serve(std::string(kRequest) + kOthers);
    EXPECT_TRUE(told("quit 0\n").closes);
    EXPECT_TRUE(unanswered("quit 0\n").closes);
}

TEST_F(Unrun, ClosesWhereTheAnswerWould) {
    serve(std::string(kRequest) + "  on malformed { reply \"bad\" }\n  on failure { reply \"sorry\"  fail close }\n");
    EXPECT_FALSE(told("set 5\n").closes);
    EXPECT_TRUE(unanswered("set 5\n").closes);
    EXPECT_EQ(unanswered("set 5\n").skips, 5u);
    EXPECT_FALSE(unanswered("nothing\n").closes);
}

TEST_F(Unrun, WithoutOnFailureIsAnsweredAsMalformed) {
    serve(std::string(kRequest) + "  on malformed { skip 3  reply \"bad\" }\n");
    EXPECT_EQ(unanswered("set 5\n").skips, 5u + 3u);
}

TEST_F(Unrun, SaysNothingWhereNoHandlerDoes) {
    serve(
        "  on request { let v = part(rows[\"a\"], request.line.number) else { fail failed }  reply v }\n"
        "  on failure { reply \"sorry\" }\n");
    for (const char* text : {"set 5\n", "nothing\n"}) {
        const Requests::Unrun silent = unanswered(text);
        EXPECT_EQ(silent.skips, 0u) << text;
        EXPECT_FALSE(silent.closes) << text;
    }
}

}  // namespace
}  // namespace chainio::service
