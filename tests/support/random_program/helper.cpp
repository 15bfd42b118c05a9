// What the program does when it was started by itself: says what it inherited, reads a file, or is a server.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

std::string describe(int fd) {
    struct stat st = {};
    ::fstat(fd, &st);
    const int kept = O_ACCMODE | O_APPEND | O_NONBLOCK | O_DIRECT;
    return fmt::format("    {}: flags {} {:o} type {:o} at {}\n", fd, ::fcntl(fd, F_GETFD), ::fcntl(fd, F_GETFL) & kept,
                       st.st_mode & S_IFMT, S_ISREG(st.st_mode) ? ::lseek(fd, 0, SEEK_CUR) : -1);
}

std::string descriptors() {
    std::map<int, std::string> found;
    DIR* folder = ::opendir("/proc/self/fd");
    if (!folder) return "no /proc\n";
    while (const dirent* entry = ::readdir(folder)) {
        const int fd = std::atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != ::dirfd(folder)) found[fd] = describe(fd);
    }
    ::closedir(folder);
    std::string all;
    for (const auto& [fd, line] : found) all += line;
    return all;
}

std::string signals() {
    std::string out = "    signals:";
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    for (int number = 1; number < 32; ++number) {
        struct sigaction action = {};
        if (::sigaction(number, nullptr, &action) != 0) continue;
        if (action.sa_handler == SIG_IGN) out += fmt::format(" {} ignored", number);
        if (action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL) out += fmt::format(" {} handled", number);
        if (sigismember(&blocked, number)) out += fmt::format(" {} blocked", number);
    }
    return out + "\n";
}

int read_file(const char* path) {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    std::string all(60000, '\0');
    const ssize_t got = fd < 0 ? -1 : ::pread(fd, all.data(), all.size(), 0);
    const std::string line = fmt::format("    helper read {} {:016x}\n", got,
                                         hash_of(all.data(), got > 0 ? static_cast<std::size_t>(got) : 0));
    return ::write(1, line.data(), line.size()) > 0 ? 5 : 6;
}

}  // namespace

// A thread that has been joined may still be counted for a moment, until it has had a processor again; one that stays
// is somebody else's.
int threads() {
    using Clock = std::chrono::steady_clock;
    int count = 0;
    for (const auto until = Clock::now() + std::chrono::seconds(20); count != 1 && Clock::now() < until;) {
        std::FILE* status = std::fopen("/proc/self/status", "re");
        if (!status) return -1;
        for (char line[300]; std::fgets(line, sizeof line, status);) {
            int found = 0;
            if (std::sscanf(line, "Threads: %d", &found) == 1) count = found;
        }
        std::fclose(status);
        ::sched_yield();
    }
    return count;
}

int report_inherited() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    char folder[4096] = {};
    const char* here = ::getcwd(folder, sizeof folder);
    const std::string text = descriptors() + signals() +
                             fmt::format("    umask {:o} below {} threads {}\n", mask,
                                         here && std::strstr(here, "/sub") != nullptr, threads());
    return ::write(1, text.data(), text.size()) > 0 ? 4 : 6;
}

int run_helper(int argc, char** argv) {
    if (argc == 4 && std::strcmp(argv[2], "read") == 0) return read_file(argv[3]);
    if (argc == 7 && std::strcmp(argv[2], "serve") == 0) return run_server(argv + 3);
    return report_inherited();
}

}  // namespace chainio::random_program
