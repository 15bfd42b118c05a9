#include <gtest/gtest.h>

#include <cstring>

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
// A word of the language that is a fine name is one in both forms, also where a text of the YAML form begins with it.
TEST(Yaml, NamesMayBeWords) {
    const std::string_view form =
        "fn W(a, W) = a != 0 ? W : W - 1\n"
        "fn g(a) {\n  let W = a + 1\n  W - 2\n}\n"
        "const W = 1\nconst A = W - 1\nclass W { priority W }\nparam files W = \"w\" { root \"/\" index W }\n"
        "record W {\n  W: u8 at W\n  w: W\n  _: at 64\n}\n"
        "text W { W: rest(max W) }\n"
        "chain W(W: file W, k: W) -> u64 hops W {\n  state { W: u64 = W }\n"
        "  step s(n: block at W for W in W) {\n    if k == 1 { let W = k - 1 }\n    var W = W - 1\n    W = W - 1\n"
        "    for W in range(W, 2) max W { W.f(W) }\n    goto W at W for W\n  }\n"
        "  step W(W: W at W) { return W - 1 }\n  done { return W }\n}\n"
        "chain V(W: u64) -> bytes(max W) {\n  step s(n: block at W for W) {\n    emit W - 1, W\n    match W - 1 { W { "
        "emit W - W } }\n"
        "    if W == 1 { emit W - 1 } else { prefetch W[W - 1] at W for W }\n  }\n}\n"
        "service W on udp W via W in class W {\n  request { W: u8 }\n"
        "  on request {\n    reply W:dec W - 1:dec \"x\" W - 1:u8\n    skip W - 1\n    reply W - 1:dec\n  }\n}\n";
    for (const char* word : {"plain", "at", "from", "max", "on", "by", "header", "index", "levels", "request", "key"}) {
        std::string text(form);
        for (std::size_t at = 0; (at = text.find('W', at)) != std::string::npos; at += std::strlen(word))
            text.replace(at, 1, word);
        const auto chain = read_chain(text);
        ASSERT_EQ(chain->errors(), "") << chain->rendered();
        const std::string yaml = print_yaml(*chain->file);
        const auto got = read_yaml(yaml);
        EXPECT_EQ(got->errors(), "") << yaml << got->rendered();
        EXPECT_EQ(format_chain(*got->file), format_chain(*chain->file));
    }
}

// A word that begins a statement in the .chain form names nothing in one.
TEST(Yaml, NamesInStatementsBeginNone) {
    for (const char* word : {"emit", "done", "step", "tag"}) {
        const std::string name(word);
        EXPECT_EQ(read_yaml("- chain: c\n  do:\n    - for: " + name + "\n      in: a\n")->errors(), "CH0001 3:12\n");
        EXPECT_EQ(read_yaml("- chain: c\n  do:\n    - let: " + name + "\n      value: a\n")->errors(), "CH0001 3:12\n");
    }
}

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
    const std::string apart = std::string(text).insert(text.find("# end"), "\n");
    EXPECT_EQ(format_chain(*read_yaml(apart)->file), format_chain(*got->file));
    EXPECT_EQ(print_yaml(*read_yaml(apart)->file), apart);
}

// A text has no place for a comment in the form that is printed: it goes in front of the entry.
TEST(Yaml, CommentsInTextsSurvive) {
    const auto got = read_yaml(
        "# top\n- const: A\n  value: |\n    # of the value\n    1 + 2\n- record: R\n  fields:\n    - a: \"u8 # of a\"\n"
        "- chain: x\n  params: {db: file pages}\n  hops: \"2 # of hops\"\n  returns: u64\n  steps:\n    - step: s\n"
        "      view: b\n      record: block\n      at: \"0 # of at\"\n      for: 64\n      do:\n        # above\n"
        "        - |\n          # first\n          let a = 5 # behind\n          # last\n"
        "        - if: \"a == 5 # of if\"\n          then: \"return a # of return\"\n");
    ASSERT_EQ(got->errors(), "") << got->rendered();
    const std::string chain = format_chain(*got->file), yaml = print_yaml(*got->file);
    EXPECT_EQ(chain,
              "# top\n# of the value\nconst A = 1 + 2\nrecord R {\n  # of a\n  a: u8\n}\n# of hops\n"
              "chain x(db: file pages) -> u64 hops 2 {\n  # of at\n  step s(b: block at 0 for 64) {\n    # above\n"
              "    # first\n    # behind\n    # last\n    let a = 5\n    # of if\n    if a == 5 {\n"
              "      # of return\n      return a\n    }\n  }\n}\n");
    EXPECT_EQ(print_yaml(*read_yaml(yaml)->file), yaml);
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
