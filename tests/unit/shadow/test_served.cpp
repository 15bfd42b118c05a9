// The memory that programs are served from: one writer, many readers, and what a reader may believe.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "runtime/shadow/process_rings.h"
#include "runtime/shadow/served.h"
#include "tests/support/properties.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using shim::kNoFrame;
using shim::kServedPage;
using shim::Look;

constexpr std::uint64_t kSmall = std::uint64_t{1} << 20;
constexpr std::uint32_t kWords = kServedPage / sizeof(std::uint64_t);

std::unique_ptr<ServedMemory> memory_in(const Folder& folder, std::uint64_t bytes = kSmall) {
    static int count = 0;
    auto made = ServedMemory::create(folder.path() + "/served" + std::to_string(count++), bytes);
    EXPECT_TRUE(made) << made.error();
    return std::move(*made);
}

ServedIdentity named(std::uint64_t inode) {
    return {.device = 8, .inode = inode, .stamp = 7, .size = 1 << 30, .memory_align = 512, .offset_align = 512};
}

std::uint64_t word_of(std::uint64_t id, std::uint64_t page, std::uint32_t at) { return id << 48 | page << 16 | at; }

// As a device does it: the bytes come while others look.
void fill(const ServedMemory& memory, std::uint32_t frame, std::uint64_t id, std::uint64_t page) {
    auto* words = reinterpret_cast<std::uint64_t*>(memory.data(frame));
    for (std::uint32_t i = 0; i < kWords; i++) __atomic_store_n(words + i, word_of(id, page, i), __ATOMIC_RELAXED);
}

bool holds_page(const std::uint64_t* words, std::uint64_t id, std::uint64_t page) {
    for (std::uint32_t i = 0; i < kWords; i++)
        if (words[i] != word_of(id, page, i)) return false;
    return true;
}

TEST(Served, IsNoLargerThanAskedAndNoSmallerThanUseful) {
    const Folder folder;
    EXPECT_LE(memory_in(folder)->bytes(), kSmall);
    EXPECT_GT(memory_in(folder)->bytes(), kSmall * 9 / 10);
    EXPECT_FALSE(ServedMemory::create(folder.path() + "/none", kSmall - 1));
    EXPECT_FALSE(ServedMemory::create(folder.path() + "/no/folder", kSmall));
}

// The signal for a file that grows beyond the limit would end the process.
TEST(Served, IsNotMadeWhereFilesMayNotBeAsLarge) {
    const Folder folder;
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit small{kSmall / 2, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string path = folder.path() + "/served";
    const auto made = ServedMemory::create(path, kSmall);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error(), path + ": files may not be as large as that (ulimit -f)");
    EXPECT_FALSE(std::filesystem::exists(path));
}

// Programs believe that a file is as it was while its stamp is.
TEST(Served, AFilesStampGoesByItsSizeAndEachOfItsTimes) {
    using Change = void (*)(struct stat&);
    const std::array<Change, 6> changes = {
        [](struct stat&) {},
        [](struct stat& info) { info.st_size++; },
        [](struct stat& info) { info.st_mtim.tv_sec++; },
        [](struct stat& info) { info.st_mtim.tv_nsec++; },
        [](struct stat& info) { info.st_ctim.tv_sec++; },
        [](struct stat& info) { info.st_ctim.tv_nsec++; },
    };
    std::set<std::uint64_t> stamps;
    for (const Change change : changes) {
        struct stat info{};
        change(info);
        stamps.insert(shim::stamp_of(info));
        info.st_atim.tv_nsec++;
        EXPECT_TRUE(stamps.contains(shim::stamp_of(info))) << "who reads it changes nothing";
    }
    EXPECT_EQ(stamps.size(), changes.size());
    EXPECT_FALSE(stamps.contains(0));
}

TEST(Served, PagesAreOnTheirWayThenHereThenAnothers) {
    const Folder folder;
    const auto memory = memory_in(folder);
    const std::uint64_t id = memory->add(named(1));
    std::vector<std::uint64_t> out(2 * std::size_t{kWords});
    EXPECT_EQ(look_for(memory->parts(), id, 0, kServedPage), Look::absent);
    const std::uint32_t first = memory->begin(id, 3, 2);
    ASSERT_NE(first, kNoFrame);
    EXPECT_EQ(look_for(memory->parts(), id, 3 * kServedPage, 2 * kServedPage), Look::on_its_way);
    EXPECT_FALSE(copy_from(memory->parts(), id, 3 * kServedPage, 8, out.data()));
    for (std::uint32_t i = 0; i < 2; i++) fill(*memory, first + i, id, 3 + i);
    memory->arrived(first, 2, kServedPage + 100);
    EXPECT_EQ(look_for(memory->parts(), id, 3 * kServedPage, 2 * kServedPage), Look::here);
    ASSERT_TRUE(copy_from(memory->parts(), id, 3 * kServedPage, kServedPage + 100, out.data()));
    EXPECT_TRUE(holds_page(out.data(), id, 3));
    EXPECT_EQ(out[kWords], word_of(id, 4, 0));
    EXPECT_FALSE(copy_from(memory->parts(), id, 3 * kServedPage, kServedPage + 101, out.data()));  // behind the end
    EXPECT_EQ(look_for(memory->parts(), id, 2 * kServedPage, 2 * kServedPage), Look::absent);
    EXPECT_EQ(look_for(memory->parts(), id + 1, 3 * kServedPage, 8), Look::absent);
    // From the middle of a page on, by any number of bytes.
    std::uint8_t some[100] = {};
    ASSERT_TRUE(copy_from(memory->parts(), id, 3 * kServedPage + 5, 13, some));
    EXPECT_EQ(std::memcmp(some, reinterpret_cast<const std::uint8_t*>(out.data()) + 5, 13), 0);
    EXPECT_EQ(some[13], 0);
    const std::uint32_t lost = memory->begin(id, 9, 1);
    memory->failed(lost, 1);
    EXPECT_EQ(look_for(memory->parts(), id, 9 * kServedPage, 1), Look::absent);
}

TEST(Served, FramesUnderWayAreNotGivenAway) {
    const Folder folder;
    const auto memory = memory_in(folder);
    const std::uint64_t id = memory->add(named(1));
    const std::uint32_t all = memory->parts().frame_count, half = all / 2;
    const std::uint32_t first = memory->begin(id, 0, half);
    memory->arrived(memory->begin(id, 1000, half), half, std::uint64_t{half} * kServedPage);
    EXPECT_EQ(memory->begin(id, 5000, half), kNoFrame);
    EXPECT_EQ(memory->begin(id, 0, all + 1), kNoFrame);
    memory->arrived(first, half, std::uint64_t{half} * kServedPage);
    EXPECT_NE(memory->begin(id, 5000, half), kNoFrame);
    EXPECT_EQ(look_for(memory->parts(), id, 0, kServedPage), Look::absent);
    EXPECT_EQ(look_for(memory->parts(), id, 1000 * kServedPage, kServedPage), Look::here);
}

TEST(Served, FilesHaveFewPlacesAndNoIdTwice) {
    const Folder folder;
    const auto memory = memory_in(folder);
    std::vector<std::uint64_t> ids;
    for (std::uint32_t i = 0; i < shim::kFileWays; i++) ids.push_back(memory->add(named(1)));
    EXPECT_EQ(memory->add(named(1)), 0u);
    memory->remove(ids[1]);
    EXPECT_GT(memory->add(named(1)), ids.back());
}

// Random ranges of random files against what was last brought for each page. What is found is right; what is not may be
// missing only for want of room.
TEST(Served, AgreesWithAModel) {
    const Folder folder;
    unsigned begun = 0, found = 0;
    EXPECT_TRUE(rc::check([&] {
        const auto memory = memory_in(folder);
        struct Way {
            std::uint32_t first, pages;
        };
        std::vector<Way> under_way;
        std::vector<std::uint64_t> ids;
        for (std::uint64_t inode = 1; inode <= 3; inode++) ids.push_back(memory->add(named(inode)));
        for (int turn = 0; turn < 200; turn++) {
            const std::uint64_t id = ids[*rc::gen::inRange<std::size_t>(0, ids.size())];
            const auto page = *rc::gen::inRange<std::uint64_t>(0, 300);
            const auto pages = *rc::gen::inRange<std::uint32_t>(1, 40);
            const int what = *rc::gen::inRange(0, 4);
            if (what == 0) {
                const std::uint32_t first = memory->begin(id, page, pages);
                if (first == kNoFrame) continue;
                for (std::uint32_t i = 0; i < pages; i++) fill(*memory, first + i, id, page + i);
                // A full bucket may have lost the hint of a page, which is absent then.
                const Look look = look_for(memory->parts(), id, page * kServedPage, pages * kServedPage);
                RC_ASSERT(look != Look::here);
                begun++;
                found += look == Look::on_its_way;
                under_way.push_back({first, pages});
            } else if (what == 1 && !under_way.empty()) {
                const Way way = under_way.back();
                under_way.pop_back();
                memory->arrived(way.first, way.pages,
                                *rc::gen::inRange(0, 3) == 0 ? 0 : std::uint64_t{way.pages} * kServedPage);
            } else {
                std::vector<std::uint64_t> out(std::size_t{pages} * kWords);
                if (!copy_from(memory->parts(), id, page * kServedPage, pages * kServedPage, out.data())) continue;
                for (std::uint32_t i = 0; i < pages; i++) RC_ASSERT(holds_page(out.data() + i * kWords, id, page + i));
            }
        }
    }));
    EXPECT_GT(begun, 1000u);
    EXPECT_GT(found, begun / 100 * 99);
}

// One writer that never stops, readers that never wait: whatever a reader is given is what it asked for.
TEST(Served, ReadersNeverTakeWhatIsBeingWritten) {
    const Folder folder;
    const auto memory = memory_in(folder);
    constexpr std::uint64_t kPages = 400;  // more than there are frames
    const std::array<std::uint64_t, 2> ids{memory->add(named(1)), memory->add(named(2))};
    std::atomic<bool> stop{false};
    std::atomic<unsigned> taken{0}, wrong{0}, missed{0};
    std::vector<std::thread> readers;
    for (unsigned seed = 0; seed < 3; seed++) {
        readers.emplace_back([&, seed] {
            std::mt19937 random(seed);
            std::vector<std::uint64_t> out(8 * std::size_t{kWords});
            while (!stop) {
                const std::uint64_t id = ids[random() % 2], page = random() % kPages;
                const std::uint32_t pages = 1 + random() % 8;
                if (!copy_from(memory->parts(), id, page * kServedPage, pages * kServedPage, out.data())) {
                    missed++;
                    continue;
                }
                taken++;
                for (std::uint32_t i = 0; i < pages; i++)
                    if (!holds_page(out.data() + std::size_t{i} * kWords, id, page + i)) wrong++;
            }
        });
    }
    std::mt19937 random(99);
    for (int turn = 0; turn < 20'000 || (taken < 1000 && turn < 1'000'000); turn++) {
        const std::uint64_t id = ids[random() % 2], page = random() % kPages;
        const std::uint32_t pages = 1 + random() % 16, first = memory->begin(id, page, pages);
        ASSERT_NE(first, kNoFrame);
        for (std::uint32_t i = 0; i < pages; i++) fill(*memory, first + i, id, page + i);
        memory->arrived(first, pages, turn % 64 == 0 ? 0 : std::uint64_t{pages} * kServedPage);
    }
    stop = true;
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_GE(taken, 1000u);
    EXPECT_GT(missed, 0u);
}

// Its bytes are no atomics, so that ThreadSanitizer sees whether they are handed over.
TEST(Served, WhatAReaderFindsWasWrittenBefore) {
    const Folder folder;
    const auto memory = memory_in(folder);
    const std::uint64_t id = memory->add(named(1));
    const std::uint32_t frame = memory->begin(id, 7, 1);
    std::uint8_t* bytes = memory->data(frame);
    std::thread reader([&] {
        while (look_for(memory->parts(), id, 7 * kServedPage, kServedPage) != Look::here) std::this_thread::yield();
        EXPECT_TRUE(std::all_of(bytes, bytes + kServedPage, [](std::uint8_t byte) { return byte == 'x'; }));
    });
    std::memset(bytes, 'x', kServedPage);
    memory->arrived(frame, 1, kServedPage);
    reader.join();
}

const char* const kBehind = R"(
app tables { files data = "*.tab" { immutable } }
chain behind on read(data) as r { prefetch r.file at r.offset + r.length for 64KiB }
)";

// What a server serves from, mapped as a program maps it.
class Mapped {
  public:
    explicit Mapped(const Server& server) : bytes_(server.region().served) {
        const std::string& region = server.region_path();
        const int fd = open((region.substr(0, region.rfind('/')) + shim::kServedFile).c_str(), O_RDONLY | O_CLOEXEC);
        void* at = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        memory_ = static_cast<std::uint8_t*>(at);
        EXPECT_TRUE(at != MAP_FAILED && served_parts(memory_, bytes_, parts_));
    }
    ~Mapped() { munmap(memory_, bytes_); }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    const shim::ServedParts& parts() const { return parts_; }
    // The id of the only file.
    std::uint64_t file() const {
        for (std::uint32_t i = 0; i < shim::kServedFiles; i++)
            if (const std::uint64_t id = parts_.files[i].id; id != 0) return id;
        return 0;
    }

  private:
    std::uint64_t bytes_;
    std::uint8_t* memory_;
    shim::ServedParts parts_;
};

TEST(Served, WhatIsFetchedOfAFileThatIsReadDirectlyIsInMemoryOfItsOwn) {
    const Folder folder;
    std::string bytes(20 * std::size_t{kServedPage} + 77, 0);
    for (std::size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<char>(i * 31 + i / kServedPage);
    const std::string path = folder.write("a.tab", bytes);
    drop_pages(path);
    ASSERT_TRUE(until_settled(path));
    Running running(server_of(kBehind));
    tests::Poster poster(running.region(), 0);
    EXPECT_EQ(running.region().served, 0u);
    ASSERT_TRUE(poster.opened(0, path, O_DIRECT));
    ASSERT_TRUE(poster.direct(0, path, 0, 5 * kServedPage));
    ASSERT_TRUE(happens([&] { return running.chain().fetches == 1; }));
    const Mapped mapped(running.server());
    const std::uint64_t id = mapped.file(), from = 5 * kServedPage, length = bytes.size() - from;
    ASSERT_NE(id, 0u);
    ASSERT_TRUE(happens([&] { return look_for(mapped.parts(), id, from, length) == Look::here; }));
    std::string got(length, 0);
    ASSERT_TRUE(copy_from(mapped.parts(), id, from, length, got.data()));
    EXPECT_EQ(got, bytes.substr(from));
    EXPECT_FALSE(copy_from(mapped.parts(), id, from, length + 1, got.data()));
    EXPECT_EQ(pages_in_memory(path, 0, 20), 0u);  // and nowhere else
    // A read that was not served takes nothing of it, whatever it touches; one that was does.
    ASSERT_TRUE(poster.direct(0, path, from, kServedPage));
    EXPECT_TRUE(happens([&] { return running.chain().events == 2; }));
    EXPECT_EQ(running.chain().hits + running.chain().late, 0u);
    ASSERT_TRUE(poster.served(0, path, from, kServedPage));
    EXPECT_TRUE(happens([&] { return running.chain().hits == 1; }));
    EXPECT_EQ(running.chain().served, 1u);
    // This process has an io_uring, the server's own.
    EXPECT_EQ(running.region().serves[0], 0u);
}

// Nothing but the call that the program uses keeps it from being served.
TEST(Served, ThatNoReadOfWhatLiesReadyIsServedIsTold) {
    constexpr unsigned kReads = 8;
    for (const auto& [reads, served] :
         {std::pair(kReads, false), std::pair(kReads - 1, false), std::pair(kReads, true)}) {
        const Folder folder;
        const std::string path = folder.write("a.tab", std::string(20 * std::size_t{kServedPage}, 'x'));
        drop_pages(path);
        ASSERT_TRUE(until_settled(path));
        Running running(server_of(kBehind));
        tests::Poster poster(running.region(), 0);
        ASSERT_TRUE(poster.opened(0, path, O_DIRECT));
        ASSERT_TRUE(poster.direct(0, path, 0, 5 * kServedPage));
        ASSERT_TRUE(happens([&] { return running.chain().fetches == 1; }));
        const Mapped mapped(running.server());
        ASSERT_TRUE(happens(
            [&] { return look_for(mapped.parts(), mapped.file(), 5 * kServedPage, 5 * kServedPage) == Look::here; }));
        for (unsigned i = 0; i < reads; i++) ASSERT_TRUE(poster.direct(0, path, 6 * kServedPage, kServedPage));
        ASSERT_TRUE(poster.direct(0, path, kServedPage, kServedPage)) << "of which nothing was fetched";
        if (served) running.region().stats.classes[0].served = 1;
        ASSERT_TRUE(happens([&] { return poster.taken(); }));
        running.stop();
        std::vector<std::string> notes = running.server().report().notes;
        std::erase_if(notes, [](const std::string& note) { return !note.contains("none was served"); });
        std::vector<std::string> expected;
        if (reads == kReads && !served)
            expected.emplace_back(
                "8 reads of class 'data' with O_DIRECT went to the disk for what was in memory soon after, and none "
                "was served: only `pread` is, not `read` or `preadv`, of a descriptor that is for reading only, in a "
                "process without an io_uring, and of what is there, or on its way, as it begins");
        EXPECT_EQ(notes, expected);
    }
}

TEST(Served, SoIsOneThatChainsOnlyFetchFrom) {
    const Folder folder;
    const std::string mark = folder.write("a.mrk", "x");
    const std::string column = folder.write("a.col", std::string(20 * std::size_t{kServedPage}, 'a'));
    drop_pages(column);
    ASSERT_TRUE(until_settled(column));
    Running running(server_of(R"(
app columns { files marks = "*.mrk" { immutable }  files columns = "*.col" { immutable } }
chain follow on read(marks) as r { prefetch columns.sibling(r, ".col") at 16KiB for 4KiB }
)"));
    tests::Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, mark));
    ASSERT_TRUE(poster.opened(1, column, O_DIRECT));
    ASSERT_TRUE(poster.read(0, mark, 0, 1));
    ASSERT_TRUE(happens([&] { return running.chain().fetches == 1; }));
    ASSERT_NE(running.region().served, 0u);
    const Mapped mapped(running.server());
    const std::uint64_t id = mapped.file();
    EXPECT_TRUE(happens([&] { return look_for(mapped.parts(), id, 16384, kServedPage) == Look::here; }));
    EXPECT_EQ(pages_in_memory(column, 0, 20), 0u);
}

// A process that does nothing but what it is told by a pipe: to set up an io_uring, and to end.
class Other {
  public:
    Other() {
        EXPECT_EQ(pipe2(orders_, O_CLOEXEC), 0);
        pid_ = fork();
        if (pid_ != 0) return;
        char order = 0;
        io_uring_params parameters{};
        while (read(orders_[0], &order, 1) == 1 && order == 'r') {
            const auto ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters));
            mmap(nullptr, 64, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
        }
        _exit(0);
    }
    ~Other() {
        order('e');
        waitpid(pid_, nullptr, 0);
        for (const int end : orders_) close(end);
    }
    Other(const Other&) = delete;
    Other& operator=(const Other&) = delete;
    void order(char what) const { EXPECT_EQ(write(orders_[1], &what, 1), 1); }
    std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }

  private:
    int orders_[2] = {-1, -1};
    pid_t pid_ = 0;
};

// Its operations on the ring would find other bytes than it is served.
TEST(Served, AProcessIsServedUntilItHasAnIoUring) {
    const Other other;  // before there are threads
    const Folder folder;
    const std::string path = folder.write("a.tab", std::string(20 * std::size_t{kServedPage}, 'a'));
    ASSERT_TRUE(until_settled(path));
    Running running(server_of(kBehind));
    tests::Poster poster(running.region(), 7, other.pid(), other.pid());
    ASSERT_TRUE(poster.opened(0, path, O_DIRECT));
    ASSERT_TRUE(poster.direct(0, path, 0, kServedPage));
    EXPECT_TRUE(happens([&] { return running.region().serves[7] == other.pid(); }));
    other.order('r');
    if (ProcessRings::held_by(static_cast<std::uint32_t>(getpid())).value_or(0) == 0)
        GTEST_SKIP() << "no io_uring here";
    EXPECT_TRUE(happens([&] { return running.region().serves[7] == 0u; }));
}

TEST(Served, AFileThatChangesIsServedNoMore) {
    const Folder folder;
    const std::string path = folder.write("a.tab", std::string(20 * std::size_t{kServedPage}, 'a'));
    ASSERT_TRUE(until_settled(path));
    Running running(server_of(kBehind));
    tests::Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path, O_DIRECT));
    ASSERT_TRUE(poster.direct(0, path, 0, kServedPage));
    ASSERT_TRUE(happens([&] { return running.chain().fetches == 1; }));
    const Mapped mapped(running.server());
    const std::uint64_t before = mapped.file();
    ASSERT_NE(before, 0u);
    folder.write("a.tab", std::string(20 * std::size_t{kServedPage}, 'b'));
    ASSERT_TRUE(poster.direct(0, path, 2 * kServedPage, kServedPage));
    EXPECT_TRUE(happens([&] { return mapped.file() != before; }));
    running.stop();
    std::string notes;
    for (const std::string& note : running.server().report().notes) notes += note + "\n";
    EXPECT_NE(notes.find("it has changed, though its class is immutable"), std::string::npos) << notes;
}

}  // namespace
}  // namespace chainio::shadow::test
