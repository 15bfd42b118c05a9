// Programs that delete files wait for a server that may have them open, and for no other.
#include <filesystem>

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

}  // namespace
}  // namespace chainio::shadow::test
