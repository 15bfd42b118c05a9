// Processes of PID namespaces below ours are known by what /proc says of them.
#include "runtime/shadow/nested.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <vector>

namespace chainio::shadow::test {
namespace {

// The first process of a PID namespace, in so many groups, while this lives.
class First {
  public:
    explicit First(unsigned groups) {
        if (pipe(says_) != 0 || pipe(lives_) != 0) return;
        maker_ = fork();
        if (maker_ == 0) _exit(make(groups));
        for (const int end : {says_[1], lives_[0]}) close(end);
        NestedProcess said{};
        if (read(says_[0], &said, sizeof said) == sizeof said) process_ = said;
    }
    ~First() {
        for (const int end : {says_[0], lives_[1]}) close(end);
        if (maker_ > 0) waitpid(maker_, nullptr, 0);
    }
    First(const First&) = delete;
    First& operator=(const First&) = delete;
    const std::optional<NestedProcess>& process() const { return process_; }

  private:
    int make(unsigned groups) const {
        std::vector<gid_t> all(groups);
        for (unsigned i = 0; i < groups; i++) all[i] = 4'000'000'000u + i;
        if (setgroups(all.size(), all.data()) != 0 || unshare(CLONE_NEWPID) != 0) return 1;
        const pid_t first = fork();
        if (first == 0) {
            close(lives_[1]);
            struct stat pids{};
            if (stat("/proc/self/ns/pid", &pids) != 0) _exit(1);
            const NestedProcess own{static_cast<std::uint32_t>(pids.st_ino), static_cast<std::uint32_t>(getpid())};
            char end = 0;
            _exit(write(says_[1], &own, sizeof own) == sizeof own && read(lives_[0], &end, 1) == 0 ? 0 : 1);
        }
        for (const int end : {says_[0], says_[1], lives_[0], lives_[1]}) close(end);
        return first > 0 && waitpid(first, nullptr, 0) == first ? 0 : 1;
    }

    int says_[2] = {-1, -1}, lives_[2] = {-1, -1};
    pid_t maker_ = -1;
    std::optional<NestedProcess> process_;
};

// Of one in many groups the kernel says so much that its namespace comes late.
TEST(Nested, WhoLivesIsNotTakenForEndedInHoweverManyGroups) {
    for (const unsigned groups : {0u, 1'000u}) {
        const First first(groups);
        if (!first.process()) GTEST_SKIP() << "no groups may be set here, or no PID namespace made";
        const NestedProcess another{first.process()->pids + 1, first.process()->number};
        std::vector<NestedProcess> all{*first.process(), another};
        strike_living(all);
        EXPECT_EQ(all, std::vector<NestedProcess>{another}) << groups << " groups";
    }
}

}  // namespace
}  // namespace chainio::shadow::test
