// What a program is started with before there is a server.
#include <algorithm>
#include <span>
#include <string>

#include "runtime/shadow/launch.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

const char* const kWhole = R"(
app whole { files data = "*.ptr" }
chain follow on read(data) as r { prefetch r.file at 0 for 4096 }
)";

const char* const kWatched = R"(
app watched {
  match exe "nginx"
  files data = "*.ptr"
  files others = "/srv/*" { root "/srv"  immutable }
  socket web = tcp port 8080
}
text Get { "GET " path: token(max 200) " HTTP/1." rest: rest(max 200) }
chain follow on read(data) as r { prefetch r.file at 0 for 4096 }
chain whole on open(others) as r { prefetch r.file at 0 for 4096 }
chain ahead on ready(web) as c { when c.text(Get) as g { prefetch others[g.path] } }
)";

TEST(Launch, ARegionIsWhatTheServerMakesOfIt) {
    const auto spec = compiled(kWatched);
    const std::string launch = launch_of(*spec);
    std::string_view steps;
    for (const bool explain : {false, true}) {
        auto file = RegionFile::create();
        ASSERT_TRUE(file) << file.error();
        ASSERT_TRUE(launch_region(launch, explain, file->get(), steps));
        auto server = Server::create(spec, {.explain = explain});
        ASSERT_TRUE(server) << server.error();
        const shim::Region &early = file->get(), &made = (*server)->region();
        EXPECT_TRUE(
            std::ranges::equal(std::as_bytes(std::span(&early.plan, 1)), std::as_bytes(std::span(&made.plan, 1))));
        // The first opening is what a server is made for.
        for (unsigned i = 0; i < shim::kMaxClasses; i++) {
            const std::uint32_t wakes = i < early.plan.class_count ? shim::kWakeOpens : 0;
            EXPECT_EQ(early.class_posts[i], made.class_posts[i] | wakes) << i;
        }
        for (unsigned i = 0; i < shim::kMaxChains; i++)
            EXPECT_STREQ(early.stats.chains[i].name, made.stats.chains[i].name) << i;
        for (unsigned i = 0; i < shim::kMaxClasses; i++)
            EXPECT_STREQ(early.stats.classes[i].name, made.stats.classes[i].name) << i;
        EXPECT_EQ(early.stats.chain_count, made.stats.chain_count);
        EXPECT_EQ(early.stats.class_count, made.stats.class_count);
        for (unsigned i = 0; i < shim::kMaxSockets; i++) EXPECT_EQ(early.socket_posts[i], made.socket_posts[i]) << i;
    }
}

TEST(Launch, WhatAProgramPostsBeforeThereIsAServerIsServed) {
    const Folder folder;
    const std::string path = folder.write("early.ptr", std::string(2 * kPage, 'x'));
    const auto spec = compiled(kWhole);
    auto file = RegionFile::create();
    ASSERT_TRUE(file) << file.error();
    const std::string launch = launch_of(*spec);
    std::string_view steps;
    ASSERT_TRUE(launch_region(launch, false, file->get(), steps));
    {
        Poster poster(file->get(), 3);
        ASSERT_TRUE(poster.opened(0, path));
        ASSERT_TRUE(poster.read(0, path, 0, kPage));
    }
    auto server = Server::create(spec, {}, std::move(*file));
    ASSERT_TRUE(server) << server.error();
    Running running(std::move(*server));
    EXPECT_TRUE(happens([&] { return running.chain().events == 1; }));
}

TEST(Launch, OfAnotherVersionOrForProbesThereIsNone) {
    auto file = RegionFile::create();
    ASSERT_TRUE(file) << file.error();
    std::string launch = launch_of(*compiled(kWhole));
    std::string_view steps;
    launch[0]++;
    EXPECT_FALSE(launch_region(launch, false, file->get(), steps));
    EXPECT_FALSE(launch_region("", false, file->get(), steps));
    EXPECT_EQ(file->get().plan.class_count, 0u);
    launch[0]--;
    for (std::size_t n = 0; n < launch.size(); n++)
        EXPECT_FALSE(launch_region(std::string_view(launch).substr(0, n), false, file->get(), steps)) << n;
    EXPECT_FALSE(launch_region(launch + "x", false, file->get(), steps));
    EXPECT_TRUE(launch_region(launch, false, file->get(), steps));
    const char* const probed =
        "app p { files data = \"*.x\" { root \"/srv\" } }\n"
        "probe hint = uprobe \"program:hint\" (page: u64, name: cstr(max 40))\n"
        "chain ahead on probe(hint) as p { prefetch data[p.name] at 0 for 4096 }\n";
    EXPECT_EQ(launch_of(*compiled(probed)), "");
}

}  // namespace
}  // namespace chainio::shadow::test
