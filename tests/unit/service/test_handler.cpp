// Handlers, by the interpreter and by native code: where they stop, what they reply, and how they end.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/handler_run.h"
#include "compiler/ir/names.h"
#include "runtime/service/files.h"
#include "tests/unit/service/compiled.h"

namespace chainio::service {
namespace {

constexpr const char* kFinding = R"(
files values = "*.idx"
chain find(store: file values, key: bytes(max 16), extra: u8) -> bytes(max 64) hops 2 {
  step s(b: block at 0 for 64 in store) { return b[0..8] }
}
service s on tcp 9000 via uring {
  text Line { "get " keys: token(max 16)[1..8 by " "] "\n" }
  request { line: Line }
  on request {
    for k in line.keys {
      if k == "stop" { break }
      if k == "skip" { continue }
      if k == "fail" { fail not_found }
      let v = find(values["a"], k, 7) else { reply "-" continue }
      reply "<" k ":" v[1..3] ">"
    }
    reply "." line.keys.count():dec
  }
  on malformed { reply "bad" }
}
)";

// What only native code has a way of its own for: values across stops, in loops with and without stops, and every
// operation on results.
constexpr const char* kWide = R"(
files values = "*.idx"
chain find(store: file values, key: bytes(max 16), extra: u8) -> bytes(max 64) hops 2 {
  step s(b: block at 0 for 64 in store) { return b[0..8] }
}
service s on tcp 9000 via uring {
  text Line { "get " keys: token(max 16)[1..8 by " "] "\n" }
  request { line: Line }
  on request {
    var sum = 0
    var rounds = 0
    for k in line.keys { skip k[0] * 1000 + rounds }
    for k in line.keys {
      var last = 0
      let first = find(values["a"], k, 7) else {
        reply "-"
        sum = sum ^ 1
        continue
      }
      for i in range(0, first.length) max 64 {
        rounds = rounds + 1
        if first[i] == 33 { break }
        last = last * 31 + first[i]
        if i == 2 {
          let inner = find(values["a"], first[0..i], 7) else continue
          reply "[" inner "]"
          if inner == first { reply "=" } else { reply "!" }
          if inner == "stop" { break }
          sum = sum ^ inner[0..min(inner.length, 4)].uint_be()
        }
      }
      if first.length > 5 && first[0] == 49 { reply first[0..2].decimal():dec }
      reply "<" last:dec " " sum:hex " " xxh64(first, sum):dec " " crc32c(first):dec " " first[1..first.length] ">"
    }
    reply "." rounds:dec
  }
  on malformed { reply "bad" }
}
)";

constexpr const char* kSkips = R"(
files values = "*.idx"
chain find(store: file values, key: bytes(max 16), extra: u8) -> bytes(max 64) hops 2 {
  step s(b: block at 0 for 64 in store) { return b[0..8] }
}
service s on tcp 9000 via uring {
  text Line { "get " numbers: int[1..8 by " "] "\n" }
  request { line: Line }
  on request {
    for n in line.numbers {
      if n == 13 { fail malformed }
      skip n
      reply n:dec ","
    }
    if line.numbers[0] == 7 {
      let v = find(values["a"], "key", 7) else fail not_found
      reply v
    }
  }
  on malformed { skip 100  reply "bad" }
}
)";

using Answered = std::function<std::optional<std::string>(const std::string& key)>;

struct Ran {
    std::string reply, outcome;
    unsigned calls = 0;
    std::uint64_t skipped = 0;
};

const spec::Loaded& small() {
    static const auto loaded = compiled(kFinding);
    return *loaded;
}

Ran run_by(const spec::Loaded& spec, const ir::CompiledHandler* code, const std::string& request,
           const Answered& answer) {
    const ir::Artifact& artifact = spec.artifact();
    std::vector<std::uint64_t> memory(artifact.layout.total / 8 + 8);
    auto& io = *reinterpret_cast<cio_io*>(memory.data());
    io.block_length = static_cast<std::uint32_t>(request.size());
    ir::HandlerRun::Memory own(artifact);
    const ir::Service& service = artifact.module.services.front();
    ir::HandlerRun handler(artifact, static_cast<std::uint32_t>(service.on_request_tcp), io,
                           reinterpret_cast<const std::uint8_t*>(request.data()), own, code);
    Ran ran;
    std::vector<std::string> results(own.results.size());
    for (;;) {
        const auto stop = handler.go_on();
        if (stop == ir::HandlerRun::Stop::ended) break;
        if (stop == ir::HandlerRun::Stop::call) {
            ran.calls++;
            ir::Bytes key;
            EXPECT_TRUE(handler.bytes(handler.call().bytes_args.at(0), key));
            EXPECT_EQ(handler.value(handler.call().args.at(0)), 7u);
            const auto found = answer(std::string(key.begin(), key.end()));
            if (!found) {
                handler.answer_absent();
                continue;
            }
            std::string& result = results[handler.call().result] = *found;
            handler.answer(result.size(), {reinterpret_cast<const std::uint8_t*>(result.data()), result.size()});
            continue;
        }
        for (const ir::ReplyPart& part : handler.reply().parts) {
            ir::Bytes bytes;
            if (part.format != ir::Format::bytes) {
                ran.reply += std::to_string(handler.value(part.value));
            } else if (handler.bytes(part.bytes, bytes)) {
                ran.reply.append(bytes.begin(), bytes.end());
            } else {
                handler.give_up(CIO_MALFORMED);
                break;
            }
        }
    }
    ran.outcome = ir::outcome_name(artifact.module, handler.outcome());
    ran.skipped = handler.skipped();
    return ran;
}

// By both; what the interpreter did.
Ran run_both(const spec::Loaded& spec, const std::string& request, const Answered& answer) {
    const auto program = static_cast<std::uint32_t>(spec.module().services.front().on_request_tcp);
    const ir::CompiledHandler* code = spec.handler(program);
    Ran ran = run_by(spec, nullptr, request, answer);
    EXPECT_NE(code, nullptr);
    const Ran native = run_by(spec, code, request, answer);
    EXPECT_EQ(native.reply, ran.reply) << request;
    EXPECT_EQ(native.outcome, ran.outcome) << request;
    EXPECT_EQ(native.calls, ran.calls) << request;
    EXPECT_EQ(native.skipped, ran.skipped) << request;
    return ran;
}

Ran run(const std::string& request, const Answered& answer) { return run_both(small(), request, answer); }

std::optional<std::string> known(const std::string& key) {
    if (key == "none") return std::nullopt;
    return "[" + key + "]!";
}

TEST(Handler, CallsInALoopEachWithItsOwnResult) {
    const Ran ran = run("get ab none cd\n", known);
    EXPECT_EQ(ran.reply, "<ab:ab>-<cd:cd>.3");
    EXPECT_EQ(ran.outcome, "ok");
    EXPECT_EQ(ran.calls, 3u);
}

TEST(Handler, BreakAndContinueInsideBranches) {
    EXPECT_EQ(run("get skip ab stop cd\n", known).reply, "<ab:ab>.4");
    EXPECT_EQ(run("get stop\n", known).reply, ".1");
}

TEST(Handler, WhatWasRepliedBeforeAFailureStays) {
    const Ran ran = run("get ab fail cd\n", known);
    EXPECT_EQ(ran.reply, "<ab:ab>");
    EXPECT_EQ(ran.outcome, "not_found");
}

TEST(Handler, ARequestOfBadFormRunsNothing) {
    for (const char* request : {"", "get \n", "put ab\n", "get ab", "get 1 2 3 4 5 6 7 8 9\n"}) {
        const Ran ran = run(request, known);
        EXPECT_EQ(ran.outcome, "malformed") << request;
        EXPECT_EQ(ran.reply, "") << request;
        EXPECT_EQ(ran.calls, 0u) << request;
    }
}

// v[1..3] of a result of two bytes: the bounds are those of the result, not of anything around it.
TEST(Handler, AResultEndsWhereItEnds) {
    const Ran ran = run("get ab\n", [](const std::string&) { return std::optional<std::string>("xy"); });
    EXPECT_EQ(ran.outcome, "malformed");
    EXPECT_EQ(run("get ab\n", [](const std::string&) { return std::optional<std::string>("xyz"); }).reply, "<ab:yz>.1");
}

TEST(Handler, DigitsOfNegativeNumbersStandBehindASign) {
    const auto spec = compiled(R"(
service s on tcp 9000 via uring {
  text Line { "get " number: int "\n" }
  request { line: Line }
  on request {
    let n = line.number as i64
    reply n:dec " ", (n as i8):dec " ", -7:dec " " line.number:dec
  }
}
)");
    const auto said = [&](const std::string& number) { return run_both(*spec, "get " + number + "\n", known).reply; };
    EXPECT_EQ(said("0"), "0 0 -7 0");
    EXPECT_EQ(said("200"), "200 -56 -7 200");
    EXPECT_EQ(said("18446744073709551615"), "-1 -1 -7 18446744073709551615");
    EXPECT_EQ(said("9223372036854775808"), "-9223372036854775808 0 -7 9223372036854775808");
    EXPECT_EQ(said("9223372036854775807"), "9223372036854775807 -1 -7 9223372036854775807");
}

// Of one that is longer, no handler sees a part.
TEST(Handler, NumbersOfRequestsHaveAtMostTwentyDigits) {
    const auto one = compiled(R"(
service s on tcp 9000 via uring {
  text Line { "get " number: int }
  request { line: Line }
  on request { reply line.number:dec }
}
)");
    EXPECT_EQ(run_both(*one, "get 00000000000000000007\n", known).reply, "7");
    EXPECT_EQ(run_both(*one, "get 000000000000000000007\n", known).outcome, "malformed");
    EXPECT_EQ(run_both(*one, "get 123456789012345678901\n", known).outcome, "malformed");
    const auto list = compiled(kSkips);
    EXPECT_EQ(run_both(*list, "get 1 00000000000000000002\n", known).reply, "1,2,");
    EXPECT_EQ(run_both(*list, "get 1 000000000000000000002\n", known).outcome, "malformed");
}

// Each takes two parts of what one reply may have.
TEST(Handler, AsManyOfThemAsAReplyMayHave) {
    std::string parts, wanted;
    for (std::uint32_t i = 0; i < ir::kMaxReplyParts; i++) {
        parts += (i == 0 ? "(n - " : ", (n - ") + std::to_string(i) + "):dec";
        wanted += std::to_string(5 - static_cast<int>(i));
    }
    std::string spec = R"(
service s on tcp 9000 via uring {
  text Line { "get " number: int "\n" }
  request { line: Line }
  on request {
    let n = line.number as i64
    reply PARTS
  }
}
)";
    spec.replace(spec.find("PARTS"), 5, parts);
    EXPECT_EQ(run_both(*compiled(spec.c_str()), "get 5\n", known).reply, wanted);
}

TEST(Handler, SkipsAddUpAndStayBehindAFailure) {
    const auto spec = compiled(kSkips);
    const auto skipped = [&](const std::string& numbers, const Answered& answer = known) {
        return run_both(*spec, "get " + numbers + "\n", answer).skipped;
    };
    EXPECT_EQ(skipped("0"), 0u);
    EXPECT_EQ(skipped("1 20 300"), 321u);
    EXPECT_EQ(skipped("1 20 13 300"), 21u);
    EXPECT_EQ(skipped("7 1"), 8u);
    EXPECT_EQ(skipped("7 1", [](const std::string&) { return std::nullopt; }), 8u) << "what the chain says is later";
    const std::string most = std::to_string(ir::kMaxSkip), all = std::to_string(UINT64_MAX);
    EXPECT_EQ(skipped(most), ir::kMaxSkip);
    EXPECT_EQ(skipped(most + " 1"), ir::kMaxSkip + 1);
    EXPECT_EQ(skipped(all), ir::kMaxSkip + 1);
    EXPECT_EQ(skipped(all + " " + all + " 2"), 2 * (ir::kMaxSkip + 1) + 2) << "it does not wrap";
}

// What chains answer depends on the key and on how many were asked before, so that both see the same.
TEST(Handler, NativeCodeDoesWhatTheInterpreterDoes) {
    const auto wide = compiled(kWide);
    std::mt19937 random(7);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    unsigned ended_well = 0;
    for (int turn = 0; turn < 2000; turn++) {
        std::string request = "get";
        for (std::uint32_t keys = 1 + below(8); keys > 0; keys--) {
            request += ' ';
            for (std::uint32_t length = 1 + below(5); length > 0; length--)
                request += static_cast<char>('a' + below(4));
        }
        if (below(20) != 0) request += '\n';
        std::vector<std::optional<std::string>> answers(64);
        for (auto& answer : answers) {
            if (below(5) == 0) continue;
            answer.emplace();
            for (std::uint32_t length = below(below(2) == 0 ? 4 : 64); length > 0; length--)
                *answer += static_cast<char>(below(3) == 0 ? '1' + below(3) : 33 + below(90));
            if (below(10) == 0) answer = "stop";
        }
        const spec::Loaded& of = below(4) == 0 ? small() : *wide;
        std::size_t next = 0;
        const auto program = static_cast<std::uint32_t>(of.module().services.front().on_request_tcp);
        const Answered in_turn = [&](const std::string& key) {
            return key == "abc" ? std::optional<std::string>("abc") : answers[next++ % answers.size()];
        };
        const Ran wanted = run_by(of, nullptr, request, in_turn);
        next = 0;
        const Ran native = run_by(of, of.handler(program), request, in_turn);
        ASSERT_EQ(native.reply, wanted.reply) << request;
        ASSERT_EQ(native.outcome, wanted.outcome) << request;
        ASSERT_EQ(native.calls, wanted.calls) << request;
        ASSERT_EQ(native.skipped, wanted.skipped) << request;
        ended_well += wanted.outcome == "ok" && wanted.calls > 1 ? 1 : 0;
    }
    EXPECT_GT(ended_well, 200u);
}

TEST(Handler, CanBeGivenUpAtACall) {
    const ir::Artifact& artifact = small().artifact();
    const std::string request = "get ab\n";
    const auto program = static_cast<std::uint32_t>(artifact.module.services.front().on_request_tcp);
    for (const ir::CompiledHandler* code :
         {static_cast<const ir::CompiledHandler*>(nullptr), small().handler(program)}) {
        std::vector<std::uint64_t> memory(artifact.layout.total / 8 + 8);
        auto& io = *reinterpret_cast<cio_io*>(memory.data());
        io.block_length = static_cast<std::uint32_t>(request.size());
        ir::HandlerRun::Memory own(artifact);
        ir::HandlerRun handler(artifact, program, io, reinterpret_cast<const std::uint8_t*>(request.data()), own, code);
        ASSERT_EQ(handler.go_on(), ir::HandlerRun::Stop::call);
        handler.call_again();
        ASSERT_EQ(handler.go_on(), ir::HandlerRun::Stop::call);
        handler.give_up(CIO_IO_ERROR);
        EXPECT_EQ(handler.go_on(), ir::HandlerRun::Stop::ended);
        EXPECT_EQ(handler.outcome(), std::uint32_t{CIO_IO_ERROR});
    }
}

// A number that no stop has ends the run like any other damage.
TEST(Handler, NativeCodeThatStopsNowhereIsNotFollowed) {
    const ir::Artifact& artifact = small().artifact();
    const ir::CompiledHandler code{[](cio_io* io, const unsigned char*) { io->vars[CIO_HANDLER_AT] = 1000; }, {}};
    std::vector<std::uint64_t> memory(artifact.layout.total / 8 + 8);
    auto& io = *reinterpret_cast<cio_io*>(memory.data());
    ir::HandlerRun::Memory own(artifact);
    const auto program = static_cast<std::uint32_t>(artifact.module.services.front().on_request_tcp);
    ir::HandlerRun handler(artifact, program, io, nullptr, own, &code);
    EXPECT_EQ(handler.go_on(), ir::HandlerRun::Stop::ended);
    EXPECT_EQ(handler.outcome(), std::uint32_t{CIO_MALFORMED});
}

TEST(Handler, SaysWhichFileItMisses) {
    const auto said = [](const char* name, std::vector<NamedFile> files, const char* pattern = "*.idx") {
        const std::string spec = std::string("files values = \"") + pattern + std::string(R"("
chain get(store: file values) -> bytes(max 64) hops 1 { step s(b: block at 0 for 64 in store) { return b } }
service s on tcp 9000 via uring {
  request { key: u8 }
  on request { let v = get(values[")") +
                                 name + R"("]) else fail not_found  reply v }
}
)";
        const ir::Artifact artifact = lowered(spec.c_str());
        const auto program = static_cast<std::uint32_t>(artifact.module.services.front().on_request_tcp);
        return missing_file(artifact.module, program, Files(std::move(files)));
    };
    const NamedFile one{"x/a.idx", 0, 1}, same{"y/a.idx", 0, 2}, other{"x/a.idx", 1, 3};
    EXPECT_EQ(said("", {one, other}), "");
    EXPECT_EQ(said("a.idx", {one, other}), "");
    EXPECT_EQ(said("y/a.idx", {one, same}), "");
    EXPECT_EQ(said("", {other}), "files 'values' has no file; open one: --file values=PATH");
    EXPECT_EQ(said("b.idx", {one}), "files 'values' has no file 'b.idx'; open it: --file values=PATH");
    EXPECT_EQ(said("/z/a.idx", {one}), "files 'values' has no file '/z/a.idx'; open it: --file values=/z/a.idx");
    EXPECT_EQ(said("/z/a.idx", {one}, "/z/a.idx"),
              "files 'values' has no file '/z/a.idx'; open it: --file values=/z/a.idx, or leave --file out");
    EXPECT_EQ(said("/z/*.idx", {one}, "/z/*.idx"),
              "files 'values' has no file '/z/*.idx'; open it: --file values=/z/*.idx");
    EXPECT_EQ(said("", {one, same}), "files 'values' has 2 files, and the service names none of them; open one only");
    EXPECT_EQ(said("a.idx", {one, same}), "files 'values' has 2 files 'a.idx'; open one of them only");
}

}  // namespace
}  // namespace chainio::service
