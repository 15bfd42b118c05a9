// What the preload library costs a call: the same loop with and without it, in turns, each in a process of its own.
//
// usage: bench_shim LIBRARY [ROUNDS [SITES]]   prints the median nanoseconds of CPU a call of each, and the
// differences; with SITES, a chainio-sites, the rows of calls that go past libc show what it costs to catch them
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/shim/protocol.h"
#include "runtime/shim/raw.h"
#include "tests/bench/shim/region.h"

namespace {

using chainio::shim::Region;

double now() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);  // the machine may be busy with others
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// The quickest of many short bursts: the others were disturbed.
template <class Call>
void measure(const char* name, Call call) {
    constexpr int kBursts = 300, kCalls = 500;
    double best = 1e18;
    for (int burst = 0; burst < kBursts; ++burst) {
        const double before = now();
        for (int i = 0; i < kCalls; ++i) call();
        best = std::min(best, (now() - before) / kCalls);
    }
    std::printf("%s\n%.2f\n", name, best);
}

// Apart from its callers, so that nobody can tell by which number it calls.
[[gnu::noinline]] long past_libc(long number, long a, long b, long c, long d) {
    return chainio::shim::raw_call(number, a, b, c, d);
}

int child(const char* path) {
    char bytes[4096];
    const int fd = open(path, O_RDONLY);
    const int other = static_cast<int>(past_libc(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), O_RDONLY, 0));
    measure("past libc: getppid", [&] { past_libc(SYS_getppid, 0, 0, 0, 0); });
    measure("past libc: read, no such descriptor", [&] { past_libc(SYS_read, -1, 0, 1, 0); });
    measure("past libc: pread 1 B", [&] { past_libc(SYS_pread64, other, reinterpret_cast<long>(bytes), 1, 0); });
    measure("read, no such descriptor", [&] { static_cast<void>(!read(-1, bytes, 1)); });
    measure("pread 1 B", [&] { static_cast<void>(!pread(fd, bytes, 1, 0)); });
    measure("pread 4 KiB", [&] { static_cast<void>(!pread(fd, bytes, sizeof bytes, 0)); });
    measure("open and close", [&] { close(open(path, O_RDONLY)); });
    return 0;
}

using Times = std::map<std::string, std::map<std::string, std::vector<double>>>;

// Runs one variant, takes what it posts, and adds its times.
void run(const std::string& variant, const std::vector<std::string>& words, const std::vector<std::string>& variables,
         Region& region, Times& times) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::exit(1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    std::vector<char*> arguments, environment;
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    for (const auto& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
    arguments.push_back(nullptr);
    environment.push_back(nullptr);
    pid_t id = 0;
    if (posix_spawn(&id, arguments[0], &actions, nullptr, arguments.data(), environment.data()) != 0) std::exit(1);
    close(ends[1]);
    rusage used{};
    for (int status = 0; wait4(id, &status, WNOHANG, &used) == 0; usleep(200))
        for (auto& ring : region.rings) ring.head.store(ring.tail.load());
    const auto micros = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
    };
    if (words.size() == 1)
        times["start and end of a program"][variant].push_back(1000 * (micros(used.ru_utime) + micros(used.ru_stime)));
    FILE* lines = fdopen(ends[0], "r");
    char name[64];
    double value = 0;
    while (std::fscanf(lines, "%63[^\n]\n%lf\n", name, &value) == 2) times[name][variant].push_back(value);
    std::fclose(lines);
    posix_spawn_file_actions_destroy(&actions);
}

double median(std::vector<double> all) {
    std::ranges::sort(all);
    return all.empty() ? 0 : all[all.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], "--child") == 0) return child(argv[2]);
    if (argc < 2) return 2;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
    char folder[] = "/tmp/chainio-bench-shim-XXXXXX";
    if (!mkdtemp(folder)) return 1;
    const std::string base = folder, region_path = base + "/region", matched = base + "/a.idx",
                      unmatched = base + "/a.txt";
    Region* region = chainio::bench_shim::make_region(region_path);
    if (!region) return 1;
    for (const auto& path : {matched, unmatched})
        if (FILE* file = std::fopen(path.c_str(), "w"))
            std::fclose((std::fputs(std::string(8192, 'x').c_str(), file), file));
    const std::string load = "LD_PRELOAD=" + std::string(argv[1]),
                      where = std::string(chainio::shim::kRegionVariable) + "=" + region_path,
                      sites = std::string(chainio::shim::kSitesVariable) + "=" + (argc > 3 ? argv[3] : "");
    Times times;
    for (int i = 0; i < rounds; ++i)
        for (const std::string& path : {unmatched, matched}) {
            const std::string kind = path == matched ? "matched" : "unmatched";
            run(kind + ", plain", {argv[0], "--child", path}, {}, *region, times);
            run(kind + ", with", {argv[0], "--child", path}, {load, where, sites}, *region, times);
            for (int start = 0; start < 50; ++start) {
                run(kind + ", plain", {"/bin/true"}, {}, *region, times);
                run(kind + ", with", {"/bin/true"},
                    kind == "matched" ? std::vector{load, where, sites} : std::vector{load}, *region, times);
            }
        }
    for (auto& [name, variants] : times)
        for (const char* kind : {"unmatched", "matched"}) {
            const double plain = median(variants[std::string(kind) + ", plain"]),
                         with = median(variants[std::string(kind) + ", with"]);
            std::printf("%-36s %-10s plain %10.1f   with %10.1f   difference %8.1f\n", name.c_str(), kind, plain, with,
                        with - plain);
        }
    for (const auto& path : {matched, unmatched, region_path, base + chainio::shim::kPlanFile}) unlink(path.c_str());
    rmdir(folder);
}
