// Text rules, shadow chains and handlers.
#include "tests/unit/passes/spec.h"

namespace chainio::passes::test {
namespace {

std::string on_ready(const std::string& rule, const std::string& body) {
    return "files docroot = \"/srv/*\" { root \"/srv\" }\nsocket clients = tcp port 80\ntext T { " + rule +
           " }\nchain a on ready(clients) as c { when c.text(T) as g { " + body + " } }\n";
}
std::string name_of(const Ran& ran, const Block& block, std::size_t i = 0) {
    if (ran.names != "ok" || ran.prefetches.size() <= i) return "(" + ran.names + ")";
    const cio_prefetch& p = ran.prefetches[i];
    EXPECT_EQ(p.name_space, CIO_SPACE_BLOCK);
    return std::string(block.begin() + p.name_offset, block.begin() + p.name_offset + p.name_length);
}
// The path that the rule captures in the text, or "(ok)" when the rule does not match.
std::string path_in(const Spec& spec, std::string_view text) {
    Block block = bytes(text);
    return name_of(spec.run("a", block), block);
}

TEST(Text, TokensEndAtTheNextLiteral) {
    Spec spec(on_ready("\"GET \" path: token(max 8) \" HTTP/1.\" rest: rest(max 64)", "prefetch docroot[g.path]"));
    EXPECT_EQ(path_in(spec, "GET /a HTTP/1.1\r\n"), "/a");
    EXPECT_EQ(path_in(spec, "GET /a b HTTP/1.1"), "/a b");
    EXPECT_EQ(path_in(spec, "GET /1234567 HTTP/1.1"), "/1234567");
    EXPECT_EQ(path_in(spec, "GET /12345678 HTTP/1.1"), "(ok)") << "longer than max";
    EXPECT_EQ(path_in(spec, "GET  HTTP/1.1"), "(ok)") << "a token has at least one byte";
    EXPECT_EQ(path_in(spec, "GET /a HTTP/2"), "(ok)");
    EXPECT_EQ(path_in(spec, "GET /a HTTP/1"), "(ok)");
    EXPECT_EQ(path_in(spec, "POST /a HTTP/1.1"), "(ok)");
    EXPECT_EQ(path_in(spec, ""), "(ok)");
}

TEST(Text, WordsNumbersAndChoices) {
    Spec spec(on_ready("verb: (\"get\" | \"gets\") \" \" path: word(max 4) \" \" n: int \"\\r\\n\"",
                       "if g.n == 18446744073709551615 || g.n == 7 { prefetch docroot[g.path] }"));
    EXPECT_EQ(path_in(spec, "get abc 7\r\n"), "abc");
    EXPECT_EQ(path_in(spec, "gets abcd 18446744073709551615\r\n"), "abcd");
    EXPECT_EQ(path_in(spec, "get abcde 7\r\n"), "(ok)");
    EXPECT_EQ(path_in(spec, "get abc 18446744073709551616\r\n"), "(ok)") << "does not fit 64 bits";
    EXPECT_EQ(path_in(spec, "get abc x\r\n"), "(ok)");
    EXPECT_EQ(path_in(spec, "get abc 8\r\n"), "(ok)");
}

// Zeros before a number are digits as any: what has more than 20 of them is no number, and never another one.
TEST(Text, NumbersHaveAtMostTwentyDigits) {
    Spec last(on_ready("path: word(max 4) \" \" n: int", "if g.n == 7 { prefetch docroot[g.path] }"));
    EXPECT_EQ(path_in(last, "a 7"), "a");
    EXPECT_EQ(path_in(last, "b 00000000000000000007"), "b");
    EXPECT_EQ(path_in(last, "b 00000000000000000007 8"), "b");
    Spec any(on_ready("path: word(max 4) \" \" n: int", "prefetch docroot[g.path]"));
    EXPECT_EQ(path_in(any, "c 12345678901234567890"), "c");
    for (const std::string digits : {"123456789012345678901", "000000000000000000007", "000000000000000000000"}) {
        EXPECT_EQ(path_in(any, "d " + digits), "(ok)") << digits;
        EXPECT_EQ(path_in(any, "d " + digits + "\r\n"), "(ok)") << digits;
        EXPECT_EQ(path_in(any, "d " + digits + digits), "(ok)") << digits;
    }
    Spec list(on_ready("path: word(max 4) \" \" n: int[1..4 by \",\"]", "prefetch docroot[g.path]"));
    EXPECT_EQ(path_in(list, "e 1,00000000000000000007,3"), "e");
    EXPECT_EQ(path_in(list, "e 123456789012345678901"), "(ok)");
    EXPECT_EQ(path_in(list, "e 1,000000000000000000007"), "(ok)");
    EXPECT_EQ(path_in(list, "e 1,000000000000000000007,3"), "(ok)");
    EXPECT_EQ(path_in(list, "e 1,2,3,123456789012345678901"), "(ok)");
}

TEST(Text, Repetitions) {
    Spec spec(
        on_ready("\"get \" keys: token(max 3)[1..3 by \" \"] \"\\r\\n\"", "for k in g.keys { prefetch docroot[k] }"));
    auto names = [&](std::string_view text) {
        Block block = bytes(text);
        Ran ran = spec.run("a", block);
        std::string all;
        for (std::size_t i = 0; i < ran.prefetches.size(); i++) all += name_of(ran, block, i) + ";";
        return all;
    };
    EXPECT_EQ(names("get a\r\n"), "a;");
    EXPECT_EQ(names("get a bb ccc\r\nrest"), "a;bb;ccc;");
    EXPECT_EQ(names("get a bb ccc d\r\n"), "") << "more than three";
    EXPECT_EQ(names("get abcd\r\n"), "");
    EXPECT_EQ(names("get \r\n"), "");
    EXPECT_EQ(names("get a  b\r\n"), "") << "an empty one";
    EXPECT_EQ(names("get a b"), "");
    Spec second(on_ready("\"get \" keys: token(max 3)[2..3 by \", \"] \"\\r\\n\"", "prefetch docroot[g.keys[1]]"));
    EXPECT_EQ(path_in(second, "get a, bb, c\r\n"), "bb");
    EXPECT_EQ(path_in(second, "get a\r\n"), "(ok)");
}

TEST(Shadow, PrefetchesInEveryWay) {
    Spec spec(R"(
files marks = "*.mrk"
files columns = "*.bin"
record Mark { place: u64le  size: u16le }
chain g on read(marks) as r {
  for m in r.records(Mark, max 4) { prefetch columns.sibling(r, ".bin") at m.place for m.size as u64 }
  prefetch r.file at r.offset for 4KiB
}
)");
    Block block = {1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    Ran ran = spec.run("g", block, [](cio_io& io, std::uint8_t*) { io.block_offset = 70; });
    ASSERT_EQ(ran.names, "ok");
    ASSERT_EQ(ran.prefetches.size(), 2u) << "a computed length of 0 prefetches nothing";
    EXPECT_EQ(ran.prefetches[0].kind, CIO_PREFETCH_SIBLING);
    EXPECT_EQ(ran.prefetches[0].target, 1u);
    EXPECT_EQ(ran.prefetches[0].offset, 1u);
    EXPECT_EQ(ran.prefetches[0].length, 5u);
    EXPECT_EQ(ran.prefetches[1].kind, CIO_PREFETCH_SAME);
    EXPECT_EQ(ran.prefetches[1].offset, 70u);
    EXPECT_EQ(ran.prefetches[1].length, 4096u);
}

TEST(Handler, CallsAndReplies) {
    ir::Module m = lowered(R"(
files pages = "*.db" { immutable }
chain get(db: file pages, key: u64) -> bytes(max 64) hops 2 { step s(b: block at key for 64) { return b[0..8] } }
service kv on udp 9100 via xdp {
  request { op: u8  key: u64be }
  cache 100 entries ttl 1s key request.key
  on request {
    let v = get(pages["main.idx"], request.key) else fail not_found
    reply "VALUE " v.length:dec " " v "\r\n"
  }
  on malformed { reply "ERROR" }
}
)");
    EXPECT_EQ(ir::validate(m), "");
    ASSERT_EQ(m.services.size(), 1u);
    std::string text = ir::dump(m);
    EXPECT_NE(text.find("= call 0 (result 0) args (%"), std::string::npos) << text;
    EXPECT_NE(text.find("bytes () files (0 literal["), std::string::npos) << text;
    EXPECT_NE(text.find(":dec, literal["), std::string::npos) << text;
    EXPECT_NE(text.find("result[0 +%"), std::string::npos) << text;
    EXPECT_EQ(m.services[0].cache.compared, (std::vector<std::uint8_t>{0, 1, 1, 1, 1, 1, 1, 1, 1}));
    EXPECT_GE(m.services[0].on_malformed, 0);
}

// Of a record in a request, a kept reply depends on the fields that have to have a value, and not on all of them.
TEST(Handler, KeepsByTheConditionsOfARecord) {
    const ir::Module m = lowered(R"(
record Frame { id: u16be  parts: u16be == 1  _: u8 }
service kv on udp 9100 via xdp {
  request { frame: Frame  key: u16be }
  cache 100 entries ttl 1s
  on request { reply request.key:dec }
  on datagram { reply request.frame.id:u16be }
}
)");
    EXPECT_EQ(m.services[0].cache.compared, (std::vector<std::uint8_t>{0, 0, 1, 1, 0, 1, 1}));
}

}  // namespace
}  // namespace chainio::passes::test
