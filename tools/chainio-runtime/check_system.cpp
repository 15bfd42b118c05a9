#include "tools/chainio-runtime/check_system.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/engine/kernel_program.h"
#include "runtime/ring/ring.h"
#include "runtime/spec/native_code.h"
#include "runtime/umem/region.h"
#include "tools/chainio-runtime/check_xdp.h"

namespace chainio::runtime_tool {
namespace {

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// Major and minor of the running kernel, as one number to compare: 6.18 is 6018.
unsigned kernel_version(const utsname& name) {
    unsigned major = 0, minor = 0;
    return std::sscanf(name.release, "%u.%u", &major, &minor) == 2 ? major * 1000 + minor : 0;
}

bool has_capability(unsigned number) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("CapEff:")) return (std::stoull(line.substr(7), nullptr, 16) >> number & 1) != 0;
    }
    return false;
}

SystemFact kernel_fact(const utsname& name) {
    const unsigned version = kernel_version(name);
    SystemFact fact{"kernel", version >= 5019 ? "ok" : "limited",
                    fmt::format("Linux {} on {}", name.release, name.machine), ""};
    if (version < 5019) fact.remedy = "Linux 5.19 or later has all that the user engine uses";
    return fact;
}

SystemFact ring_fact(std::vector<SystemFact>& more) {
    metrics::Fallbacks fallbacks;
    auto ring = ring::Ring::create({.entries = 64, .cq_entries = 128, .file_slots = 16}, fallbacks);
    if (!ring)
        return {"io_uring", "missing", ring.error(),
                "without it no service is served, and blocks of call chains are read by pread, one at a time"};

    constexpr std::size_t kWanted = std::size_t{64} << 20;
    void* memory = mmap(nullptr, kWanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const std::size_t registered = memory == MAP_FAILED ? 0 : ring->register_region(memory, kWanted, fallbacks);
    if (memory != MAP_FAILED) munmap(memory, kWanted);
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const std::string locked =
        limit.rlim_cur == RLIM_INFINITY
            ? "unlimited"
            : fmt::format("{} KiB{}", limit.rlim_cur >> 10, has_capability(14) ? ", which CAP_IPC_LOCK lifts" : "");
    SystemFact buffers{
        "registered buffers", registered == kWanted ? "ok" : "limited",
        fmt::format("{} MiB of 64 MiB could be registered; RLIMIT_MEMLOCK is {}", registered >> 20, locked), ""};
    if (registered != kWanted)
        buffers.remedy = "`ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit, or CAP_IPC_LOCK";
    more.push_back(std::move(buffers));

    SystemFact fact{"io_uring", "ok", ring->flags() + (ring->has_file_table() ? ", registered files" : ""), ""};
    if (!fallbacks.all().empty() && fallbacks.all().front().name == "ring-flags") {
        fact.state = "limited";
        fact.remedy = fallbacks.all().front().reason;
    }
    return fact;
}

SystemFact huge_page_fact() {
    const std::string free = first_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if (!free.empty() && free != "0") return {"huge pages", "ok", free + " pages of 2 MiB are free", ""};
    constexpr std::size_t kTried = std::size_t{2} << 20;
    auto region = umem::Region::create(kTried, false);
    if (region) region->gather();
    if (region && region->in_huge_pages())
        return {"huge pages", "ok", "none is reserved; the kernel puts them together for block memory", ""};
    return {"huge pages", "limited",
            "none is reserved, and the kernel puts none together; block memory is in pages of 4 KiB",
            "`sysctl vm.nr_hugepages=64`, or Linux 6.1"};
}

SystemFact direct_fact(const utsname& name) {
    if (kernel_version(name) >= 6001)
        return {"O_DIRECT alignment", "ok", "statx tells it where the file system does; else 4096 is used", ""};
    return {"O_DIRECT alignment", "limited", "the kernel does not tell it; 4096 is used", "Linux 6.1"};
}

SystemFact native_fact() {
    if (spec::host_arch().empty())
        return {"native steps", "missing", "no native code for this machine", "steps run by the interpreter"};
    std::string detail(spec::host_arch());
    const std::string noexec = first_line("/proc/sys/vm/memfd_noexec");
    if (noexec == "2") {
        return {"native steps", "missing", "vm.memfd_noexec is 2: code in memory may not run",
                "`sysctl vm.memfd_noexec=0`; until then steps run by the interpreter"};
    }
    return {"native steps", "ok", detail, ""};
}

SystemFact bpf_fact() {
    const bool allowed = has_capability(39) || has_capability(21);
    const std::string lockdown = first_line("/sys/kernel/security/lockdown");
    std::string detail = allowed ? "this process may load BPF programs" : "this process may not load BPF programs";
    if (!lockdown.empty()) detail += "; lockdown: " + lockdown;
    return {"BPF (chainc --verify)", allowed ? "ok" : "limited", detail, allowed ? "" : "CAP_BPF, or run as root"};
}

SystemFact kernel_engine_fact() {
    const std::string obstacle = engine::kernel_engine_obstacle();
    if (obstacle.empty()) return {"kernel engine", "ok", "io_uring_bpf_ops: --engine=kernel runs call chains", ""};
    return {"kernel engine", "missing", obstacle, "the user engine runs every call chain"};
}

}  // namespace

std::vector<SystemFact> check_system() {
    utsname name{};
    uname(&name);
    std::vector<SystemFact> facts{kernel_fact(name)};
    std::vector<SystemFact> more;
    facts.push_back(ring_fact(more));
    facts.insert(facts.end(), more.begin(), more.end());
    facts.push_back(huge_page_fact());
    facts.push_back(direct_fact(name));
    facts.push_back(native_fact());
    facts.push_back(bpf_fact());
    facts.push_back(xdp_fact());
    facts.push_back(kernel_engine_fact());
    return facts;
}

std::string facts_text(const std::vector<SystemFact>& facts) {
    std::string text;
    for (const auto& fact : facts) {
        text += fmt::format("{:<8} {}: {}\n", fact.state, fact.name, fact.detail);
        if (!fact.remedy.empty()) text += fmt::format("         {}\n", fact.remedy);
    }
    return text;
}

std::string facts_json(const std::vector<SystemFact>& facts) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& fact : facts) {
        json.push_back({{"name", fact.name}, {"state", fact.state}, {"detail", fact.detail}, {"remedy", fact.remedy}});
    }
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace chainio::runtime_tool
