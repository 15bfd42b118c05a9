// What the preload library takes more for calls that no class and no socket of the spec has a part in.
//
// usage: bench_shim_calls LIBRARY [ROUNDS]   prints a line for each function, with tabs between: name, nanoseconds of a
// call as libc has it, what ours takes more (the median of the rounds, the least, the most), and the same three of
// processes without the library, where both are libc's
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/shim/calls.h"
#include "tests/bench/shim/region.h"

namespace {

struct Times {
    std::vector<double> plain, more, again;
};
struct Table {
    std::vector<std::string> order;
    std::map<std::string, Times> rows;
};

void run(const char* program, const std::string& folder, std::vector<std::string> variables, Table& table) {
    int ends[2];
    if (pipe(ends) != 0) std::exit(1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    std::string child = "--child", where = folder;
    char* arguments[] = {const_cast<char*>(program), child.data(), where.data(), nullptr};
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    pid_t id = 0;
    if (posix_spawn(&id, program, &actions, nullptr, arguments, environment.data()) != 0) std::exit(1);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::FILE* lines = fdopen(ends[0], "r");
    char name[64];
    double plain = 0, more = 0;
    while (std::fscanf(lines, "%63[^\t]\t%lf\t%lf\n", name, &plain, &more) == 3) {
        if (!table.rows.contains(name)) table.order.emplace_back(name);
        Times& times = table.rows[name];
        if (variables.empty()) {
            times.again.push_back(more);
        } else {
            times.plain.push_back(plain);
            times.more.push_back(more);
        }
    }
    std::fclose(lines);
    int status = 0;
    if (waitpid(id, &status, 0) != id || status != 0) std::exit(1);
}

void print(std::vector<double> values) {
    std::ranges::sort(values);
    std::printf("\t%.1f\t%.1f\t%.1f", values[values.size() / 2], values.front(), values.back());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], "--child") == 0) return chainio::bench_shim::measure_calls(argv[2]);
    if (argc < 2) return 2;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
    char folder[] = "/tmp/chainio-bench-calls-XXXXXX";
    if (!mkdtemp(folder)) return 1;
    const std::string base = folder, region = base + "/region";
    const std::vector<std::string> files = {base + "/a.log", base + "/a.txt", base + "/a.dat", base + "/a.lines"};
    for (const std::string& path : files)
        std::ofstream(path) << std::string(4000, 'x') + "\n" + std::string(4000, '\n');
    if (!chainio::bench_shim::make_region(region)) return 1;
    const std::vector<std::string> with = {"LD_PRELOAD=" + std::string(argv[1]),
                                           std::string(chainio::shim::kRegionVariable) + "=" + region};
    Table table;
    for (int i = 0; i < rounds; ++i) {
        run(argv[0], base, with, table);
        run(argv[0], base, {}, table);
    }
    for (const std::string& name : table.order) {
        Times& times = table.rows[name];
        std::ranges::sort(times.plain);
        std::printf("%s\t%.1f", name.c_str(), times.plain[times.plain.size() / 2]);
        print(times.more);
        print(times.again);
        std::printf("\n");
    }
    for (const std::string& path : files) unlink(path.c_str());
    unlink(region.c_str());
    unlink((base + chainio::shim::kPlanFile).c_str());
    rmdir(folder);
}
