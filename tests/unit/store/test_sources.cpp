#include <sqlite3.h>

#include "tests/unit/store/store_test.h"
#include "tools/chainio/store/build.h"
#include "tools/chainio/store/format.h"

namespace chainio::store {
namespace {

// Rows as `key=value/flags`, problems as they are.
std::vector<std::string> all(Source& source) {
    std::vector<std::string> out;
    while (true) {
        Row row;
        const auto there = source.next(row);
        if (!there) {
            out.push_back(there.error().text);
            if (there.error().last) return out;
            continue;
        }
        if (!*there) return out;
        out.push_back(std::string(row.key) + "=" + std::string(row.value) + "/" + std::to_string(row.flags));
    }
}

TEST_F(StoreTest, TsvLines) {
    const auto source = open_tsv(write("a.tsv",
                                       "a\tone\n"
                                       "b\t\t7\n"
                                       "c\\t\\x20\\x2F\ta\\n\\\\\\r\\0\t4294967295\n"
                                       "d\tlast"));
    ASSERT_TRUE(source);
    EXPECT_EQ(all(**source),
              (std::vector<std::string>{"a=one/0", "b=/7", std::string("c\t /=a\n\\\r\0/4294967295", 21), "d=last/0"}));
}

TEST_F(StoreTest, TsvLinesThatAreWrong) {
    const std::string path = write("a.tsv", "nothing\n\n\tv\n" + std::string(251, 'k') +
                                                "\tv\nk\tv\tx\nk\tv\t4294967296\nk\ta\\qb\n\\x0\tv\nk\t" +
                                                std::string(kMaxValue + 1, 'v') + "\nk\tv\n");
    const auto source = open_tsv(path);
    ASSERT_TRUE(source);
    EXPECT_EQ(
        all(**source),
        (std::vector<std::string>{
            path + ":1: there is no tab; every line is KEY, a tab, VALUE and perhaps a tab and FLAGS",
            path + ":2: the line is empty; every line is KEY, a tab, VALUE and perhaps a tab and FLAGS",
            path + ":3: the key is empty; keys have 1 to 250 bytes",
            path + ":4: the key has 251 bytes; keys have 1 to 250",
            path + ":5: 'x' is no number from 0 to 4294967295, which the third column holds; write a tab in a value as "
                   "\\t",
            path + ":6: '4294967296' is no number from 0 to 4294967295, which the third column holds; write a tab in a "
                   "value as \\t",
            path + ":7: '\\q' in the value means nothing; there are \\t \\n \\r \\0 \\\\ and \\xHH",
            path + ":8: '\\x0' in the key means nothing; there are \\t \\n \\r \\0 \\\\ and \\xHH",
            path + ":9: the value has 16777217 bytes; values have at most 16777216: divide it over several keys",
            "k=v/0"}));
}

TEST_F(StoreTest, AByteOrderMarkIsOfNoKey) {
    const auto source = open_tsv(write("a.tsv",
                                       "\xef\xbb\xbf"
                                       "a\t1\n\xef\xbb\xbf"
                                       "b\t2\n"));
    ASSERT_TRUE(source);
    EXPECT_EQ(all(**source), (std::vector<std::string>{"a=1/0",
                                                       "\xef\xbb\xbf"
                                                       "b=2/0"}));
}

TEST_F(StoreTest, TextsInUtf16AreNamed) {
    for (const std::string& text : {std::string("\xff\xfek\0\t\0v\0", 8), std::string("\xfe\xff\0k\0\t\0v", 8)}) {
        const std::string path = write("a.tsv", text);
        const auto source = open_tsv(path);
        ASSERT_TRUE(source);
        EXPECT_EQ(all(**source),
                  std::vector<std::string>{
                      path + ": the text is in UTF-16; give it in UTF-8, as `iconv -f UTF-16 -t UTF-8` makes it"});
    }
    for (const std::string key : {"\xff\xfe", "\xfe\xff", "\xff\xfek", "\xfe\xffk"}) {
        const auto source = open_tsv(write("a.tsv", key + "\tv\n"));
        EXPECT_EQ(all(**source), std::vector<std::string>{key + "=v/0"});
    }
}

TEST_F(StoreTest, LinesThatAllEndAsThoseOfWindowsAreToldOf) {
    const auto note = [&](const std::string& text) {
        const auto source = open_tsv(write("a.tsv", text));
        all(**source);
        return (*source)->note();
    };
    const std::string said = path("a.tsv") +
                             ": each line ends with a carriage return, as in texts of Windows; it is a part of each "
                             "value now: where it is not meant to be, leave it out, as by tr -d '\\r'";
    EXPECT_EQ(note("a\tb\r\nc\td\r\n"), said);
    EXPECT_EQ(note("a\tb\r\nc\td"), said);
    EXPECT_EQ(note("a\tb\r\nc\td\n"), "");
    EXPECT_EQ(note("a\tb\nc\td\r\n"), "");
    EXPECT_EQ(note("a\tb\\r\n"), "");
    EXPECT_EQ(note("a\tb"), "");
    const auto flags = open_tsv(write("a.tsv", "a\tb\t5\r\n"));
    EXPECT_EQ(all(**flags), std::vector<std::string>{path("a.tsv") +
                                                     ":1: '5\\x0d' is no number from 0 to 4294967295, which the third "
                                                     "column holds; a carriage return at the end of a line belongs to "
                                                     "it: leave it out"});
}

TEST_F(StoreTest, WhatCannotBePrintedIsEscapedInMessages) {
    const std::string path = write("a.tsv",
                                   "k\tv\t\x1b[31m\xff\nk\ta\\\x07"
                                   "b\n");
    const auto source = open_tsv(path);
    ASSERT_TRUE(source);
    EXPECT_EQ(
        all(**source),
        (std::vector<std::string>{
            path + ":1: '\\x1b[31m\\xff' is no number from 0 to 4294967295, which the third column holds; write a "
                   "tab in a value as \\t",
            path + ":2: '\\\\x07' in the value means nothing; there are \\t \\n \\r \\0 \\\\ and \\xHH"}));
}

TEST_F(StoreTest, ALineWithoutAnEndEndsTheReading) {
    const std::string path = write("a.tsv", "k\tv\n");
    std::filesystem::resize_file(path, std::size_t{1} << 30);  // with zeros, which take no room on the disk
    const auto source = open_tsv(path);
    const auto rows = all(**source);
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[1],
              path + ":2: the line is longer than any item can be; keys have 1 to 250 bytes, values up to 16777216");
}

// The longest line that an item can have, with short ones around it; and a line of the same length that has no item.
TEST_F(StoreTest, TheLongestLine) {
    std::string escaped, key(kMaxKey, '\xfe'), value(kMaxValue, '\x01');
    for (std::size_t i = 0; i < kMaxKey; i++) escaped += "\\xfe";
    escaped += '\t';
    for (std::size_t i = 0; i < kMaxValue; i++) escaped += "\\x01";
    const auto source = open_tsv(write("a.tsv", "a\t1\n" + escaped + "\t4294967295\nb\t2\n" + escaped + "\\x01\nc\t3"));
    const auto rows = all(**source);
    ASSERT_EQ(rows.size(), 5u);
    EXPECT_EQ(rows[0], "a=1/0");
    EXPECT_TRUE(rows[1] == key + "=" + value + "/4294967295");
    EXPECT_EQ(rows[2], "b=2/0");
    EXPECT_EQ(
        rows[3],
        path("a.tsv") + ":4: the value has 16777217 bytes; values have at most 16777216: divide it over several keys");
    EXPECT_EQ(rows[4], "c=3/0");
}

TEST_F(StoreTest, LinesAcrossPiecesOfReading) {
    std::string text;
    for (int i = 0; i < 100; i++)
        text += "key" + std::to_string(i) + "\t" + std::string(60000, 'v') + "\t" + std::to_string(i) + "\n";
    const auto source = open_tsv(write("a.tsv", text));
    const auto rows = all(**source);
    ASSERT_EQ(rows.size(), 100u);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(rows[static_cast<std::size_t>(i)],
                  "key" + std::to_string(i) + "=" + std::string(60000, 'v') + "/" + std::to_string(i));
}

TEST_F(StoreTest, BadLinesLeaveNothingBehind) {
    const std::string path_to = write("a.tsv", "good\tline\nbad line\n");
    const auto source = open_tsv(path_to);
    const auto built = build(**source, {.path = path("a.store")});
    ASSERT_FALSE(built);
    EXPECT_EQ(built.error().problems.size(), 1u);
    EXPECT_EQ(files(), 1u);
    EXPECT_FALSE(open_tsv(path("none.tsv")));
}

class SqliteTest : public StoreTest {
  protected:
    std::string database(const char* sql) const {
        sqlite3* db = nullptr;
        EXPECT_EQ(sqlite3_open(path("a.db").c_str(), &db), SQLITE_OK);
        EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
        sqlite3_close(db);
        return path("a.db");
    }
    std::string refusal(const std::string& table, const std::string& query) const {
        const auto source = open_sqlite(path("a.db"), table, query);
        return source ? "none" : source.error().text;
    }
};

TEST_F(SqliteTest, TablesAndQueries) {
    const std::string db = database(
        "CREATE TABLE plain(key, value); INSERT INTO plain VALUES ('a', 'one'), (7, 2.5), (x'00ff', '');"
        "CREATE TABLE \"odd \"\"name\"(value, flags, key); INSERT INTO \"odd \"\"name\" VALUES ('v', 9, 'k')");
    const auto plain = open_sqlite(db, "plain", "");
    ASSERT_TRUE(plain) << plain.error().text;
    EXPECT_EQ(all(**plain), (std::vector<std::string>{"a=one/0", "7=2.5/0", std::string("\0\xff=/0", 5)}));
    const auto odd = open_sqlite(db, "odd \"name", "");
    ASSERT_TRUE(odd) << odd.error().text;
    EXPECT_EQ(all(**odd), (std::vector<std::string>{"k=v/9"}));
    const auto query = open_sqlite(db, "", "SELECT 'x' || key, value, 5 FROM plain WHERE key = 'a'");
    ASSERT_TRUE(query) << query.error().text;
    EXPECT_EQ(all(**query), (std::vector<std::string>{"xa=one/5"}));
}

TEST_F(SqliteTest, LongValues) {
    const std::string db = database(
        "CREATE TABLE t(key, value); INSERT INTO t VALUES ('a', zeroblob(16777216)), ('b', zeroblob(16777217)),"
        "('c', zeroblob(60000000)), ('d', 'v')");
    const auto source = open_sqlite(db, "t", "");
    ASSERT_TRUE(source) << source.error().text;
    const auto rows = all(**source);
    ASSERT_EQ(rows.size(), 4u);
    EXPECT_TRUE(rows[0] == "a=" + std::string(kMaxValue, '\0') + "/0");
    const std::string most = " bytes; values have at most 16777216: divide it over several keys";
    EXPECT_EQ(rows[1], db + ": row 2: the value has 16777217" + most);
    EXPECT_EQ(rows[2], db + ": row 3: the value has 60000000" + most);
    EXPECT_EQ(rows[3], "d=v/0");
}

TEST_F(SqliteTest, ARowThatSqliteDoesNotReadEndsTheReading) {
    const std::string db =
        database("CREATE TABLE t(key, value); INSERT INTO t VALUES ('a', 'v'), ('b', zeroblob(67108865)), ('c', 'v')");
    const auto source = open_sqlite(db, "t", "");
    ASSERT_TRUE(source) << source.error().text;
    EXPECT_EQ(all(**source),
              (std::vector<std::string>{
                  "a=v/0", db + ": row 2: the key, the value, or what the query makes them of has more than 67108864 "
                                "bytes; values have at most 16777216: divide it over several keys (rows behind this "
                                "one were not looked at)"}));
}

TEST_F(SqliteTest, WhatIsWrong) {
    const std::string db = database(
        "CREATE TABLE t(key, value, flags); CREATE TABLE other(name, text);"
        "INSERT INTO t VALUES (NULL, 'v', 0), ('k', NULL, 0), ('k', 'v', -1), ('k', 'v', 'x'), ('', 'v', 0), ('k', "
        "'v', 3)");
    const auto source = open_sqlite(db, "t", "");
    ASSERT_TRUE(source);
    EXPECT_EQ(all(**source),
              (std::vector<std::string>{
                  db + ": row 1: the key is NULL; leave such rows out with --query 'SELECT … WHERE … IS NOT NULL'",
                  db + ": row 2: the value is NULL; leave such rows out with --query 'SELECT … WHERE … IS NOT NULL'",
                  db + ": row 3: the flags are no integer from 0 to 4294967295, which the third column holds",
                  db + ": row 4: the flags are no integer from 0 to 4294967295, which the third column holds",
                  db + ": row 5: the key is empty; keys have 1 to 250 bytes", "k=v/3"}));
    EXPECT_EQ(refusal("none", ""), db + ": there is no table 'none'");
    EXPECT_EQ(refusal("other", ""), db + ": table 'other' has no columns 'key' and 'value'; name its own with --query "
                                         "'SELECT name, text FROM other'");
    EXPECT_EQ(refusal("", "SELECT key FROM t"),
              db + ": the query gives 1 column; the key, the value and perhaps the flags are wanted");
    EXPECT_EQ(refusal("", "SELECT nope FROM t"), db + ": no such column: nope, in `SELECT nope FROM t`");
    EXPECT_EQ(refusal("", "SELECT key, value FROM t; DELETE FROM t"),
              db + ": --query takes one statement, and ` DELETE FROM t` would be left out");
    ASSERT_TRUE(open_sqlite(db, "", "SELECT key, value FROM t;  -- all of them"));
    write("a.db", "this is a letter and not a database, which SQLite finds out when it reads the first page of it");
    EXPECT_EQ(refusal("t", ""),
              path("a.db") +
                  ": is no SQLite database, or an encrypted one; name the file of an SQLite database, or give lines "
                  "of text by --from FILE");
}

TEST_F(SqliteTest, WhatIsNoFile) {
    EXPECT_EQ(refusal("t", ""), path("a.db") + ": does not exist; name the file of an SQLite database");
    std::filesystem::create_directory(path("a.db"));
    EXPECT_EQ(refusal("t", ""), path("a.db") + ": is a directory, not an SQLite database; name a file in it");
}

}  // namespace
}  // namespace chainio::store
