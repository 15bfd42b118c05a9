// Ahead, step by step and without a server's thread: what a test asks for is fetched and walked when it says so.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "runtime/shadow/ahead.h"
#include "runtime/shadow/clock.h"
#include "runtime/shadow/refusals.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {

// Two chains, the second of which is the more urgent, and two that walk.
inline const char* const kAsking = R"(
app asking {
  files data = "*.ptr"
  files fixed = "*.fix" { immutable }
  class bulk { priority 7  weight 1 }
  class urgent { priority 0  weight 1 }
}
record Page { count: u32le }
chain at(db: file data, page: u32) -> u8 hops 2 { step there(p: Page at page * 4096 for 4096 in db) { return 1 } }
chain behind(db: file data, page: u32) -> u8 hops 2 {
  step there(p: Page at page * 4096 + 4096 for 4096 in db) { return 1 }
}
chain last(db: file data, page: u32) -> u8 hops 2 {
  step there(p: Page at db.file_size - page * 4096 for 4096 in db) { return 1 }
}
chain twice(db: file data, page: u32) -> u8 hops 2 {
  step there(p: Page at page * 4096 for 4096 in db) { goto further at page * 4096 + 131072 for 4096 in db }
  step further(p: Page) { return 1 }
}
chain slow on read(data) as r in class bulk { prefetch via at(r.file, 1)  prefetch via behind(r.file, 1) }
chain quick on read(data) as r in class urgent { prefetch r.file at 0 for 4096 }
)";
inline constexpr std::uint32_t kSlow = 0, kQuick = 1;  // chains

class Asking : public testing::Test {
  protected:
    explicit Asking(const char* spec = kAsking) : spec_(compiled(spec)) {}
    void begin(unsigned in_flight, bool gates = false, const RangeLimits& limits = {}) {
        plan_ = *plan_of(spec_->module());
        score_.emplace(spec_->module(), plan_, *region_, gates);
        ranges_.emplace(limits, static_cast<std::uint32_t>(plan_.chains.size()), *score_);
        auto walks =
            Walks::create({spec_, files_, *ranges_, *score_, fallbacks_, marks_}, in_flight, std::size_t{32} << 20);
        ASSERT_TRUE(walks) << walks.error();
        walks_ = std::move(*walks);
        files_.on_closing(
            [](void* test, ShadowFile& file) {
                static_cast<Asking*>(test)->walks_->file_closes(file);
                static_cast<Asking*>(test)->direct_.closes(file);
            },
            this);
        ahead_.emplace(Ahead::Parts{plan_, *ranges_, *score_, *walks_, direct_},
                       std::vector<engine::ClassRank>{{7, 1}, {0, 1}, {4, 1}}, in_flight);
    }
    // The files close after the walks are gone.
    void TearDown() override {
        files_.on_closing([](void* direct, ShadowFile& file) { static_cast<Direct*>(direct)->closes(file); }, &direct_);
    }

    // None of its pages is in memory.
    ShadowFile& file(const std::string& name, std::uint64_t pages) {
        drop_pages(folder_.write(name, std::string(pages * kPage, 'x')));
        auto found = files_.at(folder_.path() + "/" + name, 0, now_ns());
        EXPECT_TRUE(found) << refusal_text(found.error());
        (*found)->read_ahead = 128 * 1024;
        (*found)->sized = false;  // as of one that has been gone by
        return **found;
    }
    // One of the immutable class, that a program reads with O_DIRECT.
    ShadowFile& direct_file(const std::string& name, std::uint64_t pages) {
        const std::string path = folder_.write(name, std::string(pages * kPage, 'x'));
        drop_pages(path);
        struct stat info{};
        EXPECT_EQ(::stat(path.c_str(), &info), 0);
        files_.opened(info.st_dev, info.st_ino, path, O_DIRECT, 1);
        ShadowFile& made = *files_.find(info.st_dev, info.st_ino);
        EXPECT_TRUE(files_.open(made));
        return made;
    }
    void ask(ShadowFile& file, std::uint64_t page, std::uint64_t pages = 1, std::uint32_t chain = kSlow) {
        ahead_->ask_range(chain, file, page * kPage, pages * kPage);
    }
    WalkRequest walk(ShadowFile& file, std::uint64_t page, const char* target = "at") const {
        const auto& chains = spec_->module().chains;
        const auto found = std::ranges::find(chains, target, &ir::Chain::name);
        return {.chain = kSlow,
                .target = static_cast<std::uint32_t>(found - chains.begin()),
                .file = &file,
                .args = {page}};
    }
    void step() {
        const auto moved = ahead_->advance();
        ASSERT_TRUE(moved) << moved.error();
    }
    bool all_comes() {
        return happens([&] {
            step();
            return ahead_->idle();
        });
    }
    bool known(const ShadowFile& file, std::uint64_t page) const {
        return ranges_->known(file.key, page * kPage, kPage) == Ranges::Known::all;
    }
    // Each of them, some time from now on.
    static bool in_memory(const ShadowFile& file, std::uint64_t page, std::uint64_t pages) {
        return come(file.path, {{page, pages}});
    }
    const shim::ChainStats& stats(std::uint32_t chain = kSlow) const { return region_->stats.chains[chain]; }

    Folder folder_;
    std::shared_ptr<const spec::Loaded> spec_;
    SpecPlan plan_;
    std::unique_ptr<shim::Region> region_ = std::make_unique<shim::Region>();
    metrics::Fallbacks fallbacks_;
    Marks marks_;
    Direct direct_{*region_, folder_.path() + "/region", std::uint64_t{1} << 20};
    Files files_{*spec_, 128, 128};
    std::optional<Score> score_;
    std::optional<Ranges> ranges_;
    std::unique_ptr<Walks> walks_;
    std::optional<Ahead> ahead_;
};

}  // namespace chainio::shadow::test
