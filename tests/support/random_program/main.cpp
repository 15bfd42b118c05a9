// chainio-random-program: unmodified programs of many shapes, from a seed. What one logs and leaves behind depends on
// the seed alone, so that it can be compared with and without something beside it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

constexpr int kFixed = 3;
constexpr std::size_t kFixedBytes = 96 * 1024, kOddBytes = 777;  // of two of them the last page is cut

void make_fixed(Actor& a) {
    for (int i = 0; i < kFixed; ++i) {
        const int fd =
            ::open(fmt::format("{}/fixed{}.imm", process.base, i).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
        const auto data = a.random_bytes(kFixedBytes + static_cast<std::size_t>(i) * kOddBytes);
        if (::write(fd, data.data(), data.size()) < 0) a.text("no fixed file");
        ::close(fd);
    }
}

void run_program(const std::string& folder, std::uint64_t seed, unsigned operations) {
    process.base = folder;
    process.in_sub = false;
    process.children = 0;
    ::mkdir(folder.c_str(), 0755);
    ::mkdir((folder + "/sub").c_str(), 0755);
    if (::chdir(folder.c_str()) != 0) std::abort();
    Actor a("", seed, true, 0);
    make_fixed(a);
    // Files that have just changed are not served: some programs wait until theirs are older.
    process.settled = process.served || seed % 6 == 0;
    if (process.settled) ::usleep(80'000);
    a.make_files();
    a.run(operations);
    a.close_all();
    write_log(folder + "/log", a.log);
    // Whatever an operation left open would shift the numbers of the next program.
    ::close_range(3, ~0U, 0);
    if (::chdir("/") != 0) std::abort();
}

// Every second program is a process of its own; the others follow one another in this one.
int run_programs(const std::string& out, std::uint64_t seed, unsigned count, unsigned operations) {
    for (unsigned i = 0; i < count; ++i) {
        const std::string folder = fmt::format("{}/{}", out, seed + i);
        if (i % 2 == 0) {
            run_program(folder, seed + i, operations);
            continue;
        }
        const pid_t made = ::fork();
        if (made == 0) {
            run_program(folder, seed + i, operations);
            std::_Exit(0);
        }
        int status = 0;
        ::waitpid(made, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
        if (WIFSIGNALED(status)) {
            std::fprintf(stderr, "program %llu was ended by signal %d\n", static_cast<unsigned long long>(seed + i),
                         WTERMSIG(status));
            return 1;
        }
    }
    return 0;
}

int run(int argc, char** argv) {
    CLI::App app("Runs random programs whose logs and files depend on the seed alone");
    std::uint64_t seed = 1;
    unsigned count = 1, operations = 60, steps = 0;
    std::string out = ".";
    app.add_option("--seed", seed, "the first program's seed");
    app.add_option("--count", count, "programs, one seed after the other");
    app.add_option("--operations", operations, "operations of each program's first process");
    app.add_option("--port", process.port, "TCP port that programs listen on; 0: any");
    app.add_option("--out", out, "an existing folder; each program gets one of its own in it");
    app.add_flag("--served", process.served, "without rings, and all with files that are old enough to be served");
    app.add_option("--journal", steps, "instead: so many changes with a journal, in --out itself");
    CLI11_PARSE(app, argc, argv);
    char absolute[PATH_MAX];
    if (!::realpath(out.c_str(), absolute)) return std::perror(out.c_str()), 1;
    return steps > 0 ? run_journal(absolute, seed, steps) : run_programs(absolute, seed, count, operations);
}

}  // namespace
}  // namespace chainio::random_program

int main(int argc, char** argv) {
    using namespace chainio::random_program;
    char self[PATH_MAX] = {};
    if (::readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 1;
    process.program = self;
    if (argc > 1 && std::string_view(argv[1]) == "--helper") return run_helper(argc, argv);
    std::signal(SIGPIPE, SIG_IGN);
    return run(argc, argv);
}
