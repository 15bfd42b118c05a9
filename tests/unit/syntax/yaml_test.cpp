#include <gtest/gtest.h>

#include "tests/unit/syntax/read.h"

namespace chainio::syntax::test {
namespace {

TEST(Yaml, BothFormsGiveOneTree) {
    const auto yaml = read_yaml(R"(# a spec
- record: Node
  fields:
    - kind: u16le in { 1 leaf, 2 inner }
    - _: u16le
    - 'keys: ': x
)");
    EXPECT_EQ(yaml->errors().substr(0, 6), "CH0001") << yaml->rendered();
    const auto good = read_yaml(R"(
- record: Node
  fields: {kind: 'u16le in { 1 leaf, 2 inner }', next: u64le}
- chain: walk
  params:
    db: file pages
    key: u64
  returns: u64
  hops: 8
  steps:
  - step: s
    view: n
    record: Node
    at: 0
    for: 512
    do:
    - if: n.kind == 1
      then: return key
      elif:
      - {if: n.kind == 2, then: [fail not_found]}
      else:
      - let: x
        value: db.find(key)
        else: [emit 1, return]
      - "emit
        x,
        key"
    - goto s at n.next
)");
    ASSERT_EQ(good->errors(), "") << good->rendered();
    EXPECT_EQ(print_chain(*good->file), R"(record Node { kind: u16le in { 1 leaf, 2 inner }  next: u64le }

chain walk(db: file pages, key: u64) -> u64 hops 8 {
  step s(n: Node at 0 for 512) {
    if n.kind == 1 {
      return key
    } else if n.kind == 2 {
      fail not_found
    } else {
      let x = db.find(key) else {
        emit 1
        return
      }
      emit x, key
    }
    goto s at n.next
  }
}
)");
}

// Line and column of an error inside a text, in every style that YAML has for texts.
TEST(Yaml, ErrorsPointIntoTheTexts) {
    const std::pair<const char*, const char*> cases[] = {
        {"- const: N\n  value: 1 + * 2\n", "CH0001 2:14\n"},
        {"- const: N\n  value: '1 + ''x'\n", "CH0006 2:15\n"},
        {"- const: N\n  value: \"1 \\x2b * 2\"\n", "CH0001 2:18\n"},
        {"- const: N\n  value: >\n    1 +\n    * 2\n", "CH0001 4:5\n"},
        {"- const: N\n  value: |\n    1 +\n      12KX\n", "CH0011 4:9\n"},
        {"- const: N\n  value: 1 +\n    2 + * 2\n", "CH0001 3:9\n"},
        {"- const: N\n  value: \"1 +\n    2 + * 2\"\n", "CH0001 3:9\n"},
        {"- {const: N, value: 12KX}\n", "CH0011 1:23\n"},
    };
    for (const auto& [text, errors] : cases) {
        const auto got = read_yaml(text);
        // An unknown operator at the place is what every case has; further errors of it do not matter.
        EXPECT_EQ(got->errors().substr(0, std::string(errors).size()), errors) << text << got->rendered();
    }
}

TEST(Yaml, StructureIsChecked) {
    const std::pair<const char*, const char*> cases[] = {
        {"- recrod: A\n", "CH0037 1:3\n"},
        {"- record: A\n  feilds: []\n", "CH0031 2:3\n"},
        {"- const: A\n", "CH0032 1:3\n"},
        {"- const: A\n  value: [1]\n", "CH0033 2:10\n"},
        {"- const: A\n  value: 1\n  value: 2\n", "CH0034 3:3\n"},
        {"- const: &a A\n  value: *a\n", "CH0035 1:10\nCH0035 2:10\n"},
        {"- const: A\n  value: 1\n---\n- const: B\n  value: 2\n", "CH0036 4:1\n"},
        {"- const: A\n value: [\n", "CH0030 2:2\n"},
        {"const: A\n", "CH0033 1:1\n"},
        {"- files: a\n  glob: b\n  direct: maybe\n", "CH0033 3:11\n"},
        {"- const: !x A\n  value: 1\n", "CH0033 1:10\n"},
    };
    for (const auto& [text, errors] : cases) {
        const auto got = read_yaml(text);
        EXPECT_EQ(got->errors(), errors) << text << got->rendered();
    }
}

TEST(Yaml, DepthIsBounded) {
    std::string lists;
    for (int i = 0; i < 100'000; ++i) lists += "[";
    EXPECT_EQ(read_yaml(lists)->errors().substr(0, 6), "CH0004");
    // The .chain form of nested statements has to be readable as well.
    std::string flow = "- chain: c\n  do: ";
    for (int i = 0; i < 200; ++i) flow += "{if: a, then: ";
    EXPECT_EQ(read_yaml(flow + "[]" + std::string(200, '}') + "\n")->errors().substr(0, 6), "CH0004");
    std::string dashes;
    for (int i = 0; i < 100'000; ++i) dashes += "- ";
    EXPECT_NE(read_yaml(dashes)->errors(), "");
}

TEST(Yaml, CommentsAndEmptyLinesSurvive) {
    const std::string text =
        "# top\n- const: A  # behind A\n  value: '\"x # no comment\"'\n\n# of B\n- const: B\n  value: 2\n# end\n";
    const auto got = read_yaml(text);
    ASSERT_EQ(got->errors(), "") << got->rendered();
    EXPECT_EQ(format_chain(*got->file),
              "# top\nconst A = \"x # no comment\"  # behind A\n\n# of B\nconst B = 2\n\n# end\n");
    EXPECT_EQ(print_yaml(*got->file), text);
}

TEST(Yaml, IsToldByNameOrByContent) {
    diag::Sources sources;
    const auto yaml = [&](const char* name, const char* text) { return is_yaml(sources.add(name, text), sources); };
    EXPECT_TRUE(yaml("x.yaml", "const A = 1"));
    EXPECT_TRUE(yaml("x.yml", ""));
    EXPECT_FALSE(yaml("x.chain", "- const: A"));
    EXPECT_TRUE(yaml("-", "# c\n\n- const: A\n"));
    EXPECT_TRUE(yaml("-", "---\n- const: A\n"));
    EXPECT_FALSE(yaml("-", "# c\nconst A = 1\n"));
    EXPECT_FALSE(yaml("-", ""));
}

}  // namespace
}  // namespace chainio::syntax::test
