// Calls that are started before the handler comes to them: which they are, that they run at once, and that replies are
// as without.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "compiler/ir/ahead.h"
#include "tests/unit/service/compiled.h"
#include "tests/unit/service/rig.h"

namespace chainio::service {
namespace {

using test::answer_of;
using test::Collected;
using test::Narrow;
using test::Rig;

std::string spec_of_rows(const std::string& body) {
    return R"(
files rows = "*.rows"
chain row(file: file rows, key: bytes(max 8)) -> bytes(max 64) hops 1 {
  step s(b: block at key.decimal() * 64 for 64 in file) {
    if b[0] == 45 { fail not_found }
    return b[0..8]
  }
}
service s on tcp 9000 via uring {
  text Line { "get " keys: token(max 8)[1..64 by " "] "\n" }
  request { line: Line }
  on request {
)" + body + R"(
  }
  on malformed { reply "bad" }
  on failure { reply "sorry" }
}
)";
}

std::size_t calls_ahead_in(const std::string& body) {
    const ir::Artifact artifact = lowered(spec_of_rows(body).c_str());
    std::size_t count = 0;
    for (const ir::Program& program : artifact.module.programs)
        if (program.kind == ir::ProgramKind::handler) count += ir::calls_ahead(program).size();
    return count;
}

TEST(Ahead, AreCallsThatNoResultCanPrevent) {
    const std::pair<const char*, std::size_t> cases[] = {
        {R"(for k in line.keys { let v = row(rows["a"], k) else continue  reply v })", 1},
        {R"(for k in line.keys { let v = row(rows["a"], k) else { reply "-"  continue }  reply v[0..2] } reply ".")",
         1},
        {R"(for k in line.keys { if k == "x" { break }  let v = row(rows["a"], k) else continue  reply v })", 1},
        {R"(for k in line.keys { when row(rows["a"], k) as v { if v[0] == 48 { reply v } else { reply "." } } })", 1},
        {R"(for i in range(0, 3) max 3 { for k in line.keys { let v = row(rows["a"], k) else continue  reply v } })",
         1},
        {R"(var n = 0  for k in line.keys { let v = row(rows["a"], k) else continue  n = n + v[0] }; reply n:dec)", 1},
        // The first that is found is enough, and what comes behind it is not to be read.
        {R"(for k in line.keys { let v = row(rows["a"], k) else continue  reply v  break })", 0},
        {R"(for k in line.keys { when row(rows["a"], k) as v { reply v  break } })", 0},
        {R"(var found = false  for k in line.keys { if found { break }  when row(rows["a"], k) as v { found = true; reply v } })",
         0},
        {R"(var found = false  for k in line.keys { if !found { when row(rows["a"], k) as v { found = true; reply v } } })",
         0},
        {R"(for k in line.keys { let v = row(rows["a"], k) else fail not_found  reply v })", 0},
        {R"(for i in range(0, 3) max 3 { for k in line.keys { let v = row(rows["a"], k) else continue  if v[0] == 48 { fail close } } })",
         0},
        // What one gives is what the next one asks for.
        {R"(for k in line.keys { let v = row(rows["a"], k) else continue  let w = row(rows["a"], v[1..3]) else continue  reply w })",
         1},
        {R"(var at = 1  for k in line.keys { let v = row(rows["a"], k[0..at]) else continue  at = v.length % 2 })", 0},
        {R"(reply row(rows["a"], "7"))", 0},
    };
    for (const auto& [body, count] : cases) {
        std::string lines = "let line = request.line\n" + std::string(body);
        std::ranges::replace(lines, ';', '\n');
        EXPECT_EQ(calls_ahead_in(lines), count) << body;
    }
}

constexpr const char* kBody = R"(
    let line = request.line
    for k in line.keys {
      if k == "skip" { continue }
      if k == "stop" { break }
      let v = row(rows["a"], k) else { reply "-"  continue }
      reply "<" k ":" v ">"
    }
    reply "."
)";

// Rows of 64 bytes that say their numbers; every tenth is absent, and one in a hundred cannot be read.
engine::test::FakeDisk disk_of_rows() {
    engine::test::FakeDisk disk;
    disk.files.resize(1);
    for (unsigned i = 0; i < 400; i++) {
        std::string row = (i % 10 == 3 ? "-" : "r") + std::to_string(i);
        row.resize(64, '_');
        disk.files[0].insert(disk.files[0].end(), row.begin(), row.end());
        if (i % 100 == 99) disk.bad.insert({0, i});
    }
    return disk;
}

TEST(Ahead, TheKeysOfARequestAreOnTheirWayTogether) {
    for (const auto& spec :
         {compiled(spec_of_rows(kBody).c_str()), spec::Loaded::from_artifact(lowered(spec_of_rows(kBody).c_str()))}) {
        Rig rig(spec, disk_of_rows(), {});
        Collected out;
        std::vector<std::uint32_t> ended;
        const std::string text = "get 1 2 skip 13 4 5 6\n";
        rig.go_on(rig.start(text, out), ended);
        EXPECT_EQ(rig.engine().in_flight(), 6u);
        while (ended.empty() && !HasFatalFailure()) rig.turn(ended);
        rig.requests->release(ended[0]);
        EXPECT_EQ(out.text, "<1:r1______><2:r2______>-<4:r4______><5:r5______><6:r6______>.");
        EXPECT_EQ(rig.requests->running(), 0u);
        // No more than may be at once, however many are asked for.
        std::string many = "get";
        for (int i = 0; i < 60; i++) many += " " + std::to_string(i / 10 * 10);
        many += "\n";
        ended.clear();
        rig.go_on(rig.start(many, out), ended);
        EXPECT_EQ(rig.engine().in_flight(), 17u);
        while (ended.empty() && !HasFatalFailure()) rig.turn(ended);
        rig.requests->release(ended[0]);
    }
}

// With room for one chain nothing is started ahead: that is what each reply is compared with.
TEST(Ahead, RepliesAreAsWithout) {
    const auto spec = compiled(spec_of_rows(kBody).c_str());
    std::mt19937 random(20261122);
    for (std::uint64_t round = 0; round < 60 && !HasFailure(); round++) {
        Rig rig(spec, disk_of_rows(), {.in_flight = static_cast<unsigned>(2 + random() % 30), .seed = round});
        Rig reference(spec, disk_of_rows(), {.in_flight = 1, .seed = round});
        std::vector<std::string> texts(60);
        for (std::string& text : texts) {
            text = "get";
            for (unsigned i = 0, count = 1 + random() % 40; i < count; i++) {
                const unsigned what = random() % 60;
                text += what == 0   ? " skip"
                        : what == 1 ? " stop"
                        : what == 2 ? " what"
                                    : " " + std::to_string(random() % 420);
            }
            text += "\n";
        }
        std::vector<Collected> out(texts.size());
        std::vector<std::int64_t> text_of(9, -1);
        std::size_t next = 0, gone = 0, answered = 0;
        std::vector<std::uint32_t> ended;
        while (answered + gone < texts.size() && !HasFailure()) {
            while (next < texts.size() && rig.requests->any_free()) {
                const std::uint32_t slot = rig.start(texts[next], out[next]);
                text_of[slot] = static_cast<std::int64_t>(next++);
                rig.go_on(slot, ended);
            }
            if (ended.empty()) rig.turn(ended);
            for (const std::uint32_t slot : ended) {
                const auto which = static_cast<std::size_t>(text_of[slot]);
                text_of[slot] = -1;
                rig.requests->release(slot);
                EXPECT_EQ(out[which].text, answer_of(reference, texts[which])) << texts[which];
                answered++;
            }
            ended.clear();
            // Now and then a client goes.
            const std::size_t goes = random() % text_of.size();
            if (random() % 20 == 0 && text_of[goes] >= 0) {
                text_of[goes] = -1;
                rig.forget(static_cast<std::uint32_t>(goes));
                gone++;
            }
        }
        while (rig.requests->running() != 0 && !HasFatalFailure()) rig.turn(ended);
        // Reads of chains that were given up arrive later.
        for (int i = 0; i < 100 && rig.engine().memory().accounting().in_use != 0; i++)
            ASSERT_TRUE(rig.engine().reap({}, 0).has_value());
        EXPECT_EQ(rig.engine().memory().accounting().in_use, 0u);
        EXPECT_TRUE(rig.engine().leaks().empty());
    }
}

TEST(Parked, LeaveTheirPlaceUntilTheyAreGoneOnWith) {
    Rig rig(compiled(spec_of_rows(kBody).c_str()), disk_of_rows(), {.places = {.run = 1, .parked = 1}});
    Narrow slow, other;
    slow.room = other.room = 20;
    std::vector<std::uint32_t> ended;
    const std::string text = "get 1 2 4 5 6\n", quick = "get 7\n";
    const auto waits = [&](Narrow& reply) {
        while (reply.text.size() < reply.room && !HasFatalFailure()) rig.turn(ended);
    };
    const std::uint32_t slot = rig.start(text, slow);
    rig.go_on(slot, ended);
    waits(slow);
    EXPECT_FALSE(rig.requests->any_free());
    rig.requests->park(slot);
    EXPECT_TRUE(rig.requests->any_free());
    for (int i = 0; i < 1000 && rig.requests->running() != 1; i++) rig.turn(ended);
    EXPECT_EQ(rig.requests->running(), 1u) << "what was read ahead for it is let go";
    EXPECT_EQ(answer_of(rig, quick), "<7:r7______>.");
    // There is room for one that is parked, and another one keeps its place.
    const std::uint32_t second = rig.start(text, other);
    rig.go_on(second, ended);
    waits(other);
    rig.requests->park(second);
    EXPECT_FALSE(rig.requests->any_free());
    slow.room = other.room = 1000;
    for (const std::uint32_t one : {slot, second}) rig.go_on(one, ended);
    EXPECT_TRUE(rig.requests->any_spare()) << "which is not that of a request that is shed";
    while (ended.size() < 2 && !HasFatalFailure()) rig.turn(ended);
    for (const std::uint32_t one : ended) {
        EXPECT_FALSE(rig.requests->any_free()) << "both have a place again";
        rig.requests->release(one);
    }
    EXPECT_EQ(slow.text, "<1:r1______><2:r2______><4:r4______><5:r5______><6:r6______>.");
    EXPECT_EQ(other.text, slow.text);
    EXPECT_TRUE(rig.requests->any_free());
    // One whose client goes while it is parked leaves room, and its part of the memory, for another.
    for (int i = 0; i < 1000 && !HasFailure(); i++) {
        Narrow gone;
        gone.room = 20;
        const std::uint32_t leaves = rig.start(text, gone);
        rig.go_on(leaves, ended);
        waits(gone);
        EXPECT_FALSE(rig.requests->any_free());
        rig.requests->park(leaves);
        EXPECT_TRUE(rig.requests->any_free());
        rig.forget(leaves);
    }
    while (rig.requests->running() != 0 && !HasFatalFailure()) rig.turn(ended);
    EXPECT_TRUE(rig.engine().leaks().empty());
}

TEST(Shed, HavePlacesOfTheirOwn) {
    Rig rig(compiled(spec_of_rows(kBody).c_str()), disk_of_rows(), {.places = {.run = 1, .shed = 2, .parked = 1}});
    std::vector<std::uint32_t> ended, shed;
    std::array<Narrow, 3> told;
    const std::string text = "get 1 2 4 5 6\n";
    const auto tell = [&](Narrow& to) {
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
        shed.push_back(rig.requests->start_failed(0, {.shed = true}, {bytes, text.size()}, to, 0));
        rig.go_on(shed.back(), ended);
        EXPECT_TRUE(rig.requests->is_shed(shed.back()));
    };
    tell(told[0]);
    EXPECT_TRUE(rig.requests->any_spare());
    tell(told[1]);
    EXPECT_FALSE(rig.requests->any_spare());
    EXPECT_TRUE(rig.requests->any_free()) << "a request may run beside those that are told";
    Narrow reply;
    reply.room = 1000;
    const std::uint32_t runs = rig.start(text, reply);
    EXPECT_FALSE(rig.requests->is_shed(runs));
    EXPECT_FALSE(rig.requests->any_free());
    EXPECT_FALSE(rig.requests->any_spare()) << "and takes no place of theirs";
    // One whose client takes nothing leaves its place to another one.
    rig.requests->park(shed[0]);
    EXPECT_FALSE(rig.requests->any_free());
    EXPECT_TRUE(rig.requests->any_spare());
    tell(told[2]);
    EXPECT_FALSE(rig.requests->any_spare());
    for (Narrow& each : told) each.room = 1000;
    rig.full.clear();
    ended.clear();
    rig.go_on(runs, ended);
    while (ended.empty() && !HasFatalFailure()) rig.turn(ended);
    rig.requests->release(runs);
    EXPECT_TRUE(rig.requests->any_free());
    ended.clear();
    for (const std::uint32_t slot : shed) rig.go_on(slot, ended);
    EXPECT_EQ(ended, shed);
    for (const std::uint32_t slot : ended) {
        EXPECT_FALSE(rig.requests->any_spare()) << "three have two places";
        rig.requests->release(slot);
        if (slot == shed[0]) continue;
        EXPECT_TRUE(rig.requests->any_spare());
        break;
    }
    rig.requests->release(shed[2]);
    for (const Narrow& each : told) EXPECT_EQ(each.text, told[0].text);
    EXPECT_FALSE(told[0].text.empty());
    EXPECT_TRUE(rig.engine().leaks().empty());
}

}  // namespace
}  // namespace chainio::service
