// Test files: what is read, and that each mistake is named with its place.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tools/chainio/testing/suite.h"

namespace chainio::testing {
namespace {

class SuiteRead : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "chainio-suite-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::expected<Suite, SuiteError> read(const std::string& text) {
        const std::string path = folder_ + "/app.test.yaml";
        std::ofstream(path) << text;
        return read_suite(path);
    }
    std::string error(const std::string& text) {
        auto suite = read(text);
        if (suite) return "no error";
        return suite.error().message.substr(folder_.size() + 1);
    }
    std::string folder_;
};

TEST_F(SuiteRead, ReadsEveryKey) {
    const auto suite = read(R"(
spec: app.chain
options: [-D, N=3]
needs: [sh]
commands: echo
files:
  tree: tree.idx
  cut: { of: tree, size: 1KiB, patch: [{ at: 0x10, bytes: { u16be: [1, 2] } }] }
  raw: { hex: "00 fF" }
cases:
  - name: one
    chain: lookup
    files: { tree: tree, other: raw }
    args: { key: -2, word: "12", name: abc, size: 4KiB, data: [{ hex: "01" }, xy] }
    expect: { value: -1, integers: [1, 2], reads: [{ file: tree, at: 5 }], most_reads: 4 }
  - chain: ahead
    event: { file: tree, at: 512, for: 512, total: 1048576, mark: 9, last_mark: 4 }
    expect: { prefetches: [{ via: lookup, args: [7] }, { path: /a }, { same: true, for: 3 }, { mark: 8, at: 1 }, { mark_via: owner }] }
)");
    ASSERT_TRUE(suite) << suite.error().message;
    EXPECT_EQ(suite->options, (std::vector<std::string>{"-D", "N=3"}));
    EXPECT_EQ(suite->commands, std::vector<std::string>{"echo"});
    const FileSource& cut = suite->files.at("cut");
    EXPECT_EQ(cut.of, "tree");
    EXPECT_EQ(cut.size, 1024u);
    ASSERT_EQ(cut.patches.size(), 1u);
    EXPECT_EQ(cut.patches[0].at, 16u);
    EXPECT_EQ(cut.patches[0].bytes, (Bytes{0, 1, 0, 2}));
    EXPECT_EQ(suite->files.at("raw").bytes, (Bytes{0, 255}));
    ASSERT_EQ(suite->cases.size(), 2u);
    const Case& one = suite->cases[0];
    EXPECT_EQ(one.args.at("key").integer, static_cast<std::uint64_t>(-2));
    EXPECT_TRUE(one.args.at("word").is_bytes) << "digits in quotes are a text";
    EXPECT_EQ(one.args.at("size").integer, 4096u);
    EXPECT_EQ(one.args.at("data").bytes, (Bytes{1, 'x', 'y'}));
    EXPECT_EQ(one.expected.value, static_cast<std::uint64_t>(-1));
    EXPECT_EQ(one.expected.reads->at(0).at, 5u);
    EXPECT_FALSE(one.expected.reads->at(0).length);
    EXPECT_EQ(suite->cases[1].name, "ahead (line 16)");
    EXPECT_EQ(suite->cases[1].event->length, 512u);
    EXPECT_EQ(suite->cases[1].event->total, 1048576u);
    EXPECT_EQ(suite->cases[1].event->mark, 9u);
    EXPECT_EQ(suite->cases[1].event->last_mark, 4u);
    ASSERT_EQ(suite->cases[1].expected.prefetches->size(), 5u);
    EXPECT_EQ(suite->cases[1].expected.prefetches->at(3).mark, 8u);
    EXPECT_EQ(suite->cases[1].expected.prefetches->at(4).mark_via, "owner");
}

TEST_F(SuiteRead, NamesThePlaceOfEachMistake) {
    EXPECT_EQ(error("cases: []"),
              "app.test.yaml:1:1: a test file names its `spec`: a .chain, .yaml or .bpf.o beside it");
    EXPECT_EQ(error("spec: a\n"), "app.test.yaml:1:1: a test file has a list of `cases`");
    EXPECT_EQ(error("spec: a\ncases: []\n"),
              "app.test.yaml:2:8: the list of `cases` is empty, so that nothing is tested; a case is { chain: …, "
              "expect: … }");
    EXPECT_EQ(error("spec: a\ncase: 3\n"), "app.test.yaml:2:1: a test file has no 'case'; did you mean 'cases'?");
    EXPECT_EQ(error("spec: a\ncases:\n  - chain: x\n"),
              "app.test.yaml:3:5: a case says what to `expect`; one that expects nothing tests nothing");
    EXPECT_EQ(error("spec: a\ncases:\n  - chain: x\n    expect: { value: many }\n"),
              "app.test.yaml:4:22: value is an integer (12, -3, 0x1f, 4KiB), not 'many'");
    EXPECT_EQ(error("spec: a\nfiles: { f: { hex: 0g } }\ncases:\n  - chain: x\n    expect: { value: 1 }\n"),
              "app.test.yaml:2:20: 'g' is not a hexadecimal digit");
    EXPECT_EQ(error("spec: a\nfiles: { f: { of: g } }\ncases:\n  - chain: x\n    expect: { value: 1 }\n"),
              "app.test.yaml:2:13: 'f' is a copy of 'g', which is not among the files");
    EXPECT_EQ(error("spec: a\ncases:\n  - { chain: x, name: n, expect: { value: 1 } }\n  - { chain: x, name: n, "
                    "expect: { value: 1 } }\n"),
              "app.test.yaml:4:5: two cases are named 'n'");
    EXPECT_EQ(error("spec: [\n").substr(0, 18), "app.test.yaml:2:1:");
}

TEST_F(SuiteRead, RefusesKeysThatAreGivenTwice) {
    const std::string one = "cases:\n  - { chain: x, expect: { value: 1 } }\n";
    EXPECT_EQ(error("spec: a\n" + one + one), "app.test.yaml:4:1: the key 'cases' is given twice; keep one of them");
    EXPECT_EQ(error("spec: a\nfiles: { f: a, g: b, f: c }\n" + one),
              "app.test.yaml:2:22: the key 'f' is given twice; keep one of them");
    EXPECT_EQ(error("spec: a\nfiles: { f: a, g: { of: f, size: 1, size: 2 } }\n" + one),
              "app.test.yaml:2:37: the key 'size' is given twice; keep one of them");
    const auto of = [&](const std::string& keys) { return error("spec: a\ncases:\n  - { chain: x, " + keys + " }\n"); };
    EXPECT_EQ(of("expect: { value: 1 }, expect: { value: 2 }"),
              "app.test.yaml:3:39: the key 'expect' is given twice; keep one of them");
    EXPECT_EQ(of("expect: { value: 1, value: 2 }"),
              "app.test.yaml:3:37: the key 'value' is given twice; keep one of them");
    EXPECT_EQ(of("files: { db: a, db: b }, expect: { value: 1 }"),
              "app.test.yaml:3:33: the key 'db' is given twice; keep one of them");
    EXPECT_EQ(of("args: { key: 1, key: 2 }, expect: { value: 1 }"),
              "app.test.yaml:3:33: the key 'key' is given twice; keep one of them");
}

TEST_F(SuiteRead, RefusesWhatIsNoMapOrList) {
    const std::string one = "cases:\n  - { chain: x, expect: { value: 1 } }\n";
    EXPECT_EQ(error("spec: a\nfiles: some\n" + one), "app.test.yaml:2:8: files is a map of names: { NAME: … }");
    EXPECT_EQ(error("spec: a\nfiles: { f: a, g: { of: f, patch: 3 } }\n" + one),
              "app.test.yaml:2:35: patch is a list of { at, bytes }; write [{ at: 8, bytes: { hex: ff } }]");
    EXPECT_EQ(error("spec: a\nfiles: { f: a, g: { of: f, patch: { at: 8, bytes: x } } }\n" + one),
              "app.test.yaml:2:35: patch is a list of { at, bytes }; write [{ at: 8, bytes: { hex: ff } }]");
    EXPECT_EQ(error("spec: a\ncases:\n  - { chain: x, args: 5, expect: { value: 1 } }\n"),
              "app.test.yaml:3:23: args is a map of names: { NAME: … }");
    EXPECT_EQ(error("spec: a\ncases:\n  - { chain: x, files: [a], expect: { value: 1 } }\n"),
              "app.test.yaml:3:24: files of a case is a map of names: { NAME: … }");
}

TEST_F(SuiteRead, RefusesCountsBelowZero) {
    const std::string one = "cases:\n  - chain: x\n    expect: { value: 1 }\n";
    EXPECT_EQ(error("spec: a\nfiles: { f: a, g: { of: f, size: -1 } }\n" + one),
              "app.test.yaml:2:34: size counts from 0 on, and is not '-1'");
    EXPECT_EQ(error("spec: a\nfiles: { f: a, g: { of: f, patch: [{ at: -8, bytes: x }] } }\n" + one),
              "app.test.yaml:2:42: at counts from 0 on, and is not '-8'");
    EXPECT_EQ(error("spec: a\nfiles: { f: { zeros: -4KiB } }\n" + one),
              "app.test.yaml:2:22: zeros counts from 0 on, and is not '-4KiB'");
    for (const std::string key : {"length", "read_count", "most_reads", "prefetch_count"})
        EXPECT_EQ(
            error("spec: a\ncases:\n  - chain: x\n    expect: { " + key + ": -2 }\n"),
            "app.test.yaml:4:" + std::to_string(17 + key.size()) + ": " + key + " counts from 0 on, and is not '-2'");
    EXPECT_EQ(error("spec: a\ncases:\n  - chain: x\n    expect: { reads: [{ at: -2 }] }\n"),
              "app.test.yaml:4:29: at counts from 0 on, and is not '-2'");
}

TEST_F(SuiteRead, RefusesIntegersThatDoNotFit) {
    EXPECT_NE(error("spec: a\ncases:\n  - chain: x\n    expect: { value: 18446744073709551616 }\n"), "no error");
    EXPECT_NE(error("spec: a\ncases:\n  - chain: x\n    expect: { value: 99999999999GiB }\n"), "no error");
    EXPECT_EQ(error("spec: a\ncases:\n  - chain: x\n    expect: { value: -9223372036854775809 }\n"),
              "app.test.yaml:4:22: value is an integer (12, -3, 0x1f, 4KiB), not '-9223372036854775809'");
    EXPECT_EQ(error("spec: a\ncases:\n  - chain: x\n    expect: { value: -9223372036854775808 }\n"), "no error");
}

TEST_F(SuiteRead, RefusesAResultAfterAnotherOutcomeThanOk) {
    const auto of = [&](const std::string& keys) {
        return error("spec: a\ncases:\n  - { chain: x, expect: { " + keys + " } }\n");
    };
    for (const std::string key : {"value: 1", "bytes: a", "starts_with: a", "length: 1", "integers: [1]"}) {
        const std::string name = key.substr(0, key.find(':'));
        EXPECT_EQ(of("outcome: short_read, " + key), "app.test.yaml:3:" + std::to_string(50 + name.size()) +
                                                         ": after short_read there is no result, so `" + name +
                                                         "` is never compared; remove one of the two");
        EXPECT_EQ(of("outcome: ok, " + key), "no error");
    }
    EXPECT_EQ(of("outcome: short_read, read_count: 1"), "no error");
}

TEST_F(SuiteRead, WritesIntegersOfEveryWidth) {
    const auto suite = read(R"(
spec: a
files:
  little: { u8: 1, u16le: 2, u24le: 0x010203, u32le: 4, u48le: 0x010203040506, u64le: 5 }
  big: { u16be: 2, u24be: 0x010203, u32be: 4, u48be: 0x010203040506, u64be: 5 }
  ends: { u8: [255, -128], u16le: [0xffff, -32768], u64le: 18446744073709551615 }
cases:
  - { chain: x, expect: { value: 1 } }
)");
    ASSERT_TRUE(suite) << suite.error().message;
    EXPECT_EQ(suite->files.at("little").bytes,
              (Bytes{1, 2, 0, 3, 2, 1, 4, 0, 0, 0, 6, 5, 4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(suite->files.at("big").bytes,
              (Bytes{0, 2, 1, 2, 3, 0, 0, 0, 4, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 5}));
    EXPECT_EQ(suite->files.at("ends").bytes,
              (Bytes{255, 128, 255, 255, 0, 128, 255, 255, 255, 255, 255, 255, 255, 255}));
}

TEST_F(SuiteRead, RefusesIntegersThatTheirBytesCannotHold) {
    const auto of = [&](const std::string& bytes) {
        return error("spec: a\nfiles: { f: { " + bytes + " } }\ncases:\n  - chain: x\n    expect: { value: 1 }\n");
    };
    EXPECT_EQ(of("u8: 256"), "app.test.yaml:2:19: 256 does not fit u8");
    EXPECT_EQ(of("u8: -129"), "app.test.yaml:2:19: -129 does not fit u8");
    EXPECT_EQ(of("u64le: -9223372036854775809"),
              "app.test.yaml:2:22: u64le is an integer (12, -3, 0x1f, 4KiB), not '-9223372036854775809'");
    EXPECT_EQ(of("u32le: [1, 4294967296]"), "app.test.yaml:2:22: 4294967296 does not fit u32le");
    EXPECT_EQ(of("u40le: 1"),
              "app.test.yaml:2:22: 'u40le' is no way to write bytes; there are text, hex, zeros, u8, u16le, u16be, "
              "u24le, u24be, u32le, u32be, u48le, u48be, u64le, u64be");
}

TEST(Quoted, ShowsTextAsTextAndBytesInHexadecimal) {
    EXPECT_EQ(quoted({'a', 'b'}), "\"ab\"");
    EXPECT_EQ(quoted({'a', 0}), "<61 00>");
    EXPECT_EQ(quoted({}), "<>");
    EXPECT_EQ(quoted(Bytes(100, 'x')), "\"" + std::string(64, 'x') + "\"… (100 bytes)");
}

}  // namespace
}  // namespace chainio::testing
