// Children: by fork, vfork, posix_spawn, exec, system, popen; with shared positions and turns, alone, and killed.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

void note_status(Actor& a, pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    a.text(WIFSIGNALED(status) ? fmt::format("killed by {}", WTERMSIG(status))
                               : fmt::format("exit {}", WEXITSTATUS(status)));
}

std::string drain(int fd) {
    std::string all;
    char block[4096];
    for (ssize_t got = 0; (got = ::read(fd, block, sizeof block)) > 0;)
        all.append(block, static_cast<std::size_t>(got));
    return all;
}

// A child with a folder of its own and the parent's descriptors; runs beside the parent's next operations or before
// them.
void child(Actor& a) {
    const unsigned number = process.children++;
    const std::uint64_t seed = a.rng.next();
    // The C library of a child by a raw fork still takes itself for the parent: signals to its own threads would go
    // there.
    const bool raw = a.rng.chance(20);
    const pid_t made = raw ? static_cast<pid_t>(::syscall(SYS_fork)) : ::fork();
    if (made == 0) {
        Actor mine(fmt::format("{}c{}/", a.folder, number), seed, !raw, a.depth + 1);
        mine.slots = a.slots;
        mine.make_files();
        mine.run(12);
        mine.note("threads", threads());
        write_log(process.base + "/" + mine.folder + "log", mine.log);
        std::_Exit(static_cast<int>(seed % 50));
    }
    note_status(a, made);
    for (const int fd : a.slots) a.position(fd);
}

// Parent and child take turns on descriptors that they share: positions and flags are common to both.
void turns(Actor& a) {
    const int shared = a.open_some(O_RDWR);
    int to_child[2] = {-1, -1}, to_parent[2] = {-1, -1};
    if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(to_parent, O_CLOEXEC) != 0) return;
    const unsigned number = process.children++;
    const std::uint64_t seed = a.rng.next();
    const pid_t made = ::fork();
    const bool is_child = made == 0;
    Actor mine(fmt::format("{}t{}/", a.folder, number), seed + is_child, false, a.depth + 1);
    const int in = is_child ? to_child[0] : to_parent[0], out = is_child ? to_parent[1] : to_child[1];
    ::close(is_child ? to_child[1] : to_child[0]);
    ::close(is_child ? to_parent[0] : to_parent[1]);
    for (int turn = 0; turn < 8; ++turn) {
        char token = 't';
        if ((turn % 2 == 1) == is_child) {
            if (is_child || turn > 0) {
                if (::read(in, &token, 1) != 1) break;
            }
            const auto into = mine.buffer(3000);
            const auto data = mine.random_bytes(500);
            switch (mine.rng.below(4)) {
                case 0: mine.call("write", [&] { return ::write(shared, data.data(), data.size()); }); break;
                case 1:
                    mine.call("lseek",
                              [&] { return ::lseek(shared, static_cast<off_t>(mine.rng.below(9000)), SEEK_SET); });
                    break;
                case 2:
                    mine.call("F_SETFL", [&] { return ::fcntl(shared, F_SETFL, mine.rng.chance(50) ? O_APPEND : 0); });
                    break;
                default:
                    mine.bytes(into.data(), mine.call("read", [&] {
                        return ::read(shared, into.data(), 1 + mine.rng.below(3000));
                    }));
            }
            mine.position(shared);
            if (::write(out, &token, 1) != 1) break;
        }
    }
    if (is_child) {
        write_log(process.base + "/" + mine.folder + "log", mine.log);
        std::_Exit(0);
    }
    for (const int fd : {in, out}) ::close(fd);
    note_status(a, made);
    a.log += mine.log;
    a.position(shared);
    if (shared >= 0) ::close(shared);
}

struct Output {  // where a started program's output goes
    int ends[2] = {-1, -1};
    Output() {
        if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    }
    ~Output() { ::close(ends[0]); }
};

std::vector<std::string> words_of(Actor& a) {
    return {process.program, "--helper", a.rng.chance(50) ? "report" : "read", a.path(a.file())};
}

void start(Actor& a) {
    if (a.rng.chance(50)) ::signal(SIGUSR2, SIG_IGN);
    const std::vector<std::string> words = words_of(a);
    const char* arguments[] = {words[0].c_str(), words[1].c_str(), words[2].c_str(), words[3].c_str(), nullptr};
    auto* argv = const_cast<char**>(arguments);
    char* none[] = {nullptr};
    const Output output;
    pid_t made = -1;
    const std::size_t how = a.rng.below(6);
    a.note("started how", static_cast<long>(how));
    if (how < 2) {
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, output.ends[1], 1);
        ::posix_spawn_file_actions_addopen(&actions, 17, words[3].c_str(), O_RDONLY, 0);
        if (!a.slots.empty()) ::posix_spawn_file_actions_addclose(&actions, a.slots[0]);
        a.call("posix_spawn", [&] {
            return how == 0 ? ::posix_spawn(&made, argv[0], &actions, nullptr, argv, ::environ)
                            : ::posix_spawnp(&made, argv[0], &actions, nullptr, argv, ::environ);
        });
        ::posix_spawn_file_actions_destroy(&actions);
    } else {
        made = how == 2 ? ::vfork() : ::fork();
        if (made == 0) {
            ::dup2(output.ends[1], 1);
            if (how == 3) ::execve(argv[0], argv, none);  // an empty environment
            if (how == 4) ::execl(argv[0], argv[0], argv[1], argv[2], argv[3], nullptr);
            if (how == 5) ::fexecve(::open(argv[0], O_RDONLY | O_CLOEXEC), argv, ::environ);
            ::execv(argv[0], argv);
            ::_exit(127);
        }
    }
    ::close(output.ends[1]);
    a.log += drain(output.ends[0]);
    if (made > 0) note_status(a, made);
    ::signal(SIGUSR2, SIG_DFL);
}

void shell(Actor& a) {
    const std::string path = process.base + "/" + a.plain_path(a.file());
    if (a.rng.chance(50)) {
        std::FILE* output = ::popen(fmt::format("cat '{}' 2>/dev/null", path).c_str(), "re");
        const auto into = a.buffer(60000);
        a.bytes(into.data(),
                a.call("fread", [&] { return static_cast<long>(std::fread(into.data(), 1, into.size(), output)); }));
        a.call("pclose", [&] { return ::pclose(output); });
    } else {
        const std::string made = process.base + "/" + a.plain_path(a.file());
        a.call("system", [&] {
            return std::system(
                fmt::format("head -c 3000 '{}' > '{}' 2>/dev/null; exit 3", path, made + ".sh.dat").c_str());
        });
    }
}

void killed(Actor& a) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    const pid_t made = ::fork();
    if (made == 0) {
        ::close(ends[0]);
        if (::write(ends[1], "r", 1) == 1) {
            for (;;) {
                const auto into = a.buffer(4000);
                const int fd = a.open_some(O_RDONLY);
                if (::read(fd, into.data(), into.size()) >= 0) ::close(fd);
            }
        }
    }
    ::close(ends[1]);
    char byte = 0;
    a.call("read", [&] { return ::read(ends[0], &byte, 1); });
    a.call("kill", [&] { return ::kill(made, a.rng.chance(50) ? SIGKILL : SIGTERM); });
    note_status(a, made);
    a.call("read", [&] { return ::read(ends[0], &byte, 1); });
    a.call("no more children", [&] { return ::waitpid(made, nullptr, 0); });
    ::close(ends[0]);
}

}  // namespace

Operations process_operations() {
    return {{"child", 3, child, false, true},
            {"turns", 3, turns, false, true},
            {"start", 3, start, false, true},
            {"shell", 1, shell, false, false},
            {"killed", 1, killed, false, true}};
}

}  // namespace chainio::random_program
