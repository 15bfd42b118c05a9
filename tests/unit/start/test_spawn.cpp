// Starting a program: what this process does to itself meanwhile comes first, and is not done to the program.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "tools/chainio/run/spawn.h"

namespace chainio::run {
namespace {

struct Pipe {
    Pipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
    ~Pipe() {
        close_end(0);
        close_end(1);
    }
    void close_end(int which) {
        if (ends[which] >= 0) ::close(ends[which]);
        ends[which] = -1;
    }
    // All, up to the end of the last who may write to it.
    std::string rest() {
        close_end(1);
        std::string all;
        char some[64];
        for (ssize_t got = 0; (got = ::read(ends[0], some, sizeof some)) > 0;)
            all.append(some, static_cast<std::size_t>(got));
        return all;
    }
    int ends[2] = {-1, -1};
};

// A shell that writes to that pipe.
Start shell(const Pipe& pipe, const std::string& words) {
    return {"/bin/sh", {"sh", "-c", words + " >&" + std::to_string(pipe.ends[1])}, {"PATH=/bin:/usr/bin"}};
}

int start(const Pipe& pipe, const Start& what, const std::function<void()>& before, int& pid) {
    ::fcntl(pipe.ends[1], F_SETFD, 0);
    return spawn(what, {0, false}, before, pid);
}

int code_of(int pid) {
    int status = 0;
    return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Spawn, WhatIsDoneBeforeIsNotTheProgramsAndIsDoneWhenItBegins) {
    Pipe pipe;
    const mode_t mine = ::umask(0022);
    int pid = 0;
    const std::string masks = "{ grep Umask /proc/$PPID/status; umask; }";
    EXPECT_EQ(start(pipe, shell(pipe, masks), [] { ::umask(0077); }, pid), 0);
    EXPECT_EQ(pipe.rest(), "Umask:\t0077\n0022\n");
    EXPECT_EQ(code_of(pid), 0);
    ::umask(mine);
}

TEST(Spawn, NothingBeginsOnceWhoStartsItIsKilled) {
    Pipe pipe;
    const Start what = shell(pipe, "echo begun");
    const pid_t parent = ::fork();
    if (parent == 0) {
        int pid = 0;
        ::_exit(start(pipe, what, [] { ::raise(SIGKILL); }, pid));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(parent, &status, 0), parent);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(pipe.rest(), "");  // which comes to an end, too
}

TEST(Spawn, WhatCannotBeExecutedIsSaid) {
    const std::function<void()> ways[] = {{}, [] {}};
    for (const auto& before : ways) {
        int pid = 0;
        EXPECT_EQ(spawn({"/none/at/all", {"none"}, {}}, {0, false}, before, pid), ENOENT);
        EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // nobody is left
    }
}

TEST(Spawn, WithoutADescriptorForAPipeTheProgramRunsAllTheSame) {
    Pipe pipe;  // the end that closes when a program is executed leaves it one for its libraries
    rlimit mine{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &mine), 0);
    const rlimit full{static_cast<rlim_t>(pipe.ends[1]) + 1, mine.rlim_max};
    int pid = 0, done = 0;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
    const int error = start(pipe, {"/bin/sh", {"sh", "-c", "exit 7"}, {}}, [&] { ++done; }, pid);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &mine), 0);
    EXPECT_EQ(error, 0);
    EXPECT_EQ(done, 1);
    EXPECT_EQ(code_of(pid), 7);
}

}  // namespace
}  // namespace chainio::run
