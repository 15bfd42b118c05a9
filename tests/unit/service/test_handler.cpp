// Handlers run by the interpreter: where they stop, what they reply, and how they end.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "compiler/diag/diag.h"
#include "compiler/ir/handler_run.h"
#include "compiler/ir/names.h"
#include "compiler/passes/lower.h"
#include "compiler/sema/check.h"
#include "compiler/syntax/parse.h"

namespace chainio::service {
namespace {

constexpr const char* kSpec = R"(
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

using Answer = std::function<std::optional<std::string>(const std::string& key)>;

struct Ran {
    std::string reply, outcome;
    unsigned calls = 0;
};

ir::Artifact compiled() {
    diag::Sources sources;
    diag::Diagnostics diagnostics;
    FileId id = sources.add("test.chain", kSpec);
    auto tree = syntax::parse_chain(id, sources, diagnostics);
    syntax::print_chain(*tree);
    auto none = [](const std::string&, FileId) { return sema::Loaded{}; };
    auto checked = sema::check(*tree, "test.chain", none, {}, diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diag::render_text(diagnostics, sources, false);
    ir::Artifact artifact;
    artifact.module = passes::lower(*checked);
    passes::run_passes(artifact.module);
    artifact.layout = ir::layout_of(artifact.module);
    EXPECT_EQ(ir::validate(artifact.module), "");
    return artifact;
}

Ran run(const std::string& request, const Answer& answer) {
    static const ir::Artifact artifact = compiled();
    std::vector<std::uint64_t> memory(artifact.layout.total / 8 + 8);
    auto& io = *reinterpret_cast<cio_io*>(memory.data());
    io.block_length = static_cast<std::uint32_t>(request.size());
    ir::HandlerRun::Memory own(artifact);
    const ir::Service& service = artifact.module.services.front();
    ir::HandlerRun handler(artifact, static_cast<std::uint32_t>(service.on_request_tcp), io,
                           reinterpret_cast<const std::uint8_t*>(request.data()), own);
    Ran ran;
    std::string result;
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
            result = *found;
            handler.answer(result.size(), {reinterpret_cast<const std::uint8_t*>(result.data()), result.size()});
            continue;
        }
        for (const ir::ReplyPart& part : handler.reply().parts) {
            ir::Bytes bytes;
            if (part.format == ir::Format::dec) {
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
    return ran;
}

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

TEST(Handler, CanBeGivenUpAtACall) {
    static const ir::Artifact artifact = compiled();
    std::vector<std::uint64_t> memory(artifact.layout.total / 8 + 8);
    auto& io = *reinterpret_cast<cio_io*>(memory.data());
    const std::string request = "get ab\n";
    io.block_length = static_cast<std::uint32_t>(request.size());
    ir::HandlerRun::Memory own(artifact);
    const auto program = static_cast<std::uint32_t>(artifact.module.services.front().on_request_tcp);
    ir::HandlerRun handler(artifact, program, io, reinterpret_cast<const std::uint8_t*>(request.data()), own);
    ASSERT_EQ(handler.go_on(), ir::HandlerRun::Stop::call);
    handler.call_again();
    ASSERT_EQ(handler.go_on(), ir::HandlerRun::Stop::call);
    handler.give_up(CIO_IO_ERROR);
    EXPECT_EQ(handler.go_on(), ir::HandlerRun::Stop::ended);
    EXPECT_EQ(handler.outcome(), std::uint32_t{CIO_IO_ERROR});
}

}  // namespace
}  // namespace chainio::service
