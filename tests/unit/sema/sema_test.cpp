// What the checker makes of specs: the parts that the diagnostics' own tests do not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "compiler/sema/check.h"
#include "compiler/syntax/literals.h"
#include "compiler/syntax/parse.h"

namespace chainio::sema {
namespace {

using checked::Expr;
using checked::ExprKind;
using checked::StmtKind;

// Checks the spec "main" among texts that may import one another.
struct Spec {
    diag::Sources sources;
    diag::Diagnostics diags;
    std::map<std::string, std::unique_ptr<ast::File>> files;
    std::optional<checked::Module> module;

    Spec(std::map<std::string, std::string> texts, CheckOptions options = {}) {
        for (const auto& [name, text] : texts)
            files[name] = syntax::parse_chain(sources.add(name, text), sources, diags);
        const Loader loader = [&](const std::string& path, FileId) {
            auto it = files.find(path);
            return it == files.end() ? Loaded{nullptr, "", {path}} : Loaded{it->second.get(), path, {}};
        };
        module = check(*files.at("main"), "main", loader, options, diags);
    }
    explicit Spec(const std::string& text, CheckOptions options = {})
        : Spec(std::map<std::string, std::string>{{"main", text}}, std::move(options)) {}
    std::string said() const { return diag::render_text(diags, sources, false); }
};

const checked::Chain& chain_of(const Spec& spec, const std::string& name) {
    auto it = std::ranges::find(spec.module->chains, name, &checked::Chain::name);
    if (it == spec.module->chains.end()) throw std::runtime_error("no chain " + name);
    return *it;
}

int count(const Expr& e, ExprKind kind) {
    int n = e.kind == kind ? 1 : 0;
    for (const auto& kid : e.kids)
        if (kid) n += count(*kid, kind);
    if (e.body) n += count(*e.body->body, kind);
    return n;
}

std::uint32_t batch_max(const std::string& expr, CheckOptions options = {}) {
    Spec spec("param P = 3\nbatch { max " + expr + " }\n", std::move(options));
    return spec.module ? spec.module->batch.max : 0;
}

const char* const kChain = R"(
files pages = "*.db" { header Header }
record Header { magic: u32be  unit: u16be  _: at 64 }
record Node { kind: u8 in { 1 leaf, 2 inner }  _: u8  count: u16le  keys: u64le[count max 60] }
)";

TEST(Constants, AreExactUntilTheyMeetAType) {
    EXPECT_EQ(batch_max("(1 << 63) * 2 / (1 << 63)"), 0U) << "the product does not fit 64 bits";
    EXPECT_EQ(batch_max("0xffffffffffffffff - 0xfffffffffffffff0"), 15U);
    EXPECT_EQ(batch_max("-5 + 12"), 7U);
    EXPECT_EQ(batch_max("-16 >> 1 == -8 ? 9 : 1"), 9U);
    EXPECT_EQ(batch_max("(300 as u8) + (0 - 1 as u8 == 255 ? 1 : 0)"), 44U)
        << "a typed constant wraps: 300 as u8 is 44";
    EXPECT_EQ(batch_max("~0 == 0xffffffffffffffff ? 5 : 6"), 5U);
    EXPECT_EQ(batch_max("P in (2, 3) ? 8 : 9"), 8U);
    EXPECT_EQ(batch_max("P in (2, 4) || INNER ? 8 : 9\n}\nconst INNER = P + 1 in (5, 6)\nclass x {"), 9U);
    EXPECT_EQ(batch_max("4KiB / 1KiB"), 4U) << "a quotient of sizes is a plain number";
    EXPECT_EQ(batch_max("min(4, P) * max(2, P)"), 9U);
    EXPECT_EQ(batch_max("\"a\" < \"ab\" && \"\\xff\" > \"a\" ? 2 : 1"), 2U)
        << "bytes compare as memcmp, then by length";
}

TEST(Constants, AreGivenOnTheCommandLine) {
    diag::Diagnostics problems;
    const auto given = [](const char* name, const char* text, auto value) {
        return CheckOptions{{{name, {.text = text, .value = std::move(value), .problem = {}, .hint = {}}}}, ""};
    };
    EXPECT_EQ(batch_max("P", given("P", "0x11", syntax::read_int("0x11", {}, problems))), 17U);
    EXPECT_EQ(batch_max("P / 1KiB", given("P", "4KiB", syntax::read_int("4KiB", {}, problems))), 4U);
    EXPECT_EQ(batch_max("P ? 1 : 2", given("P", "false", false)), 2U);
    Spec files("param files idx = \"*.idx\"\n", given("idx", "*.tree", std::monostate{}));
    ASSERT_TRUE(files.module) << files.said();
    EXPECT_EQ(files.module->files[0].info.pattern, "*.tree");
}

TEST(Imports, AreInstancesOfTheirOwn) {
    Spec spec({{"lib", R"(param SIZE = 512
param files data = "*.dat" { header Head }
record Head { root: u64le }
record Block { words: u64le[SIZE / 8] }
chain first(d: file data) -> u64 { step s(b: Block at d.root for SIZE) { return b.words[0] } }
)"},
               {"main", R"(import "lib" as small with { data = pages }
import "lib" as large with { SIZE = 4096 }
files pages = "*.db"
)"}});
    ASSERT_TRUE(spec.module) << spec.said();
    const checked::Chain& small = chain_of(spec, "small.first");
    const checked::Chain& large = chain_of(spec, "large.first");
    EXPECT_EQ(small.steps[0].length->value, 512U);
    EXPECT_EQ(large.steps[0].length->value, 4096U);
    EXPECT_EQ(spec.module->records[*small.steps[0].record].fixed_size, 512);
    EXPECT_EQ(spec.module->records[*large.steps[0].record].fixed_size, 4096);
    const checked::FileClass& pages = spec.module->files[small.params[0].file_class];
    EXPECT_EQ(pages.info.name, "pages");
    EXPECT_GE(pages.header_record, 0) << "what stands in for a class takes over its header";
    EXPECT_EQ(spec.module->files[large.params[0].file_class].info.name, "large.data");
}

TEST(Functions, EvaluateAnArgumentOnce) {
    Spec spec(std::string(kChain) + R"(fn thrice(x) = x + x + x
chain f(db: file pages) -> u64 { step s(n: Node at 0 for 512) { return thrice(n.keys[n.count - 1]) } })");
    ASSERT_TRUE(spec.module) << spec.said();
    const checked::Step& step = chain_of(spec, "f").steps[0];
    const Expr& value = *step.body.block.back()->value;
    EXPECT_EQ(value.kind, ExprKind::let_in);
    EXPECT_EQ(count(value, ExprKind::element), 1);
    EXPECT_EQ(count(value, ExprKind::local), 5) << "three uses of the argument, and the view twice";
}

TEST(Functions, OfConstantsAreConstants) {
    EXPECT_EQ(batch_max("f(P, 2)\n}\nfn f(a, b) { let c = a * b  c + 1 }\nclass x {"), 7U);
}

TEST(Goto, FillsInTheDefaultsOfTheStep) {
    Spec spec(std::string(kChain) + R"(chain f(db: file pages, key: u64) -> u64 hops 4 {
  step s(n: Node at key for db.unit) { let db_ = n.keys[0]  goto s at db_ }
  done { return 1 } })");
    ASSERT_TRUE(spec.module) << spec.said();
    const checked::Stmt& next = *chain_of(spec, "f").steps[0].body.block.back();
    ASSERT_EQ(next.kind, StmtKind::next);
    EXPECT_TRUE(next.ends);
    EXPECT_EQ(next.value2->kind, ExprKind::header_field);
    EXPECT_EQ(next.value2->index2, 1U) << "`unit` is the second field";
}

TEST(Match, OfAllValuesNeedsNoElse) {
    Spec spec(std::string(kChain) + R"(chain f(db: file pages) -> u64 {
  step s(n: Node at 0 for 512) { match n.kind { inner { return 1 } leaf { return 2 } } } })");
    ASSERT_TRUE(spec.module) << spec.said();
    const checked::Block& block = chain_of(spec, "f").steps[0].body.block;
    ASSERT_EQ(block.size(), 2U) << "the value, then the test";
    EXPECT_EQ(block[0]->kind, StmtKind::let);
    ASSERT_EQ(block[1]->kind, StmtKind::if_);
    EXPECT_EQ(block[1]->value->kids[1]->value, 2U);
    ASSERT_EQ(block[1]->otherwise.size(), 1U);
    EXPECT_EQ(block[1]->otherwise[0]->kind, StmtKind::return_) << "the last arm is not tested";
}

TEST(Variables, OfBytesAreScratchState) {
    Spec spec(std::string(kChain) + R"(chain f(db: file pages) -> bytes(max 8) {
  step s(n: Node at 0 for 512) {
    for i in range(0, 2) { var k: bytes(max 8)  k.append("x")  if i == n.count { return k } }
    fail my_word
  } })");
    ASSERT_TRUE(spec.module) << spec.said();
    const checked::Chain& chain = chain_of(spec, "f");
    ASSERT_EQ(chain.state.size(), 1U);
    EXPECT_TRUE(chain.state[0].scratch);
    const checked::Block& loop = chain.steps[0].body.block[0]->body;
    EXPECT_EQ(loop[0]->kind, StmtKind::assign_state) << "each turn begins with the empty variable";
    EXPECT_EQ(loop[1]->kind, StmtKind::append_state);
    EXPECT_EQ(spec.module->reasons, std::vector<std::string>{"my_word"});
}

TEST(Results, OfExactLengthAreCheckedUnlessKnown) {
    Spec spec(std::string(kChain) + R"(chain f(db: file pages) -> bytes(8) {
  step s(n: Node at 0 for 512) {
    if n.count == 1 { return block[n.count..n.count + 8] }
    return block[n.count..16]
  } })");
    ASSERT_TRUE(spec.module) << spec.said();
    const checked::Block& block = chain_of(spec, "f").steps[0].body.block;
    EXPECT_EQ(block[0]->body.size(), 1U) << "x..x + 8 has 8 bytes";
    ASSERT_EQ(block.size(), 4U) << "the value, its length's test, the result";
    EXPECT_EQ(block[2]->kind, StmtKind::if_);
    EXPECT_EQ(block[2]->body[0]->kind, StmtKind::fail);
}

TEST(Optionals, StandAtTheTopAfterAFunction) {
    Spec spec(std::string(kChain) + R"(fn place(n, key) = n.keys.find(key + 1)
chain f(db: file pages, key: u64) -> u64 {
  step s(n: Node at 0 for 512) { let i = place(n, key * 2) else fail not_found  return i } })");
    ASSERT_TRUE(spec.module) << spec.said();
    const checked::Block& block = chain_of(spec, "f").steps[0].body.block;
    ASSERT_EQ(block.size(), 3U);
    EXPECT_EQ(block[0]->kind, StmtKind::let) << "the argument";
    EXPECT_EQ(block[1]->value->kind, ExprKind::search);
    EXPECT_TRUE(block[1]->value->type.optional);
}

TEST(Choices, KeepTheirMeaningNextToTheirField) {
    Spec spec(R"(files pages = "*.db"
record A { kind: u8 in { 1 leaf } }
record B { kind: u8 in { 7 leaf }  let root = kind == leaf ? A.leaf : 0 }
chain f(db: file pages) -> u64 { step s(b: B at 0 for 8) { return b.kind in (leaf) ? b.root : A.leaf } })");
    ASSERT_TRUE(spec.module) << spec.said();
    const Expr& test = *spec.module->records[1].fields[1].value->kids[0];
    EXPECT_EQ(test.kids[1]->value, 7U);
    const Expr& result = *chain_of(spec, "f").steps[0].body.block[0]->value;
    EXPECT_EQ(count(result, ExprKind::field), 2);
}

TEST(Services, MatchTheirTextBeforeTheHandler) {
    Spec spec(R"(service kv on udp 1 via xdp, tcp 1 via uring {
  text Get { "get " key: token(max 8) "\r\n" }
  request udp { id: u16be  line: Get }
  request tcp { line: Get }
  cache 8 entries ttl 1s key line.key
  on request { reply line.key " " request.line.key.length:dec }
})");
    ASSERT_TRUE(spec.module) << spec.said();
    const checked::Service& kv = spec.module->services[0];
    ASSERT_TRUE(kv.udp && kv.tcp && kv.udp_key);
    EXPECT_GE(kv.udp->request_record, 0);
    EXPECT_EQ(kv.tcp->request_record, -1);
    const checked::Stmt& match = *kv.udp->body.block[0];
    ASSERT_EQ(match.kind, StmtKind::let);
    EXPECT_EQ(match.value->kind, ExprKind::text_match);
    EXPECT_EQ(match.value->kids[0]->kids[1]->kind, ExprKind::view_end) << "the text begins behind the record";
    EXPECT_EQ(match.otherwise[0]->index, 1U) << "malformed";
    EXPECT_EQ(kv.udp_key->block.back()->kind, StmtKind::reply);
}

TEST(Errors, InOneFunctionAreReportedOnce) {
    Spec spec(std::string(kChain) + R"(fn bad(n) = n.nothing
chain f(db: file pages) -> u64 { step s(n: Node at 0 for 512) { let a = bad(n)  let b = bad(n)  return a + b } })");
    EXPECT_FALSE(spec.module);
    EXPECT_EQ(spec.diags.error_count(), 1U) << spec.said();
}

TEST(Errors, OfAMissingImportDoNotMultiply) {
    Spec spec(R"(import "gone" as lib
import "away"
files pages = "*.db"
chain f(db: file pages) -> u64 { step s(n: lib.Node at lib.page(X) for 8) { return helper(n.key, Y) } })");
    EXPECT_FALSE(spec.module);
    EXPECT_EQ(spec.diags.error_count(), 2U) << spec.said();
}

}  // namespace
}  // namespace chainio::sema
