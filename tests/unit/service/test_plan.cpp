// Which services the kernel engine is given, and what stands in the way of the others.
#include <gtest/gtest.h>

#include <string>

#include "compiler/diag/diag.h"
#include "compiler/ir/kernel_handlers.h"
#include "compiler/passes/lower.h"
#include "compiler/sema/check.h"
#include "compiler/syntax/parse.h"
#include "runtime/service/plan.h"

namespace chainio::service {
namespace {

constexpr const char* kChains = R"(
files values = "*.idx"
chain get(store: file values, number: u32) -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 100 for 100 in store) { return b }
}
chain count(store: file values, number: u32) -> u64 hops 1 {
  step s(b: block at number * 100 for 100 in store) { return number }
}
chain collect(store: file values) -> bytes(max 64KiB) hops 1 {
  step s(b: block at 0 for 100 in store) { emit b }
}
)";

ir::Module module_of(const std::string& text, const std::string& chains = kChains) {
    diag::Sources sources;
    diag::Diagnostics diagnostics;
    const FileId id = sources.add("test.chain", chains + text);
    auto tree = syntax::parse_chain(id, sources, diagnostics);
    syntax::print_chain(*tree);
    auto none = [](const std::string&, FileId) { return sema::Loaded{}; };
    auto checked = sema::check(*tree, "test.chain", none, {}, diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diag::render_text(diagnostics, sources, false);
    ir::Module module = passes::lower(*checked);
    passes::run_passes(module);
    return module;
}

std::string service(const std::string& via, const std::string& request, const std::string& handler,
                    const std::string& name = "s") {
    return "service " + name + " on " + via + " {\n  request { " + request + " }\n  on request {\n" + handler +
           "\n  }\n  on failure { reply \"sorry\" }\n}\n";
}

std::string binary(const std::string& handler) { return service("tcp 9000 via auto", "number: u32be", handler); }

constexpr const char* kGet = "let v = get(values[\"a\"], request.number) else fail not_found\nreply v.length:u16be v";

std::string obstacle(const std::string& text) {
    const ir::Module module = module_of(text);
    const auto plan = plan_of(module, true);
    EXPECT_EQ(plan.size(), 1u);
    EXPECT_EQ(plan[0].refused, "");
    EXPECT_EQ(plan[0].inside, plan[0].outside.empty());
    EXPECT_EQ(ir::kernel_services(module).size(), plan[0].inside ? 1u : 0u);
    return plan[0].outside;
}

TEST(Plan, RequestsOfFixedSizeAreAnsweredInside) {
    EXPECT_EQ(obstacle(binary(kGet)), "");
    EXPECT_EQ(obstacle(binary("reply request.number:dec request.number:hex")), "");
    EXPECT_EQ(
        obstacle(binary("if request.number == 1 { let v = count(values[\"a\"], 1) else fail not_found reply v:u8 }\n"
                        "else { let v = get(values[\"b\"], 2) else fail not_found reply v[1..3] }")),
        "");
}

TEST(Plan, WhatCannotBeAnsweredInsideIsNamed) {
    EXPECT_EQ(
        obstacle(service("tcp 9000 via auto", "line: Line",
                         "reply request.line.word }\n  text Line { word: word(max 8) \"\\n\" }\n  on malformed {")),
        "the size of its requests is not fixed");
    EXPECT_EQ(obstacle(binary("let a = count(values[\"a\"], 1) else fail not_found\n"
                              "let b = count(values[\"a\"], 2) else fail not_found\nreply a:dec b:dec")),
              "its handler calls several chains, one after the other");
    EXPECT_EQ(obstacle(binary(
                  "for i in range(0, 3) { let a = count(values[\"a\"], i as u32) else fail not_found reply a:dec }")),
              "its handler calls several chains, one after the other");
    EXPECT_EQ(obstacle(binary("let v = collect(values[\"a\"]) else fail not_found\nreply v v")),
              "its replies may be longer than 64 KiB");
    EXPECT_EQ(
        obstacle(binary("let v = get(values[\"a\"], 1) else fail not_found\nif v == \"x\" { fail close }\nreply v")),
        "its handler looks into a result, or keeps bytes of its own");
    EXPECT_EQ(obstacle(binary("reply \"a\"\nlet v = get(values[\"a\"], 1) else fail close\nreply v")),
              "its handler closes the connection where a chain fails");
    EXPECT_EQ(obstacle(binary("skip request.number\nreply \"x\"")), "its handler skips what is behind a request");
}

TEST(Plan, WithoutACallChainNothingIsAnsweredInside) {
    const std::string text =
        service("tcp 9000 via kernel, tcp 9001 via auto", "number: u32be", "reply request.number:dec");
    const ir::Module module = module_of(text, "");
    const std::string why = "the spec has no call chain, without which nothing runs inside the kernel";
    const auto plan = plan_of(module, true);
    ASSERT_EQ(plan.size(), 2u);
    EXPECT_EQ(plan[0].refused, why + "; write `via uring`");
    EXPECT_EQ(plan[1].outside, why);
    EXPECT_EQ(ir::kernel_services(module).size(), 0u);
    EXPECT_EQ(ir::kernel_services(module_of(text)).size(), 1u);
}

TEST(Plan, ViaKernelAsksForIt) {
    const ir::Module module =
        module_of(service("tcp 9000 via kernel, udp 9001 via kernel, tcp 9002 via uring", "number: u32be", kGet));
    const auto with = plan_of(module, true), without = plan_of(module);
    ASSERT_EQ(with.size(), 3u);
    EXPECT_TRUE(with[0].inside && with[0].refused.empty());
    EXPECT_EQ(with[1].refused, "datagrams are not answered inside the kernel; write `via uring`");
    EXPECT_TRUE(!with[2].inside && with[2].refused.empty() && with[2].outside.empty());
    EXPECT_EQ(without[0].refused, "it is answered inside the kernel: start with --engine=kernel, or write `via auto`");
    EXPECT_TRUE(without[2].refused.empty());
}

TEST(Plan, EachEndpointOfAServiceHasAPlaceOfItsOwn) {
    const ir::Module module =
        module_of(service("tcp 9000 via kernel, tcp 9001 via uring, tcp 9002 via auto", "number: u32be", kGet));
    Plan plan = plan_of(module, true);
    ASSERT_EQ(plan.size(), 3u);
    EXPECT_TRUE(plan[0].inside && !plan[1].inside && plan[2].inside);
    EXPECT_TRUE(!plan[0].in_user_space() && plan[1].in_user_space() && !plan[2].in_user_space());

    place_outside(module, "there is no kernel engine", plan);
    EXPECT_EQ(plan[0].refused, "there is no kernel engine, or write `via auto`");
    EXPECT_EQ(plan[2].outside, "there is no kernel engine");
    EXPECT_TRUE(plan[1].refused.empty() && plan[1].outside.empty());
    EXPECT_TRUE(!plan[0].in_user_space() && plan[1].in_user_space() && plan[2].in_user_space());
}

TEST(Plan, OnlySoManyServicesAreAnsweredInside) {
    std::string text;
    for (int i = 0; i < 10; i++)
        text +=
            service("tcp " + std::to_string(9000 + i) + " via auto", "number: u32be", kGet, "s" + std::to_string(i));
    const auto plan = plan_of(module_of(text), true);
    for (std::size_t i = 0; i < plan.size(); i++)
        EXPECT_EQ(plan[i].outside, i < 8 ? "" : "the kernel answers no more services than those before it") << i;
}

TEST(Plan, OnlySoManyEndpointsAreAnsweredInside) {
    std::string first, second;
    for (int i = 0; i < 4; i++) {
        first += (i == 0 ? "tcp " : ", tcp ") + std::to_string(9000 + i) + " via auto";
        second += (i == 0 ? "tcp " : ", tcp ") + std::to_string(9004 + i) + " via kernel";
    }
    second += ", tcp 9008 via kernel, tcp 9009 via auto, tcp 9010 via uring";
    const ir::Module module =
        module_of(service(first, "number: u32be", kGet, "first") + service(second, "number: u32be", kGet, "second"));
    const std::string why = "the kernel answers no more endpoints than those before it";
    const auto plan = plan_of(module, true), without = plan_of(module);
    ASSERT_EQ(plan.size(), 11u);
    for (std::size_t i = 0; i < 8; i++) EXPECT_TRUE(plan[i].inside) << i;
    EXPECT_EQ(plan[8].refused, why + "; write `via uring`");
    EXPECT_EQ(plan[9].outside, why);
    EXPECT_TRUE(plan[10].in_user_space() && plan[10].outside.empty());
    EXPECT_EQ(without[8].refused, plan[8].refused);
    EXPECT_TRUE(without[9].in_user_space() && without[9].outside.empty());
}

TEST(Plan, ServicesInUserSpaceTakeNoPlaceInside) {
    std::string text;
    for (int i = 0; i < 8; i++) {
        const std::string port = std::to_string(9000 + i);
        text += service("tcp " + port + " via uring, udp " + port + " via auto", "number: u32be", kGet,
                        "s" + std::to_string(i));
    }
    text += service("tcp 9008 via kernel", "number: u32be", kGet, "last");
    const ir::Module module = module_of(text);
    EXPECT_EQ(ir::kernel_services(module), std::vector<std::uint32_t>{8});
    EXPECT_TRUE(plan_of(module, true).back().inside);
    EXPECT_EQ(plan_of(module).back().refused,
              "it is answered inside the kernel: start with --engine=kernel, or write `via auto`");
}

TEST(Plan, RepliesAreAsLongAsTheirChainsCanMakeThem) {
    // A block of 100 bytes is the most that `get` can return, whatever it declares; its length and `sorry` come to it.
    EXPECT_EQ(ir::longest_kernel_reply(module_of(binary(kGet))), 2u + 100u + 5u);
}

TEST(Plan, TheShortestRequestHasItsFixedFieldsAndInAStreamAnEnd) {
    const auto shortest = [](const std::string& fields, bool tcp) {
        const std::string text =
            service("tcp 9000 via uring, udp 9000 via uring", fields,
                    "reply \"x\" }\n  text Line { word: word(max 8) \"\\r\\n\" }\n  on malformed {");
        return shortest_request(module_of(text).services[0], tcp);
    };
    EXPECT_EQ(shortest("number: u32be", true), 4u);
    EXPECT_EQ(shortest("number: u32be  line: Line", true), 6u);
    EXPECT_EQ(shortest("number: u32be  line: Line", false), 4u) << "the last line of a datagram needs none";
    EXPECT_EQ(shortest("size: u16be  body: bytes(size)", true), 0u) << "that cannot be told";
}

}  // namespace
}  // namespace chainio::service
