#include "tools/chainio-runtime/check_system.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/engine/kernel_program.h"
#include "runtime/ring/ring.h"
#include "runtime/spec/native_code.h"
#include "runtime/umem/region.h"
#include "tools/chainio-runtime/check_xdp.h"
#include "tools/chainio-runtime/edition.h"

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

// Of the ring as a daemon has it.
SystemFact ring_fact(std::vector<SystemFact>& more) {
    metrics::Fallbacks fallbacks;
    auto shared = make_ring({}, {}, fallbacks);
    if (!shared)
        return {"io_uring", "missing", shared.error(),
                "without it no service is served, and blocks of call chains are read by pread, one at a time"};
    ring::Ring& ring = (*shared)->ring();

    constexpr std::size_t kWanted = std::size_t{64} << 20;
    void* memory = mmap(nullptr, kWanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const std::size_t registered = memory == MAP_FAILED ? 0 : ring.register_region(memory, kWanted, fallbacks);
    if (memory != MAP_FAILED) munmap(memory, kWanted);
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    // That of a user namespace lifts nothing.
    const bool lifted = registered == kWanted && has_capability(14);
    const std::string locked =
        limit.rlim_cur == RLIM_INFINITY
            ? "unlimited"
            : fmt::format("{} KiB{}", limit.rlim_cur >> 10, lifted ? ", which CAP_IPC_LOCK lifts" : "");
    SystemFact buffers{
        "registered buffers", registered == kWanted ? "ok" : "limited",
        fmt::format("{} MiB of 64 MiB could be registered; RLIMIT_MEMLOCK is {}", registered >> 20, locked), ""};
    if (registered != kWanted)
        buffers.remedy =
            "`ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit, or CAP_IPC_LOCK (not in a user namespace)";
    more.push_back(std::move(buffers));

    std::vector<std::string_view> reasons;
    for (const metrics::Fallback& each : fallbacks.all())
        if (each.name != "unregistered-buffers") reasons.push_back(each.reason);  // which have a line of their own
    return {"io_uring", reasons.empty() ? "ok" : "limited",
            ring.flags() + (ring.has_file_table() ? ", registered files" : ", unregistered files"),
            fmt::format("{}", fmt::join(reasons, "; "))};
}

// Of sends that the kernel copies nothing for, and that say where it does all the same.
SystemFact zero_copy_fact(const utsname& name) {
    constexpr unsigned kSays = 6002;
    const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(io_uring_get_probe(),
                                                                                &io_uring_free_probe);
    const bool has = probe != nullptr && io_uring_opcode_supported(probe.get(), IORING_OP_SEND_ZC) != 0;
    if (has && kernel_version(name) >= kSays)
        return {"SEND_ZC", "ok", "long replies over tcp leave without a copy, where the way makes none", ""};
    return {"SEND_ZC", "limited", "replies over tcp are copied", "Linux 6.2, and an io_uring"};
}

SystemFact receive_fact() {
    constexpr std::uint64_t kWanted = 4 << 20;  // what sockets of datagrams are given where they may
    // It is tried, as a network namespace need not show the limit. The kernel tells twice of what it gives.
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int wanted = kWanted, given = 0;
    socklen_t size = sizeof given;
    const bool known = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted) == 0 &&
                       getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &given, &size) == 0;
    const int error = errno;
    if (fd >= 0) close(fd);
    if (!known) return {"receive buffers", "unknown", std::strerror(error), ""};
    const std::uint64_t bytes = static_cast<std::uint64_t>(given) / 2;
    const std::string detail = fmt::format("a socket of datagrams holds {} KiB of {} (net.core.rmem_max)",
                                           std::min(bytes, kWanted) >> 10, kWanted >> 10);
    if (bytes >= kWanted) return {"receive buffers", "ok", detail, ""};
    return {"receive buffers", "limited", detail,
            fmt::format("`sysctl net.core.rmem_max={}`: what has no room is dropped", kWanted)};
}

SystemFact huge_page_fact() {
    const std::string free = first_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if (!free.empty() && free != "0") return {"huge pages", "ok", free + " pages of 2 MiB are free", ""};
    constexpr std::size_t kTried = std::size_t{2} << 20;
    auto region = umem::Region::create(kTried, false);
    if (region) region->gather();
    if (region && region->in_huge_pages())
        return {"huge pages", "ok", "none is reserved; the kernel puts them together for block memory",
                "`sysctl vm.nr_hugepages=64` reserves 128 MiB of them, where memory is too much in pieces for that"};
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

// The least program there is, of the kind that chains' steps are: what capabilities a user namespace gives says
// nothing.
int load_program() {
    constexpr std::array<bpf_insn, 2> kReturn{
        bpf_insn{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = 0},
        bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
    bpf_prog_load_opts options{};
    options.sz = sizeof options;
    options.prog_flags = BPF_F_SLEEPABLE;
    const int fd =
        bpf_prog_load(BPF_PROG_TYPE_SYSCALL, "chainio_check", "GPL", kReturn.data(), kReturn.size(), &options);
    if (fd < 0) return -fd;
    close(fd);
    return 0;
}

SystemFact bpf_fact() {
    const int failed = load_program();
    const bool allowed = failed == 0;
    const std::string lockdown = first_line("/sys/kernel/security/lockdown");
    std::string detail = allowed ? "this process may load BPF programs"
                                 : fmt::format("this process may not load BPF programs: {}", std::strerror(failed));
    if (!lockdown.empty()) detail += "; lockdown: " + lockdown;
    return {"BPF (chainc --verify)", allowed ? "ok" : "limited", detail,
            allowed            ? ""
            : failed == EINVAL ? "Linux 5.14"
                               : "CAP_BPF (not in a user namespace), or run as root"};
}

SystemFact kernel_engine_fact() {
    const std::string obstacle = engine::kernel_engine_obstacle();
    if (obstacle.empty()) return {"kernel engine", "ok", "io_uring_bpf_ops: --engine=kernel runs call chains", ""};
    return {"kernel engine", "missing", obstacle, "the user engine runs every call chain"};
}

}  // namespace

std::vector<SystemFact> check_system(const std::vector<std::string>& interfaces) {
    utsname name{};
    uname(&name);
    std::vector<SystemFact> facts{kernel_fact(name)};
    std::vector<SystemFact> more;
    facts.push_back(ring_fact(more));
    facts.insert(facts.end(), more.begin(), more.end());
    facts.push_back(zero_copy_fact(name));
    facts.push_back(receive_fact());
    facts.push_back(huge_page_fact());
    facts.push_back(direct_fact(name));
    facts.push_back(native_fact());
    facts.push_back(bpf_fact());
    facts.push_back(xdp_fact());
    facts.push_back(programs_fact());
    for (const std::string& each : interfaces) facts.push_back(interface_fact(each));
    facts.push_back(kernel_engine_fact());
    return facts;
}

bool can_serve(const std::vector<SystemFact>& facts) {
    return std::ranges::none_of(facts, [](const SystemFact& fact) {
        return fact.state == "missing" && (fact.name == "io_uring" || fact.name.starts_with("interface "));
    });
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
