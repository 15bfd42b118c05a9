// Files of a `direct` class on file systems that have no O_DIRECT, whether they say so or not.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/engine/engine.h"
#include "tests/support/in_child.h"
#include "tests/unit/engine/machine.h"

namespace chainio::engine::test {
namespace {

constexpr int kNoMounts = 77;

bool mount_at(const std::filesystem::path& path, const char* type, const std::string& options) {
    std::filesystem::create_directory(path);
    return mount(type, path.c_str(), type, 0, options.c_str()) == 0;
}

// A chain over the file, read as its class says: 0, or which step was wrong.
int reads_through_the_page_cache(const std::string& path) {
    auto engine = Engine::create(spec::Loaded::from_artifact(machine({})), {.in_flight = 1, .huge_pages = false});
    if (!engine) return 1;
    std::vector<Argument> args;
    for (std::uint32_t file_class = 0; file_class < 2; file_class++) {
        auto handle = (*engine)->open_file(file_class, path, OpenMode::direct);
        if (!handle || (*engine)->file(*handle)->direct || (*engine)->file(*handle)->offset_align != 1) return 2;
        args.push_back(Argument::file(*handle));
    }
    args.push_back(Argument::scalar(0));
    args.push_back(Argument::of_bytes({}));
    std::vector<Completion> out(1);
    if (!(*engine)->submit(0, args, 0) || (*engine)->reap(out, 1) != 1u || out[0].outcome != CIO_OK) return 3;
    return (*engine)->fallbacks().count("not-direct") == 2 ? 0 : 4;
}

int with_mounts(const std::filesystem::path& top) {
    // In a user namespace of its own a process without privileges may mount these as well.
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kNoMounts;
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNoMounts;
    const auto ram = top / "ram";
    if (!mount_at(ram, "ramfs", "")) return kNoMounts;
    std::filesystem::create_directory(ram / "lower");
    std::filesystem::create_directory(ram / "other");
    std::string cell(64, '\0');
    cell[0] = static_cast<char>(kReturnState);
    std::ofstream(ram / "lower" / "file") << cell;
    if (const int wrong = reads_through_the_page_cache(ram / "lower" / "file"); wrong != 0) return wrong;
    const std::string lower = "lowerdir=" + (ram / "lower").string() + ":" + (ram / "other").string();
    if (!mount_at(ram / "top", "overlay", lower)) return kNoMounts;
    const int wrong = reads_through_the_page_cache(ram / "top" / "file");
    return wrong == 0 ? 0 : 10 + wrong;
}

// An overlay takes O_DIRECT whatever lies below it, and only reads are refused.
TEST(EngineDirect, WhereAnOverlayHidesThatThereIsNoneThePageCacheIsRead) {
    std::string top = testing::TempDir() + "chainio-direct-XXXXXX";
    ASSERT_NE(mkdtemp(top.data()), nullptr);
    const int code = tests::in_child([&] { return with_mounts(top); });
    std::filesystem::remove_all(top);
    if (code == kNoMounts) GTEST_SKIP() << "this process may mount neither ramfs nor overlays";
    EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace chainio::engine::test
