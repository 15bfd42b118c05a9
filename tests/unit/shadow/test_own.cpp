// Chains that programs run themselves: which are of that kind, when programs may, and how what they did is counted.
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <span>

#include "runtime/shadow/launch.h"
#include "runtime/shadow/region.h"
#include "runtime/shadow/score.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

std::string with(const std::string& declared, const std::string& chains) {
    return "app own {\n" + declared +
           "}\ntext Get { \"GET \" path: token(max 200) \" HTTP/1.\" rest: rest(max 200) }\n" + chains;
}

const char* const kDocs =
    "files docs = \"/srv/www/**\" { root \"/srv/www\" index \"home.html\" }\nsocket web = tcp port 80\n";
const char* const kAhead = "chain ahead on ready(web) as c { when c.text(Get) as g { prefetch docs[g.path] } }\n";

struct Kind {
    const char* name;
    std::string spec;
    bool own;
};

class Kinds : public testing::TestWithParam<Kind> {};

TEST_P(Kinds, SayWhetherProgramsMayRunTheChain) {
    const auto spec = compiled(GetParam().spec);
    ASSERT_NE(spec, nullptr);
    const auto plan = plan_of(spec->module());
    ASSERT_TRUE(plan) << plan.error();
    auto filled = std::make_unique<shim::Plan>();
    fill_plan(spec->module(), *plan, false, *filled);
    const std::uint32_t chain = filled->own[0].chain;
    EXPECT_EQ(chain != 0, GetParam().own);
    if (chain == 0) return;
    const ChainPlan& planned = plan->chains[chain - 1];
    EXPECT_EQ(planned.source, 0u);
    EXPECT_EQ(filled->own[0].file_class, planned.targets.front());
    EXPECT_EQ(filled->own[0].target, plan->classes[planned.targets.front()]);
    const shim::ClassRule& rule = filled->classes[filled->own[0].file_class];
    EXPECT_EQ(std::string(rule.pattern, rule.root), "/srv/www");
    EXPECT_STREQ(filled->own[0].index, "home.html");
    EXPECT_GE(filled->step.bytes, sizeof(cio_io));
    EXPECT_GT(filled->step.prefetch_count, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Own, Kinds,
    testing::Values(
        Kind{"files_by_name", with(kDocs, kAhead), true},
        Kind{"beside_another_class",
             with(std::string("files a = \"/a/**\"\n") + kDocs,
                  std::string("chain next on read(a) as r { prefetch r.file at r.offset + r.length for 4KiB }\n") +
                      kAhead),
             true},
        Kind{"two_on_a_socket",
             with(kDocs, std::string(kAhead) +
                             "chain also on ready(web) as c { when c.text(Get) as g { prefetch docs[g.path] } }\n"),
             false},
        Kind{
            "others_of_another_priority",
            with(std::string(kDocs) + "class first { priority 7 }\nfiles a = \"/a/**\"\n",
                 std::string("chain next on read(a) as r in class first { prefetch r.file at 0 for 4KiB }\n") + kAhead),
            false},
        Kind{
            "two_classes",
            with(std::string(kDocs) + "files b = \"/b/**\" { root \"/b\" }\n",
                 "chain ahead on ready(web) as c { when c.text(Get) as g { prefetch docs[g.path]  prefetch b[g.path] } "
                 "}\n"),
            false},
        Kind{"a_root_that_is_not_in_the_pattern",
             with("files docs = \"*.html\" { root \"/srv/www\" }\nsocket web = tcp port 80\n", kAhead), false},
        Kind{"a_root_that_ends_within_a_name",
             with("files docs = \"/srv/www2/**\" { root \"/srv/www\" }\nsocket web = tcp port 80\n", kAhead), false}),
    [](const auto& info) { return std::string(info.param.name); });

class OwnScore : public testing::Test {
  protected:
    bool asked_to() const { return (region_->socket_posts[0] & shim::kRunsItself) != 0; }
    void end(RangeEnd how, unsigned times) {
        for (unsigned i = 0; i < times; i++) score_.on_range(0, score_.turns()[0], how);
    }

    using State = policy::Gate::State;
    std::shared_ptr<const spec::Loaded> spec_ = compiled(with(kDocs, kAhead));
    SpecPlan plan_ = *plan_of(spec_->module());
    std::unique_ptr<shim::Region> region_ = std::make_unique<shim::Region>();
    Score score_{spec_->module(), plan_, *region_, true};

    void SetUp() override { region_->plan.has_steps = 1; }
};

TEST_F(OwnScore, WithoutCodeItIsTheServers) {
    region_->plan.has_steps = 0;
    score_.let_programs_begin(true);
    EXPECT_FALSE(asked_to());
}

TEST_F(OwnScore, ProgramsRunItWhileThereIsRoomAndItsGateIsOn) {
    EXPECT_FALSE(asked_to());
    score_.let_programs_begin(true);
    EXPECT_TRUE(asked_to());
    score_.let_programs_begin(false);
    EXPECT_FALSE(asked_to());
    EXPECT_NE(region_->socket_posts[0] & shim::kPostReady, 0u) << "the server goes on with it";
    score_.let_programs_begin(true);
    end(RangeEnd::wasted, 32);
    score_.update_gates(kMs);
    ASSERT_EQ(score_.gate(0).state(), State::off);
    EXPECT_EQ(region_->socket_posts[0], 0u);
}

TEST_F(OwnScore, AProbeIsTheServersAlone) {
    score_.let_programs_begin(true);
    end(RangeEnd::wasted, 32);
    score_.update_gates(kMs);
    score_.update_gates(100 * kMs);
    ASSERT_EQ(score_.gate(0).state(), State::probing);
    EXPECT_FALSE(asked_to());
    EXPECT_NE(region_->socket_posts[0] & shim::kPostReady, 0u);
    for (int i = 0; i < 16; i++) {
        score_.ran(0, true, true);
        ASSERT_TRUE(score_.admit(0));
        score_.fetched(0, kPage);
        score_.on_range(0, score_.turns()[0], RangeEnd::hit);
    }
    score_.update_gates(101 * kMs);
    ASSERT_EQ(score_.gate(0).state(), State::on);
    EXPECT_TRUE(asked_to()) << "once it is on again it is the programs'";
}

TEST_F(OwnScore, DisksThatReadsWereBegunOnAreTold) {
    EXPECT_FALSE(score_.knows_disk(7));
    score_.has_begun(7, 128 * 1024);
    EXPECT_TRUE(score_.knows_disk(7));
    EXPECT_EQ(region_->disks[0].device, 7u);
    EXPECT_EQ(region_->disks[0].longest, 128u * 1024);
    for (std::uint64_t device = 8; device < 8 + 2 * shim::kMaxDisks; device++) score_.has_begun(device, kPage);
    EXPECT_TRUE(score_.knows_disk(7 + shim::kMaxDisks - 1));
    EXPECT_FALSE(score_.knows_disk(7 + shim::kMaxDisks)) << "what finds no room is the server's";
}

// A program that says what it has run.
class OwnRuns : public testing::Test {
  protected:
    bool ran(shim::Outcome outcome, const std::string& path, std::uint64_t offset = 0, std::uint32_t length = kPage,
             std::uint8_t chain = 0) {
        shim::Event event{};
        event.kind = shim::EventKind::ran;
        event.source = chain;
        struct stat info{};
        if (stat(path.c_str(), &info) == 0) event.device = info.st_dev, event.inode = info.st_ino;
        event.offset = offset;
        event.length = sizeof(shim::Ran);
        const shim::Ran told{clock_, length, outcome};
        return poster_.post(event, {reinterpret_cast<const std::uint8_t*>(&told), sizeof told});
    }
    bool counted(std::uint64_t runs) {
        return happens([&] { return running_.chain().events == runs && poster_.taken(); });
    }

    std::uint64_t clock_ = UINT64_MAX;  // the program's: a time that has not come
    Folder folder_;
    std::string spec_ = with(
        "files docs = \"" + folder_.path() + "/**\" { root \"" + folder_.path() + "\" }\nsocket web = tcp port 80\n",
        kAhead);
    std::string file_ = folder_.write("a.txt", std::string(4 * kPage, 'a'));
    Running running_{server_of(spec_)};
    Poster poster_{running_.region(), 0};
};

TEST_F(OwnRuns, WhatItHasBegunIsAHitWhenItReadsIt) {
    ASSERT_TRUE(ran(shim::Outcome::begun, file_));
    ASSERT_TRUE(poster_.read(0, file_, 0, kPage, 1000));
    ASSERT_TRUE(counted(1));
    EXPECT_TRUE(happens([&] { return running_.chain().hits == 1; }));
    const shim::ChainStats& chain = running_.chain();
    EXPECT_EQ(chain.fetches, 1u);
    EXPECT_EQ(chain.own, 1u);
    EXPECT_EQ(chain.fetched_bytes, kPage);
    EXPECT_EQ(chain.dropped + chain.cached + chain.duplicate + chain.wasted + chain.late + chain.failed, 0u);
}

TEST_F(OwnRuns, AClockThatIsBehindMakesNothingLookOld) {
    clock_ = 0;
    ASSERT_TRUE(ran(shim::Outcome::begun, file_));
    ASSERT_TRUE(counted(1));
    const auto since = std::chrono::steady_clock::now();
    // The server keeps house every 2 ms while it is told of anything.
    for (std::uint64_t runs = 2; std::chrono::steady_clock::now() - since < std::chrono::milliseconds(20); runs++) {
        ASSERT_TRUE(ran(shim::Outcome::nothing, file_));
        ASSERT_TRUE(counted(runs));
    }
    ASSERT_TRUE(poster_.read(0, file_, 0, kPage, 1000));
    EXPECT_TRUE(happens([&] { return running_.chain().hits == 1; }));
    EXPECT_EQ(running_.chain().wasted, 0u);
}

TEST_F(OwnRuns, WhatIsWantedTwiceOrIsThereIsToldApart) {
    ASSERT_TRUE(ran(shim::Outcome::begun, file_));
    ASSERT_TRUE(ran(shim::Outcome::in_memory, file_)) << "it is on its way";
    ASSERT_TRUE(ran(shim::Outcome::in_memory, file_, 2 * kPage));
    ASSERT_TRUE(ran(shim::Outcome::failed, file_));
    ASSERT_TRUE(ran(shim::Outcome::nothing, file_));
    ASSERT_TRUE(counted(5));
    running_.stop();
    const shim::ChainStats& chain = running_.chain();
    EXPECT_EQ(chain.own, 1u);
    EXPECT_EQ(chain.duplicate, 1u);
    EXPECT_EQ(chain.cached, 1u);
    EXPECT_EQ(chain.failed, 1u);
    EXPECT_EQ(chain.wasted, 1u) << "nobody has read it";
    EXPECT_EQ(chain.fetches, 1u);
}

TEST_F(OwnRuns, WhatNobodyCouldHaveRunCountsForNothing) {
    ASSERT_TRUE(ran(shim::Outcome::begun, file_, 0, kPage, 1));
    ASSERT_TRUE(ran(shim::Outcome::begun, file_, 0, kPage, shim::kMaxChains - 1));
    ASSERT_TRUE(ran(static_cast<shim::Outcome>(77), file_));
    ASSERT_TRUE(ran(shim::Outcome::begun, file_, 0, 0)) << "no byte of it";
    ASSERT_TRUE(ran(shim::Outcome::begun, file_, INT64_MAX, UINT32_MAX));
    ASSERT_TRUE(ran(shim::Outcome::begun, file_, 0, kPiece + 1)) << "more than is begun in one go";
    ASSERT_TRUE(happens([&] { return poster_.taken(); }));
    EXPECT_EQ(running_.stats().bad_events, 0u);
    ASSERT_TRUE(ran(shim::Outcome::begun, file_, std::uint64_t{INT64_MAX} + 1));
    ASSERT_TRUE(happens([&] { return running_.stats().bad_events == 1; }));
    running_.stop();
    EXPECT_EQ(running_.chain().own, 0u);
    EXPECT_EQ(running_.chain(1).events, 0u);
    EXPECT_EQ(running_.chain(1).own, 0u);
}

TEST(Own, CodeIsPutBesideARegionOnceAndGoesWithIt) {
    const auto spec = compiled(with(kDocs, kAhead));
    auto launch = std::make_unique<Launch>();
    fill_plan(spec->module(), *plan_of(spec->module()), false, launch->plan);
    launch->names.chain_count = 1;
    launch->steps = "the code";
    std::string code;
    {
        auto file = RegionFile::create();
        ASSERT_TRUE(file) << file.error();
        const std::string bytes = packed(*launch);
        std::string_view steps;
        ASSERT_TRUE(launch_region(bytes, false, file->get(), steps));
        EXPECT_EQ(steps, "the code");
        const shim::Plan& plan = file->get().plan;
        EXPECT_EQ(std::memcmp(plan.own, launch->plan.own, sizeof plan.own), 0);
        EXPECT_EQ(std::memcmp(&plan.step, &launch->plan.step, sizeof plan.step), 0);
        EXPECT_EQ(plan.classes[0].root, launch->plan.classes[0].root);
        EXPECT_EQ(plan.has_steps, 0u);
        put_beside(steps, *file);
        EXPECT_EQ(plan.has_steps, 1u);
        code = file->path().substr(0, file->path().rfind('/')) + shim::kStepsFile;
        struct stat info{};
        ASSERT_EQ(stat(code.c_str(), &info), 0);
        EXPECT_EQ(info.st_size, 8);
        EXPECT_EQ(info.st_mode & 07777, 0500u);
        put_beside("other code", *file);
        ASSERT_EQ(stat(code.c_str(), &info), 0);
        EXPECT_EQ(info.st_size, 8);
    }
    struct stat info{};
    EXPECT_NE(stat(code.c_str(), &info), 0);
}

}  // namespace
}  // namespace chainio::shadow::test
