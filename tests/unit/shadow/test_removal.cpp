// Programs that delete files wait for a server that may have them open, and for no other.
#include <filesystem>

#include "runtime/shadow/letting_go.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

TEST(Removal, NobodyWaitsForAServerThatHoldsNoFile) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", std::string(4096, '\0'));
    Running running(server_of(kPointers));
    EXPECT_EQ(running.region().holds_files, 0u);
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, 4096));
    EXPECT_TRUE(happens([&] { return running.region().holds_files == 1; }));
    std::filesystem::remove(path);
    const std::uint32_t asked = running.region().removals.fetch_add(1) + 1;
    EXPECT_TRUE(happens([&] { return running.region().let_go == asked; })) << "it has closed the file";
    EXPECT_TRUE(happens([&] { return running.region().holds_files == 0; })) << "the next one is not waited for";
}

// Who unmounts counts that before it counts among those who wait.
TEST(Removal, WhoUnmountsIsToldThatAllIsClosedWhenItWasSinceTheCount) {
    std::uint32_t unmounts = 0, removals = 1;  // somebody has deleted a file
    LettingGo letting_go;
    const auto look = [&](bool unmounting) {
        return letting_go.look([&] { return unmounts; },
                               [&] {
                                   const std::uint32_t seen = removals;
                                   unmounts += unmounting ? 1 : 0;
                                   return seen;
                               });
    };
    LettingGo::Wanted wanted = look(true);
    EXPECT_TRUE(wanted.all);
    EXPECT_EQ(wanted.removals, 1u);
    letting_go.done(wanted);
    removals++;
    wanted = look(false);
    EXPECT_TRUE(wanted.all) << "files may have been opened since";
    EXPECT_EQ(wanted.removals, 2u);
    letting_go.done(wanted);
    removals++;
    EXPECT_FALSE(look(false).all);
    unmounts++, removals++;
    EXPECT_TRUE(look(false).all) << "as long as they are not closed";
    EXPECT_TRUE(look(false).all);
}

}  // namespace
}  // namespace chainio::shadow::test
