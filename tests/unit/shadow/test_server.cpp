// The whole server, driven through its region over real files.
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

std::string bytes_of(unsigned pages) {
    std::string bytes(std::size_t{pages} * kPage, 0);
    for (std::size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<char>(i * 31 + i / kPage);
    return bytes;
}

// Little-endian, at `at`.
void put_u32(std::string& bytes, std::size_t at, std::uint32_t value) {
    for (int i = 0; i < 4; i++) bytes[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> 8 * i);
}

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
    const std::string path = folder.write("a.ptr", pointing_to({9, 20, 22, 40}, 64));
    Running running(server_of(kPointers));
    Poster poster(running.region(), 0);
    drop_pages(path);
    program_reads(path, 0, kPage);
    ASSERT_EQ(in_memory_besides(path, 64, {{0, 1}}), 0u);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(come(path, {{9, 1}, {20, 1}, {22, 1}, {40, 1}}));
    EXPECT_EQ(in_memory_besides(path, 64, {{0, 1}, {9, 1}, {20, 1}, {22, 1}, {40, 1}}), 0u);
    EXPECT_EQ(running.chain().events, 1u);
    EXPECT_TRUE(happens([&] { return running.chain().fetched_bytes == 4u * kPage; })) << "counted once it has begun";
    EXPECT_EQ(running.chain().fetches, 4u);
    // What the program reads now is a hit; what it never reads is wasted at the end.
    ASSERT_TRUE(poster.read(0, path, 9 * kPage, kPage, 2'000));
    ASSERT_TRUE(poster.read(0, path, 40 * kPage + 100, 8, 2'000));
    EXPECT_TRUE(happens([&] { return running.chain().hits == 2; }));
    running.stop();
    EXPECT_EQ(running.chain().hits, 2u);
    EXPECT_EQ(running.chain().wasted, 2u);
    EXPECT_EQ(running.chain().late, 0u);
    EXPECT_EQ(running.stats().bad_events, 0u);
    const shim::ClassStats& pointers = running.stats().classes[0];
    EXPECT_EQ(pointers.opened, 1u);
    EXPECT_EQ(pointers.reads, 3u);
}

// A process that has outlived the program reads on, and posts as long as a server looks.
TEST(Server, EndsWhileProgramsGoOnReading) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", pointing_to({}, 4));
    Running running(server_of(kPointers));
    std::atomic<std::uint64_t> posted{0};
    bool told = false;
    std::jthread reader([&] {
        Poster poster(running.region(), 0);
        poster.opened(0, path);
        told = happens([&] {
            for (int i = 0; i < 100; i++) posted += poster.read(0, path, 0, kPage, 2'000) ? 1 : 0;
            return running.region().server == 0;
        });
    });
    // Its ring has gone round meanwhile.
    ASSERT_TRUE(happens([&] { return posted > 2 * shim::kRingBytes / sizeof(shim::Event); }));
    running.stop();
    EXPECT_EQ(running.server().region().server, 0u);
    reader.join();
    EXPECT_TRUE(told) << "that it may go on plain";
}

TEST(Server, FetchesRangesThatFollowOneAnotherAsOne) {
    const Folder folder;
    std::vector<std::uint32_t> pages{50, 51, 40};
    for (std::uint32_t page = 1; page <= 32; page++) pages.push_back(page);
    const std::string path = folder.write("a.ptr", pointing_to(pages, 64));
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    std::ifstream device("/sys/class/bdi/" + std::to_string(major(info.st_dev)) + ":" +
                         std::to_string(minor(info.st_dev)) + "/read_ahead_kb");
    unsigned kib = 0;
    if (!(device >> kib) || kib < 64) GTEST_SKIP() << "the kernel does not say that it reads 64 KiB ahead here";
    Running running(server_of(kPointers));
    Poster poster(running.region(), 0);
    drop_pages(path);
    program_reads(path, 0, kPage);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(come(path, {{1, 32}, {40, 1}, {50, 2}}));
    running.stop();
    EXPECT_EQ(in_memory_besides(path, 64, {{0, 33}, {40, 1}, {50, 2}}), 0u);
    EXPECT_EQ(running.chain().fetches, 4u) << "two pages, one, and 32 in pieces of 64 KiB";
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

// The pages of a kind, counted from 0.
std::vector<unsigned> pages_of_kind(std::ifstream& file, unsigned pages, int kind) {
    std::vector<unsigned> found;
    for (unsigned page = 1; page < pages; page++) {
        file.seekg(static_cast<std::streamoff>(page) * kPage);
        if (file.get() == kind) found.push_back(page);
    }
    return found;
}

unsigned u16_at(std::ifstream& file, std::uint64_t at) {
    file.seekg(static_cast<std::streamoff>(at));
    const unsigned high = static_cast<unsigned>(file.get());
    return high << 8 | static_cast<unsigned>(file.get());
}

// The rowid of a table's leaf's first row, whose length is a number of two bytes.
unsigned first_rowid(std::ifstream& file, unsigned page) {
    const std::uint64_t start = std::uint64_t{page} * kPage;
    file.seekg(static_cast<std::streamoff>(start + u16_at(file, start + 8) + 2));
    unsigned value = 0;
    for (int byte = 0x80; byte >= 0x80;) value = value << 7 | (static_cast<unsigned>(byte = file.get()) & 0x7f);
    return value;
}

TEST(Server, FollowsAnIndexLeafOfSqliteToTheRowsThatItNames) {
    const Folder folder;
    constexpr unsigned kRows = 20'000;
    const std::string path = make_database(folder, kRows);
    const auto pages = static_cast<unsigned>(std::filesystem::file_size(path) / kPage);
    std::ifstream file(path, std::ios::binary);
    const unsigned leaf = pages_of_kind(file, pages, 10).at(0);
    const std::vector<unsigned> rows = pages_of_kind(file, pages, 13);
    std::ifstream library(CHAINIO_LIBRARY "/std/sqlite_shadow.chain");
    Running running(server_of({std::istreambuf_iterator<char>(library), std::istreambuf_iterator<char>()}));
    Poster poster(running.region(), 3);
    // The leaf's first entries have the keys from 0 on.
    const auto page_of = [&](unsigned key) {
        unsigned rowid = 1;
        while (rowid * 7919ull % kRows != key) rowid++;
        return *std::ranges::find_if(rows.rbegin(), rows.rend(),
                                     [&](auto at) { return first_rowid(file, at) <= rowid; });
    };
    const std::array read{0u, leaf, page_of(0), page_of(1)};
    const unsigned entries = u16_at(file, std::uint64_t{leaf} * kPage + 3);
    drop_pages(path);
    for (const unsigned page : read) program_reads(path, std::uint64_t{page} * kPage, kPage);
    Seen seen(path, {0, pages});
    const std::uint64_t before = seen.look();
    ASSERT_LT(before, 20u);
    ASSERT_TRUE(poster.opened(0, path));
    // The schema, which has one table, and two rows: others are behind them.
    for (const unsigned page : read) ASSERT_TRUE(poster.read(0, path, std::uint64_t{page} * kPage, kPage));
    ASSERT_GT(entries, 200u);
    constexpr unsigned kFollowing = 64;
    EXPECT_TRUE(happens([&] {
        seen.look();
        return running.chain().walks == kFollowing;
    })) << running.chain().walks;
    // Walks count as they start, and a stop ends those that are under way.
    EXPECT_TRUE(happens([&] {
        seen.look();
        return running.chain().fetches > kFollowing / 2;
    })) << running.chain().fetches;
    running.stop();
    EXPECT_EQ(running.chain().failed, 0u);
    EXPECT_EQ(running.chain().dropped, 0u);
    // Each walk reads what no other has read before it; together they read each page once. The last fetches are only
    // begun, and a busy disk takes a while.
    EXPECT_TRUE(happens([&] { return seen.look() >= before + running.chain().fetches; }));
    EXPECT_EQ(running.chain().fetched_bytes, running.chain().fetches * kPage);
}

TEST(Server, FetchesTheFileBesideAndPartsOfIt) {
    const Folder folder;
    std::string table(16, 0);
    put_u32(table, 0, 2 * kPage);
    put_u32(table, 4, kPage);
    put_u32(table, 8, 6 * kPage + 100);
    put_u32(table, 12, 5);
    const std::string marks = folder.write("part.v1.marks", table), columns = folder.write("part.v1.bin", bytes_of(10));
    Running running(server_of(R"(
app parts { files marks = "*.marks"  files columns = "*.bin" }
record Part { pos: u32le  size: u32le }
chain parts on read(marks) as r {
  for p in r.records(Part, max 16) { prefetch columns.sibling(r, ".bin") at p.pos for p.size }
})"));
    Poster poster(running.region(), 0);
    drop_pages(columns);
    ASSERT_TRUE(poster.opened(0, marks));
    ASSERT_TRUE(poster.read(0, marks, 0, 16));
    EXPECT_TRUE(come(columns, {{2, 1}, {6, 1}}));
    running.stop();
    EXPECT_EQ(in_memory_besides(columns, 10, {{2, 1}, {6, 1}}), 0u);
    EXPECT_EQ(running.chain().fetches, 2u);
}

const char* const kWeb = R"(
app web {
  files docs = "FOLDER/root/**" { root "FOLDER/root" }
  socket clients = tcp port 8080
}
text Get { "GET " path: token(max 1024) " HTTP/1." rest: rest(max 4096) }
chain ahead on ready(clients) as c { when c.text(Get) as g { prefetch docs[g.path] } }
)";

std::string web_spec(const Folder& folder) {
    std::string spec = kWeb;
    for (std::size_t at; (at = spec.find("FOLDER")) != std::string::npos;) spec.replace(at, 6, folder.path());
    return spec;
}

struct Request {
    const char* name;
    const char* path;    // in the request
    const char* target;  // a file whose pages tell
    bool fetched;
};

class Paths : public testing::TestWithParam<Request> {};

TEST_P(Paths, AreTakenUnderTheRootOnly) {
    const Folder folder;
    for (const char* name : {"root/a.txt", "root/sub/b c.txt", "secret.txt", "root/%41.txt"})
        folder.write(name, bytes_of(3));
    std::filesystem::create_symlink("../secret.txt", folder.path() + "/root/out");
    std::filesystem::create_symlink(folder.path() + "/secret.txt", folder.path() + "/root/far");
    std::filesystem::create_symlink("a.txt", folder.path() + "/root/inside");
    std::filesystem::create_symlink("..", folder.path() + "/root/up");
    ASSERT_EQ(mkfifo((folder.path() + "/root/fifo").c_str(), 0600), 0);
    Running running(server_of(web_spec(folder)));
    Poster poster(running.region(), 0);
    const std::string target = folder.path() + "/" + GetParam().target;
    drop_pages(target);
    ASSERT_TRUE(poster.ready(0, "GET " + std::string(GetParam().path) + " HTTP/1.1\r\nHost: x\r\n\r\n"));
    if (GetParam().fetched) {
        EXPECT_TRUE(come(target, {{0, 3}}));
        EXPECT_EQ(running.chain().dropped, 0u);
    } else {
        EXPECT_TRUE(happens([&] { return running.chain().dropped == 1; }));
        running.stop();
        EXPECT_EQ(pages_in_memory(target, 0, 3), 0u);
        EXPECT_EQ(running.chain().fetches, 0u);
    }
    EXPECT_EQ(running.chain().failed, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Server, Paths,
    testing::Values(
        Request{"plain", "/a.txt", "root/a.txt", true}, Request{"twice_rooted", "//a.txt", "root/a.txt", true},
        Request{"encoded", "/sub/b%20c.txt", "root/sub/b c.txt", true},
        Request{"encoded_letters", "/%61.txt", "root/a.txt", true},
        Request{"encoded_slash", "/sub%2Fb%20c.txt", "root/sub/b c.txt", true},
        Request{"encoded_percent", "/%2541.txt", "root/%41.txt", true},
        Request{"link_inside", "/inside", "root/a.txt", true}, Request{"parent", "/../secret.txt", "secret.txt", false},
        Request{"encoded_parent", "/%2e%2e/secret.txt", "secret.txt", false},
        Request{"parent_within", "/sub/../a.txt", "root/a.txt", false},
        Request{"link_out", "/out", "secret.txt", false}, Request{"absolute_link", "/far", "secret.txt", false},
        Request{"linked_folder", "/up/secret.txt", "secret.txt", false},
        Request{"broken_escape", "/a.tx%7", "root/a.txt", false}, Request{"not_hex", "/a.tx%zz", "root/a.txt", false},
        Request{"nul", "/a.txt%00", "root/a.txt", false}, Request{"folder", "/sub", "root/sub/b c.txt", false},
        Request{"fifo", "/fifo", "root/a.txt", false}, Request{"missing", "/none", "root/a.txt", false},
        Request{"empty", "/", "root/a.txt", false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Server, LeavesFilesAloneThatAreNotWhatTheEventSays) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", pointing_to({5}, 16)),
                      other = folder.write("b.ptr", pointing_to({6}, 16));
    const std::string gone = folder.write("c.ptr", pointing_to({7}, 16));
    // There before that one is removed, whose number could be given to it.
    const std::string direct = folder.write("d.ptr", pointing_to({8}, 16));
    Running running(server_of(kPointers));
    Poster poster(running.region(), 0);
    const auto read_of = [](const std::string& of) {
        shim::Event read{};
        struct stat info{};
        EXPECT_EQ(stat(of.c_str(), &info), 0);
        read.kind = shim::EventKind::read;
        read.device = info.st_dev;
        read.inode = info.st_ino;
        read.length = kPage;
        return read;
    };
    // Another file under the path, a path without a file, and O_DIRECT without `immutable`.
    ASSERT_TRUE(poster.opened(0, path));
    const shim::Event read_of_replaced = read_of(path);
    std::filesystem::rename(other, path);
    ASSERT_TRUE(poster.post(read_of_replaced));
    ASSERT_TRUE(poster.opened(0, gone));
    const shim::Event read_of_gone = read_of(gone);
    std::filesystem::remove(gone);
    ASSERT_TRUE(poster.post(read_of_gone));
    ASSERT_TRUE(poster.opened(0, direct, O_DIRECT));
    ASSERT_TRUE(poster.read(0, direct, 0, kPage));
    EXPECT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    EXPECT_EQ(running.chain().events, 0u);
    std::string notes;
    for (const std::string& note : running.server().report().notes) notes += note + "\n";
    EXPECT_NE(notes.find("a file was left alone: its path leads to another file by now"), std::string::npos) << notes;
    EXPECT_NE(notes.find("a file was left alone: it cannot be opened by its path"), std::string::npos) << notes;
    EXPECT_NE(notes.find("a file that was opened with O_DIRECT was left alone once"), std::string::npos) << notes;
}

TEST(Server, FindsAFileWhoseOpeningItHasNotSeen) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", pointing_to({9}, 16));
    Running running(server_of(kPointers));
    Poster poster(running.region(), 0);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    drop_pages(path);
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return pages_in_memory(path, 9, 1) == 1; }));
    close(fd);
}

TEST(Server, WhatIsInMemoryIsNotFetchedAndTheChainGoesOff) {
    const Folder folder;
    std::vector<std::uint32_t> pages(60);
    for (std::uint32_t i = 0; i < 60; i++) pages[i] = i + 1;
    const std::string path = folder.write("a.ptr", pointing_to(pages, 64));
    Running running(server_of(kPointers));
    Poster poster(running.region(), 0);
    const InMemory known(path, 0, 64);
    ASSERT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(happens([&] {
        poster.read(0, path, 0, kPage, 1'000);
        return running.chain().gate_changes > 0;
    }));
    EXPECT_EQ(running.chain().fetches, 0u);
    EXPECT_GE(running.chain().cached, 16u);
    // While it is off its reads are not asked for; the pause over, they are again.
    EXPECT_TRUE(happens([&] { return running.chain().gate == shim::GateState::off; }) ||
                running.chain().gate_changes > 1);
    ASSERT_TRUE(happens([&] { return poster.taken(); })) << "what is still in the ring could put it off again";
    EXPECT_TRUE(happens([&] { return running.chain().gate == shim::GateState::probing; }));
    EXPECT_NE(running.region().class_posts[0] & shim::kPostReads, 0u);
}

TEST(Server, AChainThatFetchesInVainGoesOffAndComesBackWhenItHelps) {
    const Folder folder;
    std::vector<std::uint32_t> pages(60);
    for (std::uint32_t i = 0; i < 60; i++) pages[i] = i + 1;
    const std::string path = folder.write("a.ptr", pointing_to(pages, 64));
    Running running(server_of(kPointers));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    const auto ask = [&] {
        // The pages that were fetched are forgotten here, so that they have to be fetched again.
        drop_pages(path);
        program_reads(path, 0, kPage);
        return poster.read(0, path, 0, kPage);
    };
    // Nothing of what is fetched is read: the ranges are not fetched twice, so new files are needed.
    unsigned file = 0;
    std::uint32_t posts = 0;
    EXPECT_TRUE(happens([&] {
        const std::string next = folder.write("f" + std::to_string(file++) + ".ptr", pointing_to(pages, 64));
        drop_pages(next);
        program_reads(next, 0, kPage);
        poster.opened(0, next);
        poster.read(0, next, 0, kPage);
        happens([&] { return poster.taken(); });
        if (running.chain().gate != shim::GateState::off) return false;
        posts = running.region().class_posts[0];
        return running.chain().gate == shim::GateState::off;  // before it looks again
    }));
    EXPECT_EQ(posts, shim::kPostOpens) << "openings are told of all the same";
    EXPECT_EQ(running.chain().hits + running.chain().late, 0u);
    const std::uint64_t in_vain = running.chain().fetches;
    EXPECT_GE(in_vain, 32u);
    EXPECT_LT(running.chain().fetched_bytes, 192u << 20) << "before they have to make room";
    // It helps from now on: all that is fetched is read.
    EXPECT_TRUE(happens([&] {
        if ((running.region().class_posts[0] & shim::kPostReads) != 0) {
            ask();
            Seen fetched(path, {1, 60});
            happens([&] { return fetched.all() || running.chain().gate != shim::GateState::probing; });
            for (const std::uint32_t page : pages) poster.read(0, path, page * std::uint64_t{kPage}, 1, 1'000);
            happens([&] { return poster.taken(); });
        }
        return running.chain().gate == shim::GateState::on;
    }));
    EXPECT_GT(running.chain().hits, 0u);
}

TEST(Server, KeepsItsBounds) {
    const Folder folder;
    std::vector<std::uint32_t> pages(60);
    for (std::uint32_t i = 0; i < 60; i++) pages[i] = 2 * i + 1;  // beside each other they were one range
    ServerOptions options;
    options.in_flight = 128;
    options.ahead_bytes = std::uint64_t{64} * kPage;
    options.gate = false;
    std::vector<std::string> paths;
    for (int file = 0; file < 4; file++)
        paths.push_back(folder.write("f" + std::to_string(file) + ".ptr", pointing_to(pages, 128)));
    for (const std::string& path : paths) {
        drop_pages(path);
        program_reads(path, 0, kPage);
    }
    // All of it is there when the server begins: what nobody reads yields its room after a second, which a slow disk
    // takes.
    auto server = server_of(kPointers, options);
    const tests::MappedRegion region(server->region_path());
    Poster poster(*region.get(), 0);
    for (const std::string& path : paths) {
        ASSERT_TRUE(poster.opened(0, path));
        ASSERT_TRUE(poster.read(0, path, 0, kPage));
    }
    Running running(std::move(server));
    const auto& chain = running.chain();
    EXPECT_TRUE(happens([&] { return chain.fetches + chain.dropped + chain.cached + chain.duplicate == 240; }));
    running.stop();
    EXPECT_GE(chain.fetches, 64u);
    EXPECT_GT(chain.dropped, 0u);
    EXPECT_EQ(chain.wasted, chain.fetches);
}

TEST(Server, TellsWhichProcessesHaveAnIoUring) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", pointing_to({}, 2));
    auto server = server_of(kPointers);
    Running running(std::move(server));
    // The server's own ring is in this process.
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(happens([&] { return poster.taken() && running.stats().processes == 1; }));
    running.stop();
    const auto notes = running.server().report().notes;
    const bool found = std::ranges::any_of(
        notes, [](const std::string& note) { return note.starts_with("a process has set up an io_uring"); });
    EXPECT_TRUE(found);
}

// Who waits for the disk first after a while in which nothing came has it listen at once (post_read).
TEST(Server, RestsOnceNothingHasComeForAWhile) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", pointing_to({}, 2));
    Running running(server_of(kPointers));
    EXPECT_TRUE(happens([&] { return running.region().rests == 1; }));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    // It says so as it falls asleep again, which what is posted without a pause would keep it from.
    EXPECT_TRUE(happens([&] {
        (void)poster.read(0, path, 0, kPage, 500);
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
        bool rests = true;
        while (rests && std::chrono::steady_clock::now() < end) {
            std::this_thread::yield();
            rests = running.region().rests != 0;
        }
        return !rests;
    })) << "what comes keeps it from that";
    EXPECT_TRUE(happens([&] { return running.region().rests == 1; }));
}

// What is posted costs the program; a chain that says nothing hears of what is slow, until it has something to say.
// Posts reads of a page of the poster's first file, and waits until the chain has run on each.
bool runs_on_reads(const Running& running, Poster& poster, const std::string& path, unsigned count, std::uint64_t page,
                   std::uint32_t took_ns = 500) {
    const auto before = running.chain().events.load();
    for (unsigned i = 0; i < count; i++) {
        while (!poster.read(0, path, page * kPage, kPage, took_ns)) std::this_thread::yield();
    }
    return happens([&] { return running.chain().events == before + count; });
}

TEST(Posts, AreSlowReadsOnlyWhileAChainAsksForNothing) {
    const Folder folder;
    std::string bytes = pointing_to({}, 8);
    put_u32(bytes, kPage, 1);
    put_u32(bytes, kPage + 4, 5);
    const std::string path = folder.write("silent.ptr", bytes);
    Running running(server_of(kPointers));
    Poster poster(running.region(), 3);
    ASSERT_TRUE(poster.opened(0, path));
    const auto posts = [&] { return running.region().class_posts[0].load(); };
    const auto reads = [&](unsigned count, std::uint64_t page, std::uint32_t took_ns) {
        return runs_on_reads(running, poster, path, count, page, took_ns);
    };
    ASSERT_TRUE(reads(63, 0, 500));
    EXPECT_EQ(posts(), shim::kPostOpens | shim::kPostReads);
    ASSERT_TRUE(reads(1, 0, 500));
    EXPECT_EQ(posts(), shim::kPostOpens | shim::kPostSlowReads);
    ASSERT_TRUE(reads(30, 0, 100'000));
    EXPECT_EQ(posts(), shim::kPostOpens | shim::kPostSlowReads);
    // What is slow has nothing for it either.
    ASSERT_TRUE(reads(2, 0, 100'000));
    EXPECT_EQ(posts(), shim::kPostOpens | shim::kPostSlowReads | shim::kLetSleep);
    ASSERT_TRUE(reads(1, 1, 100'000));
    EXPECT_EQ(posts(), shim::kPostOpens | shim::kPostReads) << "it has asked for the fifth page";
}

// A chain that goes by the places of reads names something at each of them.
TEST(Posts, AreSlowReadsOnlyWhileWhatAChainAsksForIsInMemory) {
    constexpr unsigned kPages = 256;
    const Folder folder;
    const std::string path = folder.write("blind.row", bytes_of(kPages));
    Running running(server_of(R"(
files rows = "*.row"
chain next on read(rows) as r { prefetch r.file at r.offset + r.length for 4096 }
)"));
    Poster poster(running.region(), 3);
    drop_pages(path);
    const InMemory known(path, 2, kPages - 2);
    ASSERT_TRUE(poster.opened(0, path));
    const auto posts = [&] { return running.region().class_posts[0].load(); };
    constexpr std::uint32_t aloud = shim::kPostOpens | shim::kPostReads | shim::kPostBegun;
    ASSERT_TRUE(runs_on_reads(running, poster, path, 1, 0));
    ASSERT_TRUE(happens([&] { return running.chain().fetches == 1; })) << "the second page is not in memory";
    for (unsigned page = 2; page < 65; page++) ASSERT_TRUE(runs_on_reads(running, poster, path, 1, page));
    ASSERT_TRUE(happens([&] { return running.chain().cached == 63; }));
    EXPECT_EQ(posts(), aloud);
    ASSERT_TRUE(runs_on_reads(running, poster, path, 1, 65));
    EXPECT_TRUE(happens([&] { return posts() == (shim::kPostOpens | shim::kPostSlowReads); }));
    ASSERT_TRUE(runs_on_reads(running, poster, path, 1, kPages - 1, 100'000));
    EXPECT_TRUE(happens([&] { return posts() == aloud; })) << "somebody has waited";
}

// A page may name more than a thousand others: while they are read, the chain waits for the next such page.
TEST(Posts, AreAllReadsWhileWhatWasFetchedIsRead) {
    const Folder folder;
    std::string bytes = pointing_to({5}, 8);
    for (const std::uint32_t page : {1, 5}) put_u32(bytes, page * kPage, 0);
    const std::string path = folder.write("used.ptr", bytes);
    Running running(server_of(kPointers));
    Poster poster(running.region(), 3);
    drop_pages(path);
    program_reads(path, 0, 2 * kPage);
    ASSERT_TRUE(poster.opened(0, path));
    const auto reads = [&](unsigned count, std::uint64_t page) {
        return runs_on_reads(running, poster, path, count, page);
    };
    ASSERT_TRUE(reads(1, 0));
    ASSERT_TRUE(happens([&] { return pages_in_memory(path, 5, 1) == 1; }));
    ASSERT_TRUE(reads(900, 1));
    ASSERT_TRUE(reads(1, 5));
    ASSERT_TRUE(happens([&] { return running.chain().hits == 1; }));
    ASSERT_TRUE(reads(900, 1));
    EXPECT_EQ(running.region().class_posts[0].load(), shim::kPostOpens | shim::kPostReads);
    ASSERT_TRUE(reads(130, 1));
    EXPECT_EQ(running.region().class_posts[0].load(), shim::kPostOpens | shim::kPostSlowReads);
}

TEST(Plan, ASpecWithoutAShadowChainIsRefused) {
    auto server = Server::create(compiled("app a { files data = \"*.x\" }\n"), {});
    ASSERT_FALSE(server);
    EXPECT_EQ(
        server.error(),
        "the spec has no shadow chain, so there is nothing to read ahead; declare one, `chain NAME on read(FILES) as r "
        "{ prefetch … }`, or import one of std/*_shadow.chain");
}

}  // namespace
}  // namespace chainio::shadow::test
