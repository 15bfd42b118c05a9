// What a server makes of the pages that its walks have read, and of chains that have nothing to ask for.
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr std::uint32_t kPage = 4096, kNamed = 64;

// A page names others, and a walk reads each.
const char* const kWalks = R"(
app walks { files data = "*.ptr" }
record Page { count: u32le  page: u32le[count max 64] }
chain reach(db: file data, page: u32) -> u8 hops 2 {
  step there(p: Page at page * 4096 for 4096 in db) { return 1 }
}
chain follow on read(data) as r {
  for p in r.record(Page).page max 64 { prefetch via reach(r.file, p) }
}
)";

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
std::uint64_t runs_over(std::uint32_t further) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", pages_naming(further));
    ServerOptions options;
    options.gate = false;
    Running running(server_of(kWalks, options));
    Poster poster(running.region(), 0);
    drop_pages(path);
    EXPECT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return pages_in_memory(path, 1, kNamed) == kNamed; }));
    EXPECT_TRUE(happens([&] { return running.chain().fetches >= kNamed; }));
    for (std::uint32_t page = 1; page <= kNamed; page++) EXPECT_TRUE(poster.read(0, path, page * kPage, kPage, 2'000));
    EXPECT_TRUE(happens([&] { return running.chain().hits == kNamed; })) << running.chain().hits;
    running.stop();
    return running.chain().events;
}

TEST(Walks, WhereTheyEndTheirChainIsSeldomAskedAgain) { EXPECT_EQ(runs_over(0), 1u + 32 + 2); }

TEST(Walks, WhereTheyEndTheirChainIsAskedWhileItLeadsOn) { EXPECT_EQ(runs_over(kNamed + 1), 1u + kNamed); }

TEST(Plan, AChainThatAsksForNothingIsToldOfNothing) {
    Running running(server_of(R"(
app quiet { files data = "*.ptr" }
param AHEAD = 0
chain ahead on read(data) as r { when AHEAD == 1 { prefetch r.file at r.offset + r.length for 4096 } }
)"));
    EXPECT_EQ(running.region().class_posts[0].load(), shim::kPostOpens);
}

}  // namespace
}  // namespace chainio::shadow::test
