#include "tools/chainio-runtime/check_xdp.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/interface.h"
#include "runtime/net/port.h"

namespace chainio::runtime_tool {
namespace {

constexpr unsigned kSeconds = 30;

// A request to the kernel's network configuration, put together attribute by attribute.
class LinkRequest {
  public:
    LinkRequest() {
        header()->nlmsg_len = NLMSG_SPACE(sizeof(ifinfomsg));
        header()->nlmsg_type = RTM_NEWLINK;
        header()->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
        static_cast<ifinfomsg*>(NLMSG_DATA(header()))->ifi_flags = IFF_UP;
        static_cast<ifinfomsg*>(NLMSG_DATA(header()))->ifi_change = IFF_UP;
    }
    std::size_t begin(std::uint16_t type, const void* data = nullptr, std::size_t size = 0) {
        const std::size_t at = header()->nlmsg_len;
        auto* attribute = reinterpret_cast<rtattr*>(bytes_.data() + at);
        attribute->rta_type = type;
        attribute->rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size));
        if (size != 0) std::memcpy(RTA_DATA(attribute), data, size);
        header()->nlmsg_len += static_cast<std::uint32_t>(RTA_SPACE(size));
        return at;
    }
    void text(std::uint16_t type, const char* words) { begin(type, words, std::strlen(words) + 1); }
    void end(std::size_t at) {
        reinterpret_cast<rtattr*>(bytes_.data() + at)->rta_len = static_cast<std::uint16_t>(header()->nlmsg_len - at);
    }
    // 0 or the error's number.
    int ask() {
        const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        if (fd < 0) return errno;
        alignas(nlmsghdr) std::array<char, 1024> answer{};
        int failed = EIO;
        if (send(fd, bytes_.data(), header()->nlmsg_len, 0) >= 0 &&
            recv(fd, answer.data(), answer.size(), 0) >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr))))
            failed = -static_cast<nlmsgerr*>(NLMSG_DATA(reinterpret_cast<nlmsghdr*>(answer.data())))->error;
        close(fd);
        return failed;
    }

  private:
    nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(bytes_.data()); }
    alignas(nlmsghdr) std::array<char, 1024> bytes_{};
};

// `ip link add chainio0 up type veth peer name chainio1`, without needing that program.
int make_pair() {
    LinkRequest request;
    request.text(IFLA_IFNAME, "chainio0");
    const std::size_t info = request.begin(IFLA_LINKINFO);
    request.text(IFLA_INFO_KIND, "veth");
    const std::size_t data = request.begin(IFLA_INFO_DATA);
    const ifinfomsg as_it_is{};  // the kernel makes it first, and it cannot go up alone
    const std::size_t peer = request.begin(VETH_INFO_PEER, &as_it_is, sizeof as_it_is);
    request.text(IFLA_IFNAME, "chainio1");
    request.end(peer);
    request.end(data);
    request.end(info);
    return request.ask();
}

// What came of it: the first letter, and what is said behind it.
constexpr char kOk = '+', kMissing = '-', kUntried = '?';

// What an AF_XDP socket on such a pair is, or why there is none. In a process that is about to end: its namespace goes
// with it.
std::string try_it() {
    if (unshare(CLONE_NEWNET) != 0)
        return kUntried + std::string("no network namespace to try it in: ") + std::strerror(errno);
    if (const int failed = make_pair(); failed != 0)
        return kUntried + std::string("no pair of interfaces to try it on: ") + std::strerror(failed);
    auto region = umem::Region::create(std::size_t{4} << 20, true);
    if (!region) return kMissing + region.error();
    umem::Slab slab(std::move(*region));
    metrics::Fallbacks fallbacks;
    auto port = net::Port::open({.interface = "chainio0", .ports = {9}, .entries = 64}, slab, fallbacks);
    return port ? kOk + (*port)->describe() : kMissing + port.error().message;
}

std::string driver_modes(const net::Interface& interface) {
    if (net::runs_on_members(interface)) return "generic XDP, as its driver runs programs on its members";
    const auto features = net::driver_features(interface);
    if (!features) return "modes unknown";
    if ((*features & net::kBasicFeature) == 0) return "generic XDP, or native where the driver does not say so";
    return (*features & net::kZeroCopyFeature) != 0 ? "native XDP, zero-copy" : "native XDP, copy";
}

std::string program_text(const net::AttachedProgram& program) {
    return fmt::format("'{}' (id {}{})", program.name, program.id, program.generic ? ", generic" : "");
}

constexpr const char* kBeside =
    "libxdp's dispatcher is joined; beside another program nothing is taken, and services are served by sockets";

}  // namespace

SystemFact interface_fact(const std::string& name) {
    SystemFact fact{fmt::format("interface {}", name), "ok", "", ""};
    const auto interface = net::find_interface(name);
    if (!interface) {
        fact.state = "missing";
        fact.detail = interface.error().message;
        fact.remedy = "a daemon takes it once it is there";
        return fact;
    }
    if (interface->loopback || !interface->ethernet) {
        fact.state = "missing";
        fact.detail = interface->loopback ? "what this machine sends to itself" : "its packets are no Ethernet";
        fact.remedy = "give the interface that clients come by; there services `via xdp` are served by sockets";
        return fact;
    }
    fact.detail =
        fmt::format("{}, {}, {} queue{}, MTU {}, {}", interface->driver, interface->up ? "up" : "down",
                    interface->queues, interface->queues == 1 ? "" : "s", interface->mtu, driver_modes(*interface));
    const auto program = net::attached_program(*interface);
    if (!program || *program) {
        fact.state = "limited";
        fact.detail += program ? fmt::format("; the XDP program {} is there", program_text(**program))
                               : fmt::format("; {}", program.error().message);
        fact.remedy = kBeside;
    } else if (!interface->up) {
        fact.state = "limited";
        fact.remedy = fmt::format("`ip link set {} up`", name);
    }
    return fact;
}

SystemFact programs_fact() {
    std::vector<std::string> found;
    std::string unknown;
    const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(), &if_freenameindex);
    if (all == nullptr) return {"XDP programs", "unknown", std::strerror(errno), ""};
    for (const auto* each = all.get(); each != nullptr && each->if_index != 0; each++) {
        net::Interface interface;
        interface.name = each->if_name;
        interface.index = each->if_index;
        const auto program = net::attached_program(interface);
        if (!program) unknown = fmt::format("{} cannot be asked: {}", each->if_name, program.error().message);
        if (program && *program) found.push_back(fmt::format("{}: {}", each->if_name, program_text(**program)));
    }
    if (found.empty() && !unknown.empty()) return {"XDP programs", "unknown", unknown, ""};
    if (found.empty()) return {"XDP programs", "ok", "no interface has one", ""};
    return {"XDP programs", "limited", fmt::format("{}", fmt::join(found, ", ")), kBeside};
}

SystemFact xdp_fact() {
    const auto missing = [](const std::string& detail) {
        return SystemFact{"AF_XDP", "missing", detail, "services `via uring` need none of it"};
    };
    std::array<int, 2> answer{};
    if (pipe2(answer.data(), O_CLOEXEC) != 0) return missing(std::strerror(errno));
    std::fflush(nullptr);
    const pid_t child = fork();
    const int failed = errno;
    if (child == 0) {
        alarm(kSeconds);  // a driver that does not come back must not keep the other rows
        const std::string line = try_it();
        _exit(write(answer[1], line.data(), line.size()) < 0 ? 1 : 0);
    }
    close(answer[1]);
    std::array<char, 1024> said{};
    const ssize_t got = child < 0 ? 0 : read(answer[0], said.data(), said.size());
    close(answer[0]);
    if (child > 0) waitpid(child, nullptr, 0);
    if (child < 0) return missing(std::string("no process to try it in: ") + std::strerror(failed));
    if (got < 1) return missing("the process that tried it ended without an answer");
    const std::string detail(said.data() + 1, static_cast<std::size_t>(got - 1));
    if (said[0] == kOk) return {"AF_XDP", "ok", detail, ""};
    if (said[0] == kMissing) return missing(detail);
    return {"AF_XDP", "unknown", detail,
            "run this as root, with veth in the kernel; services `via xdp` need less than the trial: CAP_NET_ADMIN, "
            "CAP_NET_RAW, CAP_BPF and CAP_PERFMON"};
}

}  // namespace chainio::runtime_tool
