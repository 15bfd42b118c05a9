#include "tests/bench/rings/usage.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

namespace chainio::bench_rings {
namespace {

std::uint64_t ns_of(clockid_t clock) {
    timespec now{};
    if (clock_gettime(clock, &now) != 0) return 0;
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t switches_in(const std::string& status) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(status.c_str(), "re"), std::fclose);
    std::uint64_t sum = 0;
    char line[256];
    while (file && std::fgets(line, sizeof line, file.get()) != nullptr)
        if (const char* found = std::strstr(line, "ctxt_switches:"))
            sum += std::strtoull(found + std::strlen("ctxt_switches:"), nullptr, 10);
    return sum;
}

}  // namespace

Used Usage::since(const Usage& before) const {
    Used used{busy_ns - before.busy_ns, 0};
    for (const auto& [thread, count] : switches) {
        const auto found = before.switches.find(thread);
        used.switches += count - (found == before.switches.end() ? 0 : found->second);
    }
    return used;
}

Usage usage_of(int process) {
    clockid_t clock{};
    if (process == 0 || clock_getcpuclockid(process, &clock) != 0) return {};
    Usage usage{ns_of(clock), {}};
    const std::string tasks = "/proc/" + std::to_string(process) + "/task";
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(tasks.c_str()), closedir);
    while (const dirent* entry = folder ? readdir(folder.get()) : nullptr)
        if (entry->d_name[0] != '.')
            usage.switches[std::atoi(entry->d_name)] = switches_in(tasks + "/" + entry->d_name + "/status");
    return usage;
}

Used own_use() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {ns_of(CLOCK_PROCESS_CPUTIME_ID), static_cast<std::uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw)};
}

}  // namespace chainio::bench_rings
