// The numbers of errors: a program tells by them what to do, as whether to make a file that is not there.
#include <chainio.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "tests/support/refused_call.h"
#include "tests/unit/api/handle.h"

namespace chainio::tests {
namespace {

// A path of its own for something that is no regular file.
std::string other_path() { return ::testing::TempDir() + "chainio-errors-" + std::to_string(getpid()); }

TEST(ApiErrors, AFileThatIsNotOpenedHasTheNumberOfItsCause) {
    const TempFile file(data_file());
    const Handle app;
    std::uint64_t number = 0;
    const auto open = [&](const std::string& path) {
        return chainio_file_open(app.handle, "plain", path.c_str(), 0, &number);
    };
    EXPECT_EQ(open("/nonexistent/x"), -ENOENT);
    EXPECT_EQ(open("/"), -EISDIR);
    EXPECT_EQ(open(file.path() + "/x"), -ENOTDIR);
    EXPECT_EQ(open("/tmp/" + std::string(300, 'x')), -ENAMETOOLONG);
    EXPECT_EQ(open("/dev/null"), -ENODEV);
    ASSERT_EQ(symlink(other_path().c_str(), other_path().c_str()), 0);
    EXPECT_EQ(open(other_path()), -ELOOP);
    ASSERT_EQ(unlink(other_path().c_str()), 0);
    std::thread([&] {
        refuse_call(SYS_openat, EACCES);  // as of a file of somebody else
        EXPECT_EQ(open(file.path()), -EACCES);
        EXPECT_EQ(std::string(chainio_error(app.handle)),
                  "file '" + file.path() + "' for class 'plain': Permission denied");
    }).join();
    // A class that is not there is not a file that could be made.
    EXPECT_EQ(chainio_file_open(app.handle, "none", file.path().c_str(), 0, &number), -EINVAL);
}

TEST(ApiErrors, OnlySoManyFilesAreOpen) {
    const TempFile file(data_file());
    const chainio_options options{sizeof options, 1, 1, 0, 0, 0};
    const auto& artifact = machine_artifact();
    chainio_handle* handle = nullptr;
    ASSERT_EQ(chainio_open_bytes(artifact.data(), artifact.size(), &options, &handle), 0);
    std::uint64_t first = 0, second = 0;
    EXPECT_EQ(chainio_file_open(handle, "plain", file.path().c_str(), 0, &first), 0);
    EXPECT_EQ(chainio_file_open(handle, "plain", file.path().c_str(), 0, &second), -EMFILE);
    EXPECT_EQ(chainio_file_close(handle, first), 0);
    EXPECT_EQ(chainio_file_close(handle, first), -EBADF);
    chainio_close(handle);
}

TEST(ApiErrors, AnArtifactThatIsNotReadHasTheNumberOfItsCause) {
    const TempFile file(data_file());
    chainio_handle* handle = nullptr;
    const auto open = [&](const std::string& path) { return chainio_open(path.c_str(), nullptr, &handle); };
    EXPECT_EQ(open("/nonexistent/x.o"), -ENOENT);
    EXPECT_EQ(open("/"), -EISDIR);
    EXPECT_EQ(open("/dev/null"), -ENODEV);
    EXPECT_EQ(open(file.path() + "/x.o"), -ENOTDIR);
    EXPECT_EQ(open("/tmp/" + std::string(300, 'x')), -ENAMETOOLONG);
    EXPECT_EQ(open(file.path()), -EBADMSG);
    std::thread([&] {
        refuse_call(SYS_openat, EACCES);
        EXPECT_EQ(open(file.path()), -EACCES);
        EXPECT_EQ(std::string(chainio_error(nullptr)), "cannot read artifact '" + file.path() + "': Permission denied");
    }).join();
    const TempFile large({});
    ASSERT_EQ(truncate(large.path().c_str(), (off_t{256} << 20) + 1), 0);
    EXPECT_EQ(open(large.path()), -EFBIG);
}

// As of a program that goes on after an open that failed.
TEST(ApiErrors, WhereNothingIsOpenNothingCrashes) {
    const TempFile file(data_file());
    const Handle app;
    chainio_handle* handle = app.handle;  // what is in there before does not stay
    EXPECT_EQ(chainio_open("/nonexistent/x.o", nullptr, &handle), -ENOENT);
    EXPECT_EQ(handle, nullptr);
    handle = app.handle;
    EXPECT_EQ(chainio_open_bytes("text", 4, nullptr, &handle), -EBADMSG);
    EXPECT_EQ(handle, nullptr);

    chainio_arg arg{};
    chainio_completion one{};
    chainio_chain_info chain{};
    chain.size = sizeof chain;
    chainio_param_info param{};
    param.size = sizeof param;
    chainio_counters counters{};
    counters.size = sizeof counters;
    chainio_fallback fallback{};
    fallback.size = sizeof fallback;
    std::uint64_t number = 0;
    const auto refused = [](int result) {
        EXPECT_EQ(result, -EINVAL);
        EXPECT_STREQ(chainio_error(nullptr), "handle must not be NULL");
        EXPECT_EQ(chainio_open(nullptr, nullptr, nullptr), -EINVAL);  // another text
    };
    refused(chainio_file_open(handle, nullptr, file.path().c_str(), 0, &number));
    refused(chainio_file_close(handle, 0));
    refused(chainio_find_chain(handle, "first"));
    refused(chainio_get_chain(handle, 0, &chain));
    refused(chainio_get_param(handle, 0, 0, &param));
    refused(chainio_submit(handle, 0, &arg, 1, 0));
    refused(chainio_reap(handle, &one, 1, 1));
    refused(chainio_call(handle, 0, &arg, 1, &one));
    refused(chainio_cancel(handle, 0));
    refused(chainio_get_counters(handle, &counters));
    refused(chainio_get_fallback(handle, 0, &fallback));
    EXPECT_STREQ(chainio_describe(handle), "");
    EXPECT_STREQ(chainio_outcome_name(handle, CHAINIO_OK), "");
    EXPECT_EQ(chainio_in_flight(handle), 0u);
    EXPECT_EQ(chainio_count_outcome(handle, 0, CHAINIO_OK), 0u);
    EXPECT_EQ(chainio_latency(handle, 0, 50), 0u);
    chainio_close(handle);
}

TEST(ApiErrors, WhichArgumentIsWrongIsSaid) {
    const TempFile file(data_file());
    const Handle app;
    std::uint64_t number = 0;
    chainio_handle* more = nullptr;
    EXPECT_EQ(chainio_open(nullptr, nullptr, &more), -EINVAL);
    EXPECT_STREQ(chainio_error(nullptr), "artifact must not be NULL");
    EXPECT_EQ(chainio_open_bytes("text", 4, nullptr, nullptr), -EINVAL);
    EXPECT_STREQ(chainio_error(nullptr), "out must not be NULL");
    EXPECT_EQ(chainio_file_open(app.handle, "plain", nullptr, 0, &number), -EINVAL);
    EXPECT_STREQ(chainio_error(app.handle), "path must not be NULL");
    EXPECT_EQ(chainio_file_open(app.handle, "plain", file.path().c_str(), 0, nullptr), -EINVAL);
    EXPECT_STREQ(chainio_error(app.handle), "file must not be NULL");

    // The one too many has the kind of whatever lies there.
    const auto files = both_files(app.handle, file.path());
    chainio_arg args[5] = {{CHAINIO_FILE, 0, files[0], nullptr},
                           {CHAINIO_FILE, 0, files[1], nullptr},
                           {CHAINIO_SCALAR, 0, 0, nullptr},
                           {CHAINIO_BYTES, 0, 0, nullptr},
                           {77, 0, 0, nullptr}};
    const auto refused = [&](const chainio_arg* given, std::uint32_t count, const char* text) {
        EXPECT_EQ(chainio_submit(app.handle, 0, given, count, 0), -EINVAL);
        EXPECT_STREQ(chainio_error(app.handle), text);
    };
    refused(args, 5, "chain 'first' takes 4 arguments, not 5");
    refused(args, 3, "chain 'first' takes 4 arguments, not 3");
    refused(args, UINT32_MAX, "chain 'first' takes 4 arguments, not 4294967295");
    refused(nullptr, 4, "args must not be NULL");
    args[2].kind = 77;
    refused(args, 4, "argument 'start' of chain 'first': its kind 77 is not one of enum chainio_kind");
    EXPECT_EQ(chainio_submit(app.handle, 9, args, 5, 0), -ENOENT);
    EXPECT_STREQ(chainio_error(app.handle), "there is no such call chain");
}

TEST(ApiErrors, OptionsAreCalledAsInC) {
    const auto& artifact = machine_artifact();
    const auto refused = [&](std::uint64_t memory, std::uint32_t flags) {
        const chainio_options options{sizeof options, 0, 0, memory, flags, 0};
        chainio_handle* handle = nullptr;
        const int result = chainio_open_bytes(artifact.data(), artifact.size(), &options, &handle);
        chainio_close(handle);
        return result == 0 ? std::string() : chainio_error(nullptr);
    };
    const std::string memory = refused(std::uint64_t{1} << 50, 0);
    EXPECT_TRUE(memory.starts_with("1073741824 MiB of block memory (options->memory) and ")) << memory;
    const std::string kernel = refused(0, CHAINIO_KERNEL_ENGINE);
    if (!kernel.contains("the kernel engine needs")) GTEST_SKIP() << "this kernel has the kernel engine";
    EXPECT_TRUE(kernel.ends_with("; the user engine (no CHAINIO_KERNEL_ENGINE) runs every call chain")) << kernel;
}

}  // namespace
}  // namespace chainio::tests
