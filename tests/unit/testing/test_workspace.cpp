// What becomes of a suite's files that cannot be read: each error says why.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "tests/support/in_child.h"
#include "tests/support/refused_call.h"
#include "tools/chainio/testing/workspace.h"

namespace chainio::testing {
namespace {

Suite suite_of(const std::string& path) {
    Suite suite;
    suite.path = "here.test.yaml";
    suite.files["f"].path = path;
    return suite;
}

std::string why_not(const std::string& path) {
    const Suite suite = suite_of(path);
    auto workspace = Workspace::make(suite);
    if (!workspace) return workspace.error().message;
    const auto bytes = workspace->file("f");
    return bytes ? "" : bytes.error();
}

// Its own path, which is a regular file that anybody may read.
std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

// Whether it says that where a call is refused.
bool says(unsigned call, unsigned error, const std::string& cause) {
    const std::string path = this_program();
    const Suite suite = suite_of(path);
    auto workspace = Workspace::make(suite);  // whose folder a child could not remove, to which calls are refused
    if (!workspace) return false;
    return tests::in_child([&] {
               tests::refuse_call(call, error);
               const auto bytes = workspace->file("f");
               const std::string wanted = "cannot read " + path + ": " + cause;
               if (!bytes && bytes.error() == wanted) return 0;
               std::fprintf(stderr, "%s\n", bytes ? "it can be read" : bytes.error().c_str());
               return 1;
           }) == 0;
}

TEST(Workspace, SaysWhyAFileCannotBeRead) {
    EXPECT_EQ(why_not(this_program()), "");
    EXPECT_EQ(why_not("/none/f"), "cannot read /none/f: No such file or directory");
    EXPECT_TRUE(says(SYS_openat, EACCES, "Permission denied"));
    EXPECT_TRUE(says(SYS_read, EIO, "Input/output error"));
}

TEST(Workspace, SaysWhereAFileEndsEarly) {
    const std::string path = "/sys/devices/system/cpu/possible";  // which says that it has a page
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error) GTEST_SKIP() << "no " << path << " here";
    const std::string why = why_not(path);
    EXPECT_TRUE(why.starts_with("cannot read " + path + ": it ends after ")) << why;
    EXPECT_TRUE(why.ends_with(" of its " + std::to_string(size) + " bytes")) << why;
}

}  // namespace
}  // namespace chainio::testing
