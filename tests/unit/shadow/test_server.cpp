// The whole server, driven through its region over real files.
#include <sqlite3.h>

#include <fstream>
#include <iterator>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr std::uint32_t kPage = 4096;

std::string bytes_of(unsigned pages) {
    std::string bytes(std::size_t{pages} * kPage, 0);
    for (std::size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<char>(i * 31 + i / kPage);
    return bytes;
}

// Little-endian, at `at`.
void put_u32(std::string& bytes, std::size_t at, std::uint32_t value) {
    for (int i = 0; i < 4; i++) bytes[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> 8 * i);
}

// A page of a file names other pages of it: a count, and the numbers.
const char* const kPointers = R"(
app pointers { files data = "*.ptr" }
record Page { count: u32le  page: u32le[count max 64] }
chain follow on read(data) as r {
  for p in r.record(Page).page max 64 { prefetch r.file at p * 4096 for 4096 }
}
)";

std::string pointing_to(const std::vector<std::uint32_t>& pages, unsigned total) {
    std::string bytes = bytes_of(total);
    put_u32(bytes, 0, static_cast<std::uint32_t>(pages.size()));
    for (std::size_t i = 0; i < pages.size(); i++) put_u32(bytes, 4 + 4 * i, pages[i]);
    return bytes;
}

// Reads as a program does: through a descriptor that the kernel does not read ahead on.
void program_reads(const std::string& path, std::uint64_t offset, std::uint32_t length) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    std::vector<char> bytes(length);
    EXPECT_GT(pread(fd, bytes.data(), length, static_cast<off_t>(offset)), 0);
    close(fd);
}

TEST(Server, FetchesExactlyTheRangesThatAReadNames) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", pointing_to({9, 20, 21, 40}, 64));
    Running running(server_of(kPointers));
    Poster poster(running.region(), 0);
    drop_pages(path);
    program_reads(path, 0, kPage);
    ASSERT_EQ(pages_in_memory(path, 0, 64), 1u);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return pages_in_memory(path, 0, 64) == 5; })) << pages_in_memory(path, 0, 64);
    for (const std::uint64_t page : {9u, 20u, 21u, 40u}) EXPECT_EQ(pages_in_memory(path, page, 1), 1u) << page;
    EXPECT_EQ(running.chain().events, 1u);
    EXPECT_EQ(running.chain().fetches, 4u);
    EXPECT_EQ(running.chain().fetched_bytes, 4u * kPage);
    // What the program reads now is a hit; what it never reads is wasted at the end.
    ASSERT_TRUE(poster.read(0, path, 9 * kPage, kPage, 2'000));
    ASSERT_TRUE(poster.read(0, path, 40 * kPage + 100, 8, 2'000));
    EXPECT_TRUE(happens([&] { return running.chain().hits == 2; }));
    running.stop();
    EXPECT_EQ(running.chain().hits, 2u);
    EXPECT_EQ(running.chain().wasted, 2u);
    EXPECT_EQ(running.chain().late, 0u);
    EXPECT_EQ(running.stats().bad_events, 0u);
}

// A table whose rows lie scattered, with an index on another column.
std::string make_database(const Folder& folder, unsigned rows) {
    const std::string path = folder.path() + "/rows.db";
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    const auto run = [&](const std::string& sql) {
        char* error = nullptr;
        EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << (error ? error : "");
    };
    run("create table t(id integer primary key, k integer, filler blob)");
    run("with recursive n(i) as (select 1 union all select i + 1 from n where i < " + std::to_string(rows) +
        ") insert into t select i, (i * 7919) % " + std::to_string(rows) + ", zeroblob(300) from n");
    run("create index by_k on t(k)");
    sqlite3_close(db);
    return path;
}

TEST(Server, FollowsAnIndexLeafOfSqliteToTheRowsThatItNames) {
    const Folder folder;
    const std::string path = make_database(folder, 20'000);
    const auto pages = static_cast<unsigned>(std::filesystem::file_size(path) / kPage);
    std::ifstream file(path, std::ios::binary);
    unsigned leaf = 0;
    for (unsigned page = 1; page < pages && leaf == 0; page++) {
        file.seekg(static_cast<std::streamoff>(page) * kPage);
        if (file.get() == 10) leaf = page;
    }
    ASSERT_NE(leaf, 0u);
    std::ifstream library(CHAINIO_LIBRARY "/std/sqlite_shadow.chain");
    Running running(server_of({std::istreambuf_iterator<char>(library), std::istreambuf_iterator<char>()}));
    Poster poster(running.region(), 3);
    drop_pages(path);
    program_reads(path, std::uint64_t{leaf} * kPage, kPage);
    const unsigned before = pages_in_memory(path, 0, pages);
    ASSERT_LT(before, 10u);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, std::uint64_t{leaf} * kPage, kPage));
    // A walk for each entry of the leaf, unless it was done a moment ago.
    file.seekg(static_cast<std::streamoff>(leaf) * kPage + 3);
    const unsigned entries = static_cast<unsigned>(file.get()) << 8 | static_cast<unsigned>(file.get());
    ASSERT_GT(entries, 200u);
    EXPECT_TRUE(happens([&] { return running.chain().walks == entries; })) << running.chain().walks;
    running.stop();
    const unsigned after = pages_in_memory(path, 0, pages);
    EXPECT_GT(after - before, 100u);
    EXPECT_EQ(running.chain().failed, 0u);
    EXPECT_EQ(running.chain().dropped, 0u);
    // Each walk reads what no other has read before it; together they read each page once.
    EXPECT_LE(running.chain().fetches, after);
    EXPECT_EQ(running.chain().fetched_bytes, running.chain().fetches * kPage);
}

}  // namespace
}  // namespace chainio::shadow::test
