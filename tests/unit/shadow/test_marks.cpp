// Places of files that chains know again.
#include "runtime/shadow/marks.h"

#include <set>

#include "compiler/ir/artifact.h"
#include "compiler/ir/visit.h"
#include "runtime/shadow/plan.h"
#include "runtime/shadow/silence.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

TEST(Marks, ArePlacesOfFiles) {
    Marks marks;
    EXPECT_EQ(marks.of(1, 0), 0u);
    marks.set(1, 0, 7);
    marks.set(2, 0, 8);
    marks.set(1, kPage, 9);
    EXPECT_EQ(marks.of(1, 0), 7u);
    EXPECT_EQ(marks.of(2, 0), 8u);
    EXPECT_EQ(marks.of(1, kPage), 9u);
    EXPECT_EQ(marks.of(2, kPage), 0u);
    marks.set(1, 0, 10);
    EXPECT_EQ(marks.of(1, 0), 10u);
    marks.set(1, 0, 0);
    EXPECT_EQ(marks.of(1, 0), 0u);
}

TEST(Marks, OfAFileAreThoseOfPlacesWithoutOne) {
    Marks marks;
    marks.set(1, kPage, 9);
    marks.set(1, CIO_MARK_FILE, 5);
    EXPECT_EQ(marks.of(1, 0), 5u);
    EXPECT_EQ(marks.of(1, kPage), 9u);
    EXPECT_EQ(marks.of(2, 0), 0u);
}

TEST(Marks, AreForgottenWhenTheTableIsFullAndNeverMixedUp) {
    Marks marks;
    constexpr std::uint64_t kMany = 4 * Marks::kSets * Marks::kWays;
    for (std::uint64_t i = 0; i < kMany; i++) marks.set(i % 3, i * kPage, i + 1);
    std::uint64_t kept = 0;
    for (std::uint64_t i = 0; i < kMany; i++) {
        const std::uint64_t mark = marks.of(i % 3, i * kPage);
        ASSERT_TRUE(mark == 0 || mark == i + 1) << i;
        kept += mark != 0;
    }
    EXPECT_LE(kept, Marks::kSets * Marks::kWays);
    EXPECT_GT(kept, Marks::kSets * Marks::kWays * 9 / 10);
    EXPECT_EQ(marks.of((kMany - 1) % 3, (kMany - 1) * kPage), kMany);
}

TEST(Marks, AsFewAsThereIsRoomForAreHardlyForgotten) {
    Marks marks;
    constexpr std::uint64_t kSome = Marks::kSets;
    for (std::uint64_t i = 0; i < kSome; i++) marks.set(1, i * kPage, i + 1);
    std::uint64_t kept = 0;
    for (std::uint64_t i = 0; i < kSome; i++) kept += marks.of(1, i * kPage) != 0;
    EXPECT_GT(kept, kSome * 99 / 100);
}

// A page that is touched for the first time takes microseconds: the marks of a tree's leaves lie together as those do.
TEST(Marks, OfPlacesInARowLieTogether) {
    const Marks marks;
    std::set<std::size_t> pages, sets;
    for (std::uint64_t i = 0; i < 512; i++) {
        sets.insert(marks.set_of(1, (1'000 + i) * kPage));
        pages.insert(marks.set_of(1, (1'000 + i) * kPage) / Marks::kSetsTogether);
    }
    EXPECT_LE(pages.size(), 9u);
    EXPECT_GT(sets.size(), 350u);
}

// Files of small and of large pages fill the table as well.
TEST(Marks, OfPagesOfAnySizeAreHardlyForgotten) {
    for (const std::uint64_t page : {512u, 1024u, 16384u, 65536u}) {
        Marks marks;
        constexpr std::uint64_t kSome = Marks::kSets;
        for (std::uint64_t i = 0; i < kSome; i++) marks.set(1, i * page, i + 1);
        std::uint64_t kept = 0;
        for (std::uint64_t i = 0; i < kSome; i++) kept += marks.of(1, i * page) == i + 1;
        EXPECT_GT(kept, kSome * 98 / 100) << page;
    }
}

// A root page names a page, whose mark is a number that a chain finds on page 20; where such a page is read, that much
// is fetched behind it.
constexpr const char* kMarked = R"(
app marked { files data = "*.idx" }
record Root { child: u32le  passes_on: u8 }
record Number { value: u64le }
chain number(db: file data, at_page: u64) -> u64 { step s(n: Number at at_page * 4096 for 8) { return n.value } }
chain follow on read(data) as r {
  let page = r.record(Root)
  if r.offset == 0 { mark r.file at page.child * 4096 via number(r.file, 20) }
  if r.mark != 0 && page.passes_on == 1 { mark r.file at page.child * 4096 with r.mark + 1 }
  if r.mark != 0 && page.passes_on == 0 { prefetch r.file at r.offset + 4096 for r.mark * 4096 }
}
)";

std::string page_of(std::uint32_t child, bool passes_on) {
    std::string page(kPage, 0);
    page[0] = static_cast<char>(child);
    page[4] = passes_on ? 1 : 0;
    return page;
}

std::string marked_file(const Folder& folder) {
    std::string bytes(std::size_t{32} * kPage, 0);
    bytes.replace(0, kPage, page_of(4, false));
    bytes.replace(std::size_t{4} * kPage, kPage, page_of(8, true));
    bytes[std::size_t{20} * kPage] = 5;
    return folder.write("a.idx", bytes);
}

TEST(Marks, AreWhatAReadIsKnownAgainBy) {
    const Folder folder;
    const std::string path = marked_file(folder);
    Running running(server_of(kMarked));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    // All at once, as of a program that has done much until the server came up: each is known by the one before.
    ASSERT_TRUE(poster.read(0, path, 8 * kPage, kPage));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    ASSERT_TRUE(poster.read(0, path, 4 * kPage, kPage));
    ASSERT_TRUE(poster.read(0, path, 8 * kPage, kPage));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    const shim::ChainStats& chain = running.chain();
    EXPECT_EQ(chain.events, 4u);
    EXPECT_EQ(chain.failed, 0u);
    EXPECT_EQ(chain.walks, 0u);  // none of which anything is expected
    EXPECT_EQ(chain.fetches + chain.cached, 1u);
    EXPECT_EQ(chain.fetched_bytes, chain.fetches * 6 * kPage);  // what page 20 says, and one more
}

TEST(Marks, OfWalksComeAlsoFromTheDisk) {
    const Folder folder;
    const std::string path = marked_file(folder);
    Running running(server_of(kMarked));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    Seen seen(path, {9, 6});
    EXPECT_TRUE(happens([&] {
        if (seen.all()) return true;
        if (!poster.taken()) return false;
        return !poster.read(0, path, 0, kPage) || !poster.read(0, path, 4 * kPage, kPage) ||
               !poster.read(0, path, 8 * kPage, kPage);
    }));
    EXPECT_TRUE(seen.all());
    running.stop();
    EXPECT_EQ(running.chain().failed, 0u);
}

TEST(Marks, OfAnotherFileAreNotItsOwn) {
    const Folder folder;
    const std::string path = marked_file(folder);
    const std::string other = folder.write("b.idx", std::string(std::size_t{32} * kPage, 0));
    Running running(server_of(kMarked));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.opened(0, other));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    ASSERT_TRUE(poster.read(0, other, 4 * kPage, kPage));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    EXPECT_EQ(running.chain().fetches + running.chain().cached, 0u);
}

void make_all(ir::PrefetchKind kind, ir::Body& body) {
    for (ir::Stmt& stmt : body) {
        if (auto* prefetch = std::get_if<ir::Prefetch>(&stmt.node)) prefetch->kind = kind;
        ir::for_each_body(stmt, [&](ir::Body& nested) { make_all(kind, nested); });
    }
}

constexpr const char* kInARow = R"(
app marked { files data = "*.idx" }
record Page { next: u32le }
chain follow on read(data) as r {
  let page = r.record(Page)
  if r.offset == 0 { for i in range(1, 8) { mark r.file at i * 4096 with i } }
  if r.mark != 0 { mark r.file at r.offset with r.mark }
  if r.mark > 1 && r.last_mark + 1 == r.mark && page.next == 0 { prefetch r.file at r.offset + 4096 * 16 for r.last_mark * 4096 }
}
chain other on read(data) as r {
  mark r.file at 131072 with 1
  if r.mark == 1000 && r.last_mark == 1000 { prefetch r.file at 0 for 4096 }
}
)";

class MarksInARow : public testing::Test {
  protected:
    void reads(const std::string& path, std::initializer_list<std::uint64_t> pages, unsigned thread = 0) {
        for (const std::uint64_t page : pages) ASSERT_TRUE(poster(thread).read(0, path, page * kPage, kPage));
        ASSERT_TRUE(happens([&] { return poster(thread).taken(); }));
    }
    Poster& poster(unsigned thread) { return thread == 0 ? first_ : second_; }
    std::uint64_t bytes() {
        running_.stop();
        const shim::ChainStats& chain = running_.chain();
        EXPECT_EQ(chain.failed, 0u);
        return chain.fetched_bytes / kPage + chain.cached;
    }

    const Folder folder_;
    const std::string path_ = folder_.write("a.idx", std::string(std::size_t{32} * kPage, 0));
    Running running_{server_of(kInARow)};
    Poster first_{running_.region(), 0}, second_{running_.region(), 1};
};

// As it is at the read behind it, not as it was at its own.
TEST(Marks, OfWhatWasReadBeforeAreThoseThatItsChainHasLeftThere) {
    const Folder folder;
    const std::string path = folder.write("a.idx", std::string(std::size_t{32} * kPage, 0));
    Running running(server_of(R"(
app marked { files data = "*.idx" }
record Page { next: u32le }
chain follow on read(data) as r {
  let page = r.record(Page)
  if r.offset == 0 { for i in range(1, 8) { mark r.file at i * 4096 with i } }
  if r.last_mark + 1 == r.mark { mark r.file at r.offset with r.mark + 100 }
  if r.last_mark > 100 && page.next == 0 { prefetch r.file at 65536 for 4096 }
}
)"));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    for (const std::uint64_t page : {0, 1, 2, 3}) ASSERT_TRUE(poster.read(0, path, page * kPage, kPage));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    EXPECT_EQ(running.chain().fetches + running.chain().cached, 1u);
}

// Of 1, 3, 20 and 4 only 4 comes after the one before it: of 20 the chain says nothing, and what the other says is its.
TEST_F(MarksInARow, TellWhatWasReadBefore) {
    drop_pages(path_);
    ASSERT_TRUE(first_.opened(0, path_));
    reads(path_, {0, 1, 3, 20, 4});
    EXPECT_EQ(bytes(), 3u);
}

TEST_F(MarksInARow, AreThoseOfTheThread) {
    drop_pages(path_);
    ASSERT_TRUE(first_.opened(0, path_));
    reads(path_, {0, 1});
    reads(path_, {2}, 1);
    EXPECT_EQ(bytes(), 0u);
}

TEST_F(MarksInARow, AreThoseOfTheFile) {
    const std::string other = folder_.write("b.idx", std::string(std::size_t{32} * kPage, 0));
    ASSERT_TRUE(first_.opened(0, path_));
    ASSERT_TRUE(first_.opened(0, other));
    reads(path_, {0});
    reads(other, {0});
    reads(path_, {1});
    reads(other, {2});
    EXPECT_EQ(bytes(), 0u);
}

// Of what walks have read chains mostly have nothing more to say, and few of those pages are shown to them.
TEST(Marks, AreShownToTheChainWhereWalksHaveBeenToo) {
    constexpr std::uint64_t kFirst = 32, kWalks = 60;
    const Folder folder;
    const std::string path = folder.write("a.idx", std::string(std::size_t{128} * kPage, 0));
    Running running(server_of(R"(
app marked { files data = "*.idx" }
record Number { value: u64le }
chain number(db: file data, at_page: u64) -> u64 { step s(n: Number at at_page * 4096 for 8) { return n.value } }
chain follow on read(data) as r {
  let page = r.record(Number)
  if r.offset == 0 {
    mark r.file at 91 * 4096 with 3
    for i in range(0, 60) { prefetch via number(r.file, 32 + i) }
  }
  if r.mark == 3 && page.value == 0 { prefetch r.file at 4096 for 4096 }
}
chain sees_all on read(data) as r { if r.record(Number).value == 7 { prefetch r.file at 8192 for 4096 } }
)"));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    ASSERT_TRUE(happens([&] { return running.chain().fetches == kWalks; }));
    for (std::uint64_t i = 0; i < kWalks; i++) ASSERT_TRUE(poster.read(0, path, (kFirst + i) * kPage, kPage));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    EXPECT_LT(running.chain().events, kWalks);
    EXPECT_LT(running.chain(1).events, kWalks);
    EXPECT_EQ(running.chain().fetches + running.chain().cached, kWalks + 1);
}

// What a page of a file has a chain do: `does`, with page `child`.
enum Does : std::uint8_t { kNothing, kSets, kAsks, kAsksInVain, kFetches, kFetchesOther, kWalks, kAsksTwice };

constexpr const char* kKinds = R"(
app kinds { files data = "*.knd" }
record Page { child: u32le  does: u8 in { 0 nothing, 1 sets, 2 asks, 3 in_vain, 4 fetches, 5 others, 6 walks, 7 twice } }
record Number { value: u64le }
chain number(db: file data, at_page: u64) -> u64 {
  step s(n: Number at at_page * 4096 for 8) {
    if n.value == 0 { fail none }
    return n.value
  }
}
chain follow on read(data) as r {
  let page = r.record(Page)
  let child = page.child * 4096
  if page.does == sets { mark r.file at child with 2 }
  if page.does == asks { mark r.file at child via number(r.file, 20) }
  if page.does == in_vain { mark r.file at child via number(r.file, 21) }
  if page.does == fetches && r.mark == 2 { prefetch r.file at child for 4096 }
  if page.does == others && r.mark == 5 { prefetch r.file at child for 4096 }
  if page.does == walks { prefetch via number(r.file, 20) }
  if page.does == twice {
    mark r.file at child via number(r.file, 20)
    mark r.file at child + 4096 via number(r.file, 20)
  }
}
)";

class MarksOfKinds : public testing::Test {
  protected:
    explicit MarksOfKinds(const ServerOptions& options = {}) : running_(server_of(kKinds, options)) {}

    void page(std::uint32_t number, Does does, std::uint32_t child) {
        bytes_.replace(std::size_t{number} * kPage, kPage, page_of(child, false));
        bytes_[std::size_t{number} * kPage + 4] = static_cast<char>(does);
    }
    // All that the chain does of itself is in memory.
    void program_reads(const std::vector<std::uint32_t>& pages) {
        if (path_.empty()) {
            bytes_[std::size_t{20} * kPage] = 5;
            path_ = folder_.write("a.knd", bytes_);
            ASSERT_TRUE(poster_.opened(0, path_));
        }
        for (const std::uint32_t number : pages)
            ASSERT_TRUE(poster_.read(0, path_, std::uint64_t{number} * kPage, kPage, 1'000));
        ASSERT_TRUE(happens([&] { return poster_.taken(); }));
    }
    std::uint64_t asked() { return running_.chain().fetches + running_.chain().cached; }

    const Folder folder_;
    std::string path_, bytes_ = std::string(std::size_t{32} * kPage, 0);
    Running running_;
    Poster poster_{running_.region(), 0};
};

TEST_F(MarksOfKinds, StayWhereAWalkFails) {
    page(1, kSets, 8);
    page(2, kAsksInVain, 8);
    page(8, kFetches, 24);
    program_reads({1, 2, 8});
    running_.stop();
    EXPECT_EQ(asked(), 1u);
}

TEST_F(MarksOfKinds, AreSeveralOfOneWalk) {
    page(1, kAsks, 8);
    page(2, kAsks, 9);
    page(8, kFetchesOther, 24);
    page(9, kFetchesOther, 26);
    program_reads({1, 2, 8, 9});
    running_.stop();
    EXPECT_EQ(asked(), 2u);
}

TEST_F(MarksOfKinds, OfTheFirstByteAreNotWhatAWalkForItselfHasBroughtBefore) {
    page(1, kWalks, 0);
    page(2, kAsks, 0);
    page(0, kFetchesOther, 24);
    program_reads({1});
    ASSERT_TRUE(happens([&] { return asked() == 1; }));
    program_reads({2, 0});
    running_.stop();
    EXPECT_EQ(asked(), 2u);
}

class MarksOneAtATime : public MarksOfKinds {
  protected:
    MarksOneAtATime() : MarksOfKinds({.in_flight = 1}) {}
};

TEST_F(MarksOneAtATime, AreAllFound) {
    page(1, kAsksTwice, 8);
    page(8, kFetchesOther, 24);
    page(9, kFetchesOther, 26);
    program_reads({1, 8, 9});
    running_.stop();
    EXPECT_EQ(asked(), 2u);
    EXPECT_EQ(running_.chain().dropped, 0u);
}

// A chain that remembers what it sees is told of more, but no longer than one that has had something to ask for.
TEST_F(MarksOfKinds, AreNeitherSomethingAskedForNorNothing) {
    page(1, kSets, 8);
    page(2, kNothing, 0);
    const auto posts = [&] { return running_.region().class_posts[0].load(); };
    program_reads(std::vector<std::uint32_t>(std::size_t{2} * Silence::kQuiet, 1));
    EXPECT_EQ(posts(), shim::kPostOpens | shim::kPostReads);
    std::vector<std::uint32_t> mixed;
    for (unsigned i = 0; i + 1 < Silence::kQuiet; i++) mixed.insert(mixed.end(), {2, 1});
    program_reads(mixed);
    EXPECT_EQ(posts(), shim::kPostOpens | shim::kPostReads);
    program_reads({2});
    EXPECT_TRUE(happens([&] { return posts() == (shim::kPostOpens | shim::kPostSlowReads); }));
}

// Of a chain that sees no byte and is shown the end of a read that is longer than what chains are shown.
TEST(Marks, AreOfWhereAReadBegins) {
    constexpr std::uint32_t kLong = 4 * CIO_MAX_BLOCK;
    const Folder folder;
    const std::string path = folder.write("a.row", std::string(std::size_t{2} * kLong, 0));
    Running running(server_of(R"(
files rows = "*.row"
chain next on read(rows) as r {
  if r.length == 4096 { mark r.file at r.offset + 4096 with 3 }
  if r.mark != 0 { prefetch r.file at r.offset + r.length for r.mark * 4096 }
}
)"));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    ASSERT_TRUE(poster.read(0, path, kPage, kLong));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    EXPECT_EQ(running.chain().fetches + running.chain().cached, 1u);
}

// The file of a read and nothing else is what they are of; what a chain fetches says what it has to do with.
TEST(Marks, AreOfTheEventsClassAlone) {
    const auto spec = compiled(R"(
files others = "*.oth"
files rows = "*.row"
chain next on read(rows) as r {
  mark r.file at 4096 with 1
  if r.mark == 1 { prefetch r.file at 0 for 4096 }
}
)");
    const auto plan = plan_of(spec->module());
    ASSERT_TRUE(plan) << plan.error();
    EXPECT_EQ(plan->classes, std::vector<std::uint32_t>{1});
    EXPECT_EQ(plan->chains[0].targets, std::vector<std::uint32_t>{0});
}

// As where a read begins, it is known without the file. The first of a device is opened for what is said of that.
TEST(Marks, AreLookedUpBeforeTheFileIsOpen) {
    const Folder folder;
    const std::string bytes(std::size_t{4} * kPage, 0);
    const std::string first = folder.write("a.row", bytes), second = folder.write("b.row", bytes);
    Running running(server_of(R"(
files rows = "*.row"
chain next on read(rows) as r { if r.mark != 0 { prefetch r.file at 0 for r.mark } }
)"));
    Poster poster(running.region(), 0);
    for (const std::string& path : {first, second}) {
        ASSERT_TRUE(poster.opened(0, path));
        ASSERT_TRUE(poster.read(0, path, 0, kPage));
    }
    ASSERT_TRUE(happens([&] { return poster.taken() && running.chain().events == 2; }));
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        EXPECT_NE(std::filesystem::read_symlink(entry, ignored), second);
}

// As no compiler makes it: of what is about to be received there is no file to mark a place of.
TEST(Marks, OfNoFileAreDropped) {
    const Folder folder;
    const auto spec = compiled("files docs = \"" + folder.path() + "/*\" { root \"" + folder.path() + R"(" }
socket web = tcp port 80
chain number(db: file docs, at_: u64) -> u64 { step s(b: block at at_ for 8) { return b.uint_le() } }
chain ahead on ready(web) as c { if c.length > 0 { prefetch docs[c.bytes[0..1]] } }
)");
    for (const ir::PrefetchKind kind : {ir::PrefetchKind::mark, ir::PrefetchKind::mark_via}) {
        ir::Artifact hostile = spec->artifact();
        for (ir::Program& program : hostile.module.programs) make_all(kind, program.body);
        ASSERT_EQ(ir::validate(hostile.module), "");
        auto server = Server::create(spec::Loaded::from_artifact(std::move(hostile)), {});
        ASSERT_TRUE(server) << server.error();
        Running running(std::move(*server));
        Poster poster(running.region(), 0);
        shim::Event event{};
        event.kind = shim::EventKind::ready;
        ASSERT_TRUE(poster.post_text(event, "a"));
        EXPECT_TRUE(happens([&] { return running.chain().dropped == 1; }));
    }
}

}  // namespace
}  // namespace chainio::shadow::test
