// Requests of a stream whose fields say where they end.
#include <gtest/gtest.h>

#include <string>

#include "runtime/service/connection.h"
#include "tests/unit/service/compiled.h"
#include "tests/unit/service/rig.h"

namespace chainio::service {
namespace {

using namespace std::string_literals;
using test::Rig;

struct Way {
    const char* name;
    std::string fields, request;  // without what closes it, if something does
    std::string records = {}, end = {};
};

std::string spec_of(const Way& way) {
    const std::string line = way.end.empty() ? "" : "  text Line { rest: token(max 8) \"" + way.end + "\" }\n";
    const std::string of_line = way.end.empty() ? "" : "  line: Line";
    return "files rows = \"*.rows\"\n" + way.records + "\nservice s on tcp 9000 via uring {\n" + line + "  request { " +
           way.fields + of_line + " }\n  on request { reply \"yes\" }\n}\n";
}

// Of one service; natively, or by the interpreter.
class Stream {
  public:
    explicit Stream(const Way& way, bool natively = true) : spec_(spec_of(way)) {
        engine::test::FakeDisk disk;
        disk.files.resize(1);
        rig_.emplace(natively ? compiled(spec_.c_str()) : spec::Loaded::from_artifact(lowered(spec_.c_str())),
                     std::move(disk), Rig::Options{});
    }
    Request first(std::string_view there, std::size_t most = 4096) {
        const ir::Framing& framing = rig_->engine().spec().module().services[0].tcp_framing;
        const std::span bytes(reinterpret_cast<const std::uint8_t*>(there.data()), there.size());
        std::size_t looked = 0;
        return first_request(rig_->requests->fields_of(framing, bytes), framing.end, bytes, most, looked);
    }

  private:
    std::string spec_;
    std::optional<Rig> rig_;
};

class Ends : public testing::TestWithParam<Way> {};

// However many of its bytes have come, and whatever follows.
TEST_P(Ends, WithItsLastByte) {
    const Way& way = GetParam();
    const std::string request = way.request + (way.end.empty() ? "" : "left" + way.end);
    for (const bool natively : {true, false}) {
        Stream stream(way, natively);
        for (const std::string& after : {""s, "\0"s, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s, request}) {
            const std::string all = request + after;
            for (std::size_t there = 0; there <= all.size(); there++) {
                const Request cut = stream.first(all.substr(0, there));
                const bool is_whole = there >= request.size();
                ASSERT_EQ(cut.cut, is_whole ? Cut::whole : Cut::more) << there << " of " << request.size() << " bytes";
                if (is_whole) ASSERT_EQ(cut.length, request.size());
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Stream, Ends,
    testing::Values(
        Way{"OfASize", "size: u16be  body: bytes(size)", "\0\5hello"s},
        Way{"OfASizeThatCountsAll", "size: u32be  body: bytes(size - 4)", "\0\0\0\7abc"s},
        Way{"OfNoBody", "size: u8  body: bytes(size)", "\0"s},
        Way{"OfTwoParts", "a: u8  x: bytes(a)  b: u16le  y: bytes(b)", "\2xx\3\0yyy"s},
        Way{"BehindABody", "a: u8  x: bytes(a)  tail: u32be", "\3xxx1234"s},
        Way{"OfACstr", "name: cstr(max 8)  n: u8", "name\0n"s},
        Way{"OfTheLongestCstr", "name: cstr(max 8)  n: u8", "12345678\0n"s},
        Way{"OfACstrBehindABody", "size: u8  body: bytes(size)  name: cstr(max 8)", "\3abcname\0"s},
        Way{"OfAVarint", "n: varint_leb128  body: bytes(n)", "\203\0abc"s},
        Way{"OfAZigzag", "n: varint_zigzag  body: bytes(n as u64)", "\6abc"s},
        Way{"OfSqlitesVarint", "n: varint_sqlite  body: bytes(n & 3)", "\200\200\200\200\200\200\200\200\3abc"s},
        Way{"OfAnArray", "n: u8  each: u32le[n max 4]  last: u8", "\2aaaabbbb!"s},
        Way{"OfRecords", "n: u8  each: Pair[n max 4]", "\2aabb"s, "record Pair { a: u8  b: u8 }"},
        Way{"OfWhatIsThere", "flag: u8  x: u32be when flag == 1  y: u8", "\1xxxxy"s},
        Way{"OfWhatIsNotThere", "flag: u8  x: u32be when flag == 1  y: u8", "\2y"s},
        Way{"OfANumberThatIsThere", "flag: u8  n: varint_leb128 when flag == 1  y: bytes(flag == 1 ? n : 0)",
            "\1\202\0yy"s},
        Way{"OfAHead", "head: Head  key: bytes(head.key_size)  body: bytes(head.all - head.key_size)",
            "\x80\0\3\0\0\0\6keybody"s.substr(0, 13), "record Head { magic: u8 == 0x80  key_size: u16be  all: u32be }"},
        Way{"OfARecordThatVaries", "name: Name  n: u8", "\3abcn"s, "record Name { size: u8  text: bytes(size) }"},
        Way{"OfDigits", "digits: bytes(3)  _: bytes(1) == \":\"  body: bytes(digits.decimal())  _: bytes(1) == \",\"",
            "005:hello,"s},
        Way{"OfALetBehind", "size: u16be  let rest = size * 2 + 1  body: bytes(rest)", "\0\1abc"s},
        Way{"WithALine", "n: u8  body: bytes(n)", "\4a;b;"s, "", ";"},
        Way{"OfALineAlone", "n: u8  none: bytes(n) at n & 0", "\0"s, "", ";"},
        Way{"AtAPlaceThatItSays", "at_: u8  last: u16be at at_", "\4abcde"s},
        Way{"BehindPaddingAtAPlace", "n: u8  _: bytes(n) at 3  last: u8", "\2--pp!"s},
        Way{"BehindPaddingAtAPlaceThatItSays", "at_: u8  _: u16le at at_  last: u8", "\2-pp!"s}),
    [](const auto& each) { return std::string(each.param.name); });

struct Wrong {
    Way way;
    Cut cut;
    std::size_t from;  // so many bytes say it
};

class IsWrong : public testing::TestWithParam<Wrong> {};

TEST_P(IsWrong, AsSoonAsTheBytesSaySo) {
    const Wrong& wrong = GetParam();
    for (const bool natively : {true, false}) {
        Stream stream(wrong.way, natively);
        const std::string& all = wrong.way.request;
        for (std::size_t there = 0; there <= all.size(); there++)
            ASSERT_EQ(stream.first(all.substr(0, there)).cut, there < wrong.from ? Cut::more : wrong.cut) << there;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Stream, IsWrong,
    testing::Values(
        Wrong{{"LongerThanAny", "size: u32be  body: bytes(size)", "\x10\0\0\0aa"s}, Cut::long_, 4},
        Wrong{{"LongerThanTheyMayBe", "size: u16be  body: bytes(size)",
               "\x0f\xff"
               "aa"s},
              Cut::long_,
              2},
        Wrong{{"OfMoreThanEndsSomewhere", "size: u64be  body: bytes(size)",
               "\xff\xff\xff\xff\xff\xff\xff\xff"
               "aa"s},
              Cut::long_,
              8},
        Wrong{{"WithAPlaceBeforeItsBegin", "place: u64be  last: u32be at place",
               "\xff\xff\xff\xff\xff\xff\xff\xfe"
               "aa"s},
              Cut::long_,
              8},
        Wrong{{"OfASkipBeforeItsBegin", "size: u8  body: bytes(2)  head: Head",
               "\0aa\xff\xff\xff\xff\xff\xff\xff\xfe"
               "aa"s,
               "record Head { place: u64be  _: at place }"},
              Cut::long_,
              11},
        Wrong{{"OfASkipBackwards", "place: u64be  _: at place", "\0\0\0\0\0\0\0\3aa"s}, Cut::bad, 8},
        Wrong{{"OfASkipIntoWhatVaries", "place: u8  size: u8  body: bytes(size)  _: at place", "\3\4abcdef"s},
              Cut::bad,
              2},
        Wrong{{"OfLessThanItsSize", "size: u16be  body: bytes(size - 4)", "\0\3a"s}, Cut::long_, 2},
        Wrong{{"OfTooManyElements", "n: u8  each: u16le[n max 4]", "\5aa"s}, Cut::bad, 1},
        Wrong{{"OfAVarintWithoutAnEnd", "n: varint_leb128  body: bytes(n)", std::string(12, '\xff')}, Cut::bad, 10},
        Wrong{{"OfACstrWithoutAnEnd", "name: cstr(max 8)  n: u8", "123456789"s}, Cut::bad, 9},
        Wrong{{"OfWhatIsNoNumber", "digits: bytes(2)  body: bytes(digits.decimal())", "a1"s}, Cut::bad, 2},
        Wrong{{"OfAnotherKind", "head: Head  body: bytes(head.size)", "\x81\0a"s,
               "record Head { magic: u8 == 0x80  size: u8 }"},
              Cut::bad,
              2}),
    [](const auto& each) { return std::string(each.param.way.name); });

// Or they would follow one another for ever.
TEST(Stream, NoBytesAreNoRequest) {
    Stream stream({"", "n: u8  end: bytes(n) at n & 0", ""});
    EXPECT_EQ(stream.first("").cut, Cut::more);
    EXPECT_EQ(stream.first("\1").length, 1u);
    EXPECT_EQ(stream.first("\0"s).cut, Cut::bad);
}

// What is compared with a value says nothing of where the request ends.
TEST(Stream, AWrongValueIsCutAsARightOne) {
    Stream stream({"", "magic: u8 == 7  size: u8  body: bytes(size)", ""});
    const Request cut = stream.first("\x08\2ab"s);
    EXPECT_EQ(cut.cut, Cut::whole);
    EXPECT_EQ(cut.length, 4u);
}

TEST(Stream, TheLongestRequestIsAllowedAndOneByteMoreIsNot) {
    Stream stream({"", "size: u8  body: bytes(size)", ""});
    EXPECT_EQ(stream.first("\7abcdefg", 8).length, 8u);
    EXPECT_EQ(stream.first("\7abcdef", 8).cut, Cut::more);
    EXPECT_EQ(stream.first("\10abcdef", 8).cut, Cut::long_);
    Stream endless({"", "name: cstr(max 100)", ""});
    EXPECT_EQ(endless.first("abcdefg", 8).cut, Cut::more);
    EXPECT_EQ(endless.first("abcdefgh", 8).cut, Cut::long_);
}

}  // namespace
}  // namespace chainio::service
