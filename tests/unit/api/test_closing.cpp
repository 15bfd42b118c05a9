// What is closed while others have something of it still: reads of cancelled chains, and the parent of a child.
#include <chainio.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

#include "tests/support/in_child.h"
#include "tests/support/mappings.h"
#include "tests/unit/api/handle.h"

namespace chainio::tests {
namespace {

auto open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
}

std::uint64_t ring_reads(const Handle& app) {
    chainio_counters counters{};
    counters.size = sizeof counters;
    EXPECT_EQ(chainio_get_counters(app.handle, &counters), 0);
    return counters.ring_reads;
}

void submit(const Handle& app, const std::array<std::uint64_t, 2>& files, std::uint64_t user_data) {
    const chainio_arg args[4] = {{CHAINIO_FILE, 0, files[0], nullptr},
                                 {CHAINIO_FILE, 0, files[1], nullptr},
                                 {CHAINIO_SCALAR, 0, 0, nullptr},
                                 {CHAINIO_BYTES, 0, 0, nullptr}};
    ASSERT_EQ(chainio_submit(app.handle, 0, args, 4, user_data), 0);
}

// Chains over the files that have ended, two of whose reads the ring was given and the kernel was not told of: a reap
// that only hands over what was cancelled does not enter it.
void leave_reads(const Handle& app, const std::array<std::uint64_t, 2>& files) {
    const std::uint64_t before = ring_reads(app);
    for (const std::uint64_t user_data : {1u, 2u, 2u}) submit(app, files, user_data);
    chainio_completion done[2]{};
    ASSERT_EQ(chainio_cancel(app.handle, 1), 1);
    ASSERT_EQ(chainio_reap(app.handle, done, 1, 1), 1);
    ASSERT_EQ(ring_reads(app), before + 2);
    ASSERT_EQ(chainio_cancel(app.handle, 2), 2);
    ASSERT_EQ(chainio_reap(app.handle, done, 2, 2), 2);
}

// The files are opened in another thread, so that they are not registered: their reads go by the descriptor's number. A
// read of an empty pipe would keep the handle's end waiting for ever.
TEST(ApiClosing, ReadsOfACancelledChainTakeNothingOfADescriptorOfTheSameNumber) {
    const TempFile file(data_file());
    for (const std::string_view bytes : {"others", ""}) {
        int pipes[2];
        const auto before = open_descriptors();
        {
            const Handle app;
            const auto own = both_files(app.handle, file.path());
            ASSERT_EQ(submit_and_reap(app.handle, own), 2);
            std::array<std::uint64_t, 2> files{};
            std::thread([&] { files = both_files(app.handle, file.path()); }).join();
            leave_reads(app, files);
            for (const std::uint64_t each : files) EXPECT_EQ(chainio_file_close(app.handle, each), 0);
            EXPECT_EQ(chainio_file_close(app.handle, files[0]), -EBADF) << "it is closed for its user";
            ASSERT_EQ(pipe(pipes), 0);
            ASSERT_EQ(write(pipes[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
            EXPECT_EQ(submit_and_reap(app.handle, own), 2);
        }
        ASSERT_EQ(fcntl(pipes[0], F_SETFL, O_NONBLOCK), 0);
        char left[16];
        EXPECT_EQ(read(pipes[0], left, sizeof left), bytes.empty() ? -1 : static_cast<ssize_t>(bytes.size()));
        close(pipes[0]);
        close(pipes[1]);
        EXPECT_EQ(open_descriptors(), before) << "what was closed with reads under way";
    }
}

// The kernel may write into it until the thread that reaps has ended, and says nothing of that to another one.
TEST(ApiClosing, AnotherThreadLeavesMemoryThatReadsMayGoToWhereItIs) {
    const TempFile file(data_file());
    const unsigned before = mappings_of("chainio-umem");
    for (const bool reads : {false, true}) {
        auto app = std::make_unique<Handle>();
        const auto files = both_files(app->handle, file.path());
        ASSERT_EQ(submit_and_reap(app->handle, files), 2);
        if (reads) leave_reads(*app, files);
        EXPECT_EQ(in_child([&] {
                      chainio_close(app->handle);
                      return static_cast<int>(mappings_of("chainio-umem") - before);
                  }),
                  0)
            << "a child keeps memory of its parent";
        std::thread([&] { app.reset(); }).join();
        EXPECT_EQ(mappings_of("chainio-umem"), before + (reads ? 1 : 0));
    }
}

// Of a process that is number 1, and so is its child: 0, or which step was wrong; 77: it may not have one. To a ring
// that nobody has used yet the kernel lets a child do anything.
int has_a_child_of_its_number_close(const std::string& path) {
    const Handle app, other;
    const auto files = both_files(app.handle, path);
    std::uint64_t wanted = 0, sum = 0;
    if (getpid() != 1 || submit_and_reap(other.handle, both_files(other.handle, path), &wanted) != 2) return 1;
    if (unshare(CLONE_NEWPID) != 0) return 77;
    const int closed = in_child([&] {
        chainio_close(app.handle);
        return getpid() == 1 ? 0 : 1;
    });
    if (closed != 0) return 2;
    return submit_and_reap(app.handle, files, &sum) == 2 && sum == wanted && sum != 0 ? 0 : 3;
}

// As in containers within containers, each of which begins with a process of number 1.
TEST(ApiClosing, AChildWithItsParentsNumberTakesNothingFromIt) {
    const TempFile file(data_file(1));
    const int code = in_child([&] {
        if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return 77;
        return in_child([&] { return has_a_child_of_its_number_close(file.path()); });
    });
    if (code == 77) GTEST_SKIP() << "this process may make no PID namespaces";
    EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace chainio::tests
