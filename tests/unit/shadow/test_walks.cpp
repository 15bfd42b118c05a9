// What a server makes of the pages that its walks have read, of chains that have nothing to ask for, and of those that
// need not see what was read.
#include <list>

#include "tests/unit/shadow/fixture.h"
#include "tests/unit/shadow/kernel.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr std::uint32_t kNamed = 64;

// A page names others, and a walk reads each; the chain does something else `beside`.
std::string walking(const std::string& beside) {
    return R"(
app walks { files data = "*.ptr" }
record Page { count: u32le  page: u32le[count max 64] }
chain reach(db: file data, page: u32) -> u8 hops 2 {
  step there(p: Page at page * 4096 for 4096 in db) { return 1 }
}
chain follow on read(data) as r {
  )" + beside +
           R"(
  for p in r.record(Page).page max 64 { prefetch via reach(r.file, p) }
}
)";
}
const char* const kMarksAtTheEnd = "if r.record(Page).count == 0 { mark r.file at 0 with 1 }";

void put_u32(std::string& bytes, std::size_t at, std::uint32_t value) {
    for (unsigned i = 0; i < 4; i++) bytes[at + i] = static_cast<char>(value >> 8 * i);
}

// Page 0 names the pages 1 to kNamed, each of which names `further` (0: none).
std::string pages_naming(std::uint32_t further) {
    std::string bytes(std::size_t{kNamed + 2} * kPage, 0);
    put_u32(bytes, 0, kNamed);
    for (std::uint32_t page = 1; page <= kNamed; page++) {
        put_u32(bytes, 4 * page, page);
        if (further == 0) continue;
        put_u32(bytes, page * kPage, 1);
        put_u32(bytes, page * kPage + 4, further);
    }
    return bytes;
}

// The program reads page 0, and then all that it names; gives how often the chain ran.
std::uint64_t runs_over(std::uint32_t further, const std::string& beside = {}) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", pages_naming(further));
    ServerOptions options;
    options.gate = false;
    Running running(server_of(walking(beside), options));
    Poster poster(running.region(), 0);
    drop_pages(path);
    EXPECT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(come(path, {{1, kNamed}}));
    EXPECT_TRUE(happens([&] { return running.chain().fetches == kNamed; })) << running.chain().fetches;
    EXPECT_EQ(running.chain().cached, 0u);
    for (std::uint32_t page = 1; page <= kNamed; page++) EXPECT_TRUE(poster.read(0, path, page * kPage, kPage, 2'000));
    EXPECT_TRUE(happens([&] { return running.chain().hits == kNamed; })) << running.chain().hits;
    running.stop();
    return running.chain().events;
}

TEST(Walks, WhereTheyEndTheirChainIsSeldomAskedAgain) { EXPECT_EQ(runs_over(0), 1u + 32 + 2); }

TEST(Walks, WhereTheyEndTheirChainIsAskedWhileItLeadsOn) { EXPECT_EQ(runs_over(kNamed + 1), 1u + kNamed); }

TEST(Walks, WhereTheyEndTheirChainIsAskedWhileItMarks) { EXPECT_EQ(runs_over(0, kMarksAtTheEnd), 1u + kNamed); }

// As on hosts that read on the processor which asks for it: the gate had switched chains off there for good.
TEST(Walks, WhatTheDeviceHasAtOnceIsFetched) {
    const ReadsNowAre quick(ReadsNow::waiting);
    EXPECT_EQ(runs_over(0), 1u + 32 + 2);
}

TEST(Walks, WhatWasInMemoryIsNotFetchedHoweverLongItTakes) {
    const ReadsNowAre slow(ReadsNow::slowly);
    const Folder folder;
    const std::string path = folder.write("a.ptr", pages_naming(0));
    const InMemory there(path, 0, kNamed + 2);
    Running running(server_of(walking("")));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return running.chain().cached == kNamed; })) << running.chain().cached;
    running.stop();
    EXPECT_EQ(running.chain().fetches, 0u);
}

// Nor is it counted as what switches a chain off that only asks for what is in memory.
TEST(Walks, WhoLeadsNowhereWasNotForWhatIsInMemory) {
    for (const bool leads : {false, true}) {
        const Folder folder;
        const std::string path = folder.write("a.ptr", pages_naming(0));
        const InMemory there(path, 0, kNamed + 2);
        std::string spec = walking("");
        if (!leads) spec.replace(spec.find("{ return 1 }"), 12, "{ if p.count == 0 { fail not_found }\n return 1 }");
        Running running(server_of(spec));
        Poster poster(running.region(), 0);
        ASSERT_TRUE(poster.opened(0, path));
        ASSERT_TRUE(poster.read(0, path, 0, kPage));
        EXPECT_TRUE(happens([&] { return running.chain().walks == kNamed; })) << running.chain().walks;
        running.stop();
        EXPECT_EQ(running.chain().cached, leads ? kNamed : 0);
    }
}

// The kernel begins to read what is not there, and what is found behind that was in memory all the same.
TEST(Walks, WhatWasInMemoryIsNotFetchedBesideWhatWasNot) {
    const ReadsNowAre slow(ReadsNow::slowly);
    const Folder folder;
    const std::string path = folder.write("a.ptr", pages_naming(0));
    ServerOptions options;
    options.gate = false;
    Running running(server_of(walking(""), options));
    Poster poster(running.region(), 0);
    drop_pages(path);
    constexpr std::uint64_t kFew = 4;  // of the walks that begin at once: behind some that find nothing, some that do
    std::list<InMemory> there;
    for (std::uint64_t first = 1 + kFew; first <= kNamed; first += 2 * kFew) there.emplace_back(path, first, kFew);
    ASSERT_EQ(pages_in_memory(path, 0, kNamed + 2), kNamed / 2);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return running.chain().fetches + running.chain().cached == kNamed; }));
    running.stop();
    EXPECT_EQ(running.chain().fetches, kNamed / 2);
}

TEST(Plan, AChainThatAsksForNothingIsToldOfNothing) {
    Running running(server_of(R"(
app quiet { files data = "*.ptr" }
param AHEAD = 0
chain ahead on read(data) as r { when AHEAD == 1 { prefetch r.file at r.offset + r.length for 4096 } }
)"));
    EXPECT_EQ(running.region().class_posts[0].load(), shim::kPostOpens);
}

TEST(Plan, ChainsThatSeeNoByteAreToldOfLongReadsBeforeTheyBegin) {
    const auto posts = [](const std::string& body) {
        const auto server =
            server_of("app some { files data = \"*.ptr\" }\nchain some on read(data) as r { " + body + " }\n");
        return server->region().class_posts[0].load() & shim::kPostBegun;
    };
    EXPECT_NE(posts("if r.length >= 16384 { prefetch r.file at r.offset + r.length for 4096 }"), 0u);
    EXPECT_NE(posts("for i in range(0, 4) { prefetch r.file at r.offset * i for 4096 }"), 0u);
    EXPECT_EQ(posts("prefetch r.file at block.byte(0) for 4096"), 0u);
    EXPECT_EQ(posts("if r.length > 8 { prefetch r.file at block[0..8].uint_le() for 4096 }"), 0u);
}

TEST(Begun, WhatIsBehindALongReadIsFetchedBesideIt) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", std::string(std::size_t{64} * kPage, 'x'));
    Running running(server_of(R"(
app behind { files data = "*.ptr" }
chain behind on read(data) as r { if r.length >= 16384 { prefetch r.file at r.offset + r.length for 8192 } }
)"));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    // Longer than a block: its end counts.
    ASSERT_TRUE(poster.begun(0, path, 4 * kPage, 24 * kPage));
    EXPECT_TRUE(come(path, {{28, 2}}));
    EXPECT_EQ(in_memory_besides(path, 64, {{28, 2}}), 0u);
    ASSERT_TRUE(poster.ended(0, path, 4 * kPage, 24 * kPage));
    ASSERT_TRUE(poster.ended(0, path, 28 * kPage, kPage));
    EXPECT_TRUE(happens([&] { return running.chain().hits == 1; }));
    EXPECT_TRUE(happens([&] { return poster.taken(); }));
    EXPECT_EQ(running.chain().events, 1u) << "of a read that was told of already the end says nothing new";
    // One that was not, as a vector's.
    ASSERT_TRUE(poster.read(0, path, 30 * kPage, 20 * kPage));
    EXPECT_TRUE(come(path, {{50, 2}}));
    EXPECT_EQ(running.stats().bad_events, 0u);
}

}  // namespace
}  // namespace chainio::shadow::test
