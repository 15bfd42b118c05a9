// What the report says that chains have saved.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstring>
#include <fstream>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

// What the kernel says that it reads ahead of files there; 0: nothing.
unsigned read_ahead_kib(const std::string& path) {
    struct stat info{};
    unsigned kib = 0;
    if (::stat(path.c_str(), &info) == 0)
        std::ifstream("/sys/class/bdi/" + std::to_string(major(info.st_dev)) + ":" +
                      std::to_string(minor(info.st_dev)) + "/read_ahead_kb") >>
            kib;
    return kib;
}

// Its first page names pages 1, 2, 20 and 40.
std::string pointing_file(const Folder& folder) {
    std::string bytes(std::size_t{64} * kPage, 'x');
    const std::uint32_t words[] = {4, 1, 2, 20, 40};
    std::memcpy(bytes.data(), words, sizeof words);
    return folder.write("a.ptr", bytes);
}

// Pages that nothing names.
void say_how_long_waits_take(tests::Poster& poster, const std::string& path) {
    for (const std::uint32_t page : {48, 52, 56, 60}) ASSERT_TRUE(poster.read(0, path, page * kPage, kPage, 900'000));
}

TEST(Saving, IsOfReadsThatTheKernelHadNotReadAheadByItself) {
    const Folder folder;
    const std::string path = pointing_file(folder);
    if (read_ahead_kib(path) < 64) GTEST_SKIP() << "the kernel does not say that it reads 64 KiB ahead here";
    Running running(server_of(kPointers));
    tests::Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    // The server reads what the program has read, one page, and then what that names.
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    ASSERT_TRUE(come(path, {{1, 2}, {40, 1}}));
    say_how_long_waits_take(poster, path);
    ASSERT_TRUE(poster.read(0, path, 0, kPage, 2'000));
    ASSERT_TRUE(poster.read(0, path, kPage, kPage, 2'000));
    ASSERT_TRUE(happens([&] { return running.chain().hits == 1; }));
    EXPECT_EQ(running.chain().saved_ns, 0u) << "the program goes on behind what it has read before";
    ASSERT_TRUE(poster.read(0, path, 20 * kPage, kPage, 2'000));
    ASSERT_TRUE(happens([&] { return running.chain().hits == 2; }));
    running.stop();
    EXPECT_GT(running.chain().saved_ns, 0u);
}

// In a class that says `no_read_ahead`: as long as the kernel does as it is told.
TEST(Saving, IsOfReadsInOrderWhereTheKernelReadsNothingAhead) {
    for (const bool left_alone : {false, true}) {
        const Folder folder;
        const std::string path = pointing_file(folder);
        const std::string other = folder.write("b.ptr", std::string(std::size_t{64} * kPage, '\0'));
        if (read_ahead_kib(path) < 64) GTEST_SKIP() << "the kernel does not say that it reads 64 KiB ahead here";
        std::string spec = kPointers;
        spec.replace(spec.find("\"*.ptr\""), 7, "\"*.ptr\" { no_read_ahead }");
        Running running(server_of(spec));
        tests::Poster poster(running.region(), 0);
        drop_pages(path);
        ASSERT_TRUE(poster.opened(0, path));
        ASSERT_TRUE(poster.opened(0, other));
        const auto in_order = [&] {
            for (unsigned i = 0; left_alone && i < 40; i++) ASSERT_TRUE(poster.read(0, other, i * kPage, kPage));
        };
        in_order();
        ASSERT_TRUE(happens(
            [&] { return ((running.region().class_posts[0].load() & shim::kNoReadAhead) == 0) == left_alone; }));
        ASSERT_TRUE(poster.read(0, path, 0, kPage));
        ASSERT_TRUE(come(path, {{1, 2}}));
        say_how_long_waits_take(poster, path);
        ASSERT_TRUE(poster.read(0, path, 0, kPage, 2'000));
        in_order();  // the kernel is left alone for a second only, which may be over
        ASSERT_TRUE(poster.read(0, path, kPage, kPage, 2'000));
        ASSERT_TRUE(happens([&] { return running.chain().hits == 1; }));
        running.stop();
        EXPECT_EQ(running.chain().saved_ns == 0, left_alone);
    }
}

}  // namespace
}  // namespace chainio::shadow::test
