#include "runtime/net/program.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

// The object of bpf-templates/chainio_xdp.bpf.c, put in by embed.S.
extern "C" const std::uint8_t chainio_xdp_object[], chainio_xdp_object_end[];

namespace chainio::net {
namespace {

constexpr std::size_t kMostPorts = 64, kMostAddresses = 64;  // of the maps in the program

Refusal refusal(const std::string& what, int error) {
    const auto why = error == EPERM || error == EACCES ? Refusal::Why::not_permitted : Refusal::Why::system;
    const char* remedy =
        why == Refusal::Why::not_permitted ? ": run as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF" : "";
    return {why, fmt::format("{}: {}{}", what, std::strerror(error), remedy)};
}

Refusal foreign(const Interface& interface, const AttachedProgram& program) {
    return {Refusal::Why::foreign_program,
            fmt::format("the XDP program '{}' (id {}) is attached to {}, and is not replaced: `ip link set dev {} xdp "
                        "off` removes it, or serve the port `via uring`",
                        program.name, program.id, interface.name, interface.name)};
}

int silent(libbpf_print_level, const char*, va_list) { return 0; }

}  // namespace

struct Program::State {
    bpf_object* object = nullptr;
    int link = -1;
    bool native = false;
    ~State() {
        if (link >= 0) close(link);
        if (object != nullptr) bpf_object__close(object);
    }
    int map(const char* name) const { return bpf_object__find_map_fd_by_name(object, name); }
    std::expected<void, Refusal> load(const Interface& interface);
    int attach(const Interface& interface, std::uint32_t flags);
};

std::expected<void, Refusal> Program::State::load(const Interface& interface) {
    // libbpf's own words would stand between the program's lines; its error code says enough.
    const auto before = libbpf_set_print(silent);
    const auto size = static_cast<std::size_t>(chainio_xdp_object_end - chainio_xdp_object);
    object = bpf_object__open_mem(chainio_xdp_object, size, nullptr);
    int failed = object == nullptr ? errno : 0;
    if (failed == 0) {
        bpf_map* constants = bpf_object__find_map_by_name(object, ".rodata");
        failed = constants == nullptr
                     ? EINVAL
                     : -bpf_map__set_initial_value(constants, interface.mac.data(), interface.mac.size());
    }
    if (failed == 0) failed = -bpf_object__load(object);
    libbpf_set_print(before);
    if (failed != 0) return std::unexpected(refusal("the kernel does not load the XDP program", failed));
    return {};
}

// 0 or the error's number.
int Program::State::attach(const Interface& interface, std::uint32_t flags) {
    bpf_link_create_opts options{};
    options.sz = sizeof options;
    options.flags = flags;
    bpf_program* program = bpf_object__find_program_by_name(object, "chainio_take");
    link = bpf_link_create(bpf_program__fd(program), static_cast<int>(interface.index), BPF_XDP, &options);
    return link >= 0 ? 0 : -link;
}

std::expected<Program, Refusal> Program::attach(const Interface& interface, Attach how) {
    const auto there = attached_program(interface);
    if (!there) return std::unexpected(Refusal{Refusal::Why::system, there.error()});
    if (*there) return std::unexpected(foreign(interface, **there));
    auto state = std::make_unique<State>();
    if (auto loaded = state->load(interface); !loaded) return std::unexpected(loaded.error());
    int failed = EOPNOTSUPP;
    if (how != Attach::generic) {
        failed = state->attach(interface, XDP_FLAGS_DRV_MODE);
        state->native = failed == 0;
    }
    if (failed != 0 && failed != EBUSY && how != Attach::native) failed = state->attach(interface, XDP_FLAGS_SKB_MODE);
    if (failed == 0) return Program(std::move(state));
    // Somebody was quicker: the kernel keeps what came first.
    if (const auto now = attached_program(interface); failed == EBUSY && now && *now)
        return std::unexpected(foreign(interface, **now));
    Refusal refused = refusal(fmt::format("the XDP program cannot be attached to {}{}", interface.name,
                                          how == Attach::native ? " in its driver" : ""),
                              failed);
    if (failed == EOPNOTSUPP) refused.why = Refusal::Why::unsupported;
    return std::unexpected(refused);
}

Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

int Program::sockets_map() const { return state_->map("sockets"); }
bool Program::native() const { return state_->native; }

std::expected<void, Refusal> Program::take(std::span<const std::uint16_t> ports, std::span<const Address> addresses,
                                           std::uint32_t longest_frame) {
    if (ports.size() > kMostPorts || addresses.size() > kMostAddresses)
        return std::unexpected(
            Refusal{Refusal::Why::unsupported,
                    fmt::format("an interface can have {} declared ports and {} addresses, not {} and {}", kMostPorts,
                                kMostAddresses, ports.size(), addresses.size())});
    const std::uint8_t yes = 1;
    for (const Address& address : addresses) {
        if (bpf_map_update_elem(state_->map("addresses"), address.data(), &yes, BPF_ANY) != 0)
            return std::unexpected(refusal("an address cannot be given to the XDP program", errno));
    }
    for (const std::uint16_t port : ports) {
        const std::uint16_t key = htons(port);
        if (bpf_map_update_elem(state_->map("ports"), &key, &yes, BPF_ANY) != 0)
            return std::unexpected(refusal("a port cannot be given to the XDP program", errno));
    }
    const std::uint32_t first = 0;
    if (bpf_map_update_elem(state_->map(".bss"), &first, &longest_frame, BPF_ANY) != 0)
        return std::unexpected(refusal("a frame's length cannot be given to the XDP program", errno));
    return {};
}

ProgramCounters Program::counters() const {
    const int processors = libbpf_num_possible_cpus();
    std::vector<std::uint64_t> each(static_cast<std::size_t>(std::max(processors, 1)));
    ProgramCounters sums;
    for (const std::uint32_t which : {0u, 1u}) {
        if (bpf_map_lookup_elem(state_->map("counters"), &which, each.data()) != 0) continue;
        for (const std::uint64_t count : each) (which == 0 ? sums.taken : sums.passed) += count;
    }
    return sums;
}

}  // namespace chainio::net
