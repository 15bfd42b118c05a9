#include "runtime/net/program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/net/dispatcher.h"
#include "runtime/net/shortage.h"
#include "runtime/net/taken.h"

// The object of bpf-templates/chainio_xdp.bpf.c, put in by embed.cpp.
extern "C" const std::uint8_t chainio_xdp_object[], chainio_xdp_object_end[];

namespace chainio::net {
namespace {

constexpr const char *kTake = "chainio_take", *kHand = "chainio_hand";  // the program's two forms
constexpr std::size_t kMostPorts = CIO_XDP_SERVICES, kMostAddresses = CIO_XDP_ADDRESSES;

// A signal, or whoever stops the process, ends the kernel's look at a program, which libbpf begins anew some times.
bool is_for_now(int error) { return lacks_descriptor(error) || error == EAGAIN; }

Refusal refusal(const std::string& what, int error) {
    const auto why = error == EPERM || error == EACCES ? Refusal::Why::not_permitted : Refusal::Why::system;
    const char* remedy = why == Refusal::Why::not_permitted
                             ? ": run as root, or with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON"
                             : "";
    return {why, fmt::format("{}: {}{}", what, std::strerror(error), remedy), is_for_now(error)};
}

Refusal foreign(const Interface& interface, const AttachedProgram& program) {
    // Ours hangs on a link, which ends with the process that holds it and not otherwise.
    const bool ours = program.name == kTake || program.name == kHand;
    const std::string remedy =
        ours ? "another runtime of ours serves there until it ends: have one serve both"
             : fmt::format("`ip link set dev {} xdp off` removes it, or the end of who holds it by a link",
                           interface.name);
    return {Refusal::Why::foreign_program,
            fmt::format("the XDP program '{}' (id {}) is attached to {}, and is not replaced: {}, or serve the port "
                        "`via uring`",
                        program.name, program.id, interface.name, remedy)};
}

// What libxdp has attached there, and whose programs have to stay.
Refusal not_joined(const Interface& interface, const std::string& names, int error) {
    return {
        Refusal::Why::foreign_program,
        fmt::format("libxdp's dispatcher on {}, which calls {}, does not take the XDP program: {}; it is not replaced: "
                    "serve the port `via uring`",
                    interface.name, names, std::strerror(error))};
}

// The caller tries again without what is to be kept.
Refusal not_kept(const Interface& interface, int error) {
    const std::string named = fmt::format("libxdp's dispatcher on {} takes no program here that ", interface.name);
    if (error == EINVAL) return {Refusal::Why::system, named + "makes packets longer (that of libxdp 1.5 does)"};
    return {Refusal::Why::system, fmt::format("{}keeps replies: {}", named, std::strerror(error))};
}

// Nothing where nothing is attached. A program that is attached without a dispatcher is not to be replaced.
std::expected<std::optional<Dispatched>, Refusal> dispatcher_there(const Interface& interface) {
    const auto there = attached_program(interface);
    if (!there) return std::unexpected(Refusal{Refusal::Why::system, there.error().message, there.error().unasked});
    if (!*there) return std::nullopt;
    auto found = dispatched(interface);
    if (!found) return std::unexpected(foreign(interface, **there));
    return found;
}

// An array map as memory that both sides see.
struct Mapped {
    void* at = MAP_FAILED;
    std::size_t size = 0;
    Mapped() = default;
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    ~Mapped() {
        if (at != MAP_FAILED) munmap(at, size);
    }
    bool map(int fd, std::size_t bytes) {
        if (at != MAP_FAILED) munmap(at, size);
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        size = (bytes + page - 1) / page * page;
        at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return at != MAP_FAILED;
    }
};

int silent(libbpf_print_level, const char*, va_list) { return 0; }

}  // namespace

Refusal too_many() {
    return {Refusal::Why::unsupported,
            fmt::format("at most {} declared ports and {} addresses of an interface can be taken, and there are more",
                        kMostPorts, kMostAddresses)};
}

struct Program::State {
    bpf_object* object = nullptr;
    std::optional<Claim> claim;  // where it is shared
    std::optional<Place> place;
    int link = -1;  // where it is not
    bool native = false;
    int processors = 0;  // each has a count; how many they are might not be found out later
    std::string alone;
    cio_xdp_constants constants{};
    cio_xdp_settings settings{};
    ReplyTable replies;
    Mapped sets, places, epochs, paths;
    ~State() { unload(); }
    void unload();
    int map(const char* name) const { return bpf_object__find_map_fd_by_name(object, name); }
    std::uint64_t count(const char* name, std::uint32_t which) const;
    int open(const Interface& interface, const char* program, bool shared);
    std::expected<void, Refusal> load(const Interface& interface);
    int prepare(const Interface& interface);
    int share_memory();
    int set();
    int attach(const Interface& interface, std::uint32_t flags);
    std::expected<void, Refusal> attach_alone(const Interface& interface, Attach how);
    int attach_shared(const Interface& interface, bool in_driver);
    std::expected<bool, Refusal> share(const Interface& interface, Attach how, bool wanted);
};

void Program::State::unload() {
    place.reset();
    if (link >= 0) close(std::exchange(link, -1));
    if (object != nullptr) bpf_object__close(std::exchange(object, nullptr));
}

// 0 or the error's number, here and below.
int Program::State::prepare(const Interface& interface) {
    processors = libbpf_num_possible_cpus();
    if (processors < 0) return -processors;
    std::ranges::copy(interface.mac, constants.own_mac);
    constants.ordered = CIO_XDP_ORDERED;
    if (getrandom(&constants.seed, sizeof constants.seed, 0) != sizeof constants.seed) return errno;
    bpf_map* rodata = bpf_object__find_map_by_name(object, ".rodata");
    if (rodata == nullptr) return EINVAL;
    int failed = -bpf_map__set_initial_value(rodata, &constants, sizeof constants);
    for (const auto& [name, count] :
         {std::pair{"kept_sets", replies.sets()}, {"kept_places", replies.sets() * CIO_KEPT_WAYS}}) {
        if (failed == 0) failed = -bpf_map__set_max_entries(bpf_object__find_map_by_name(object, name), count);
    }
    return failed;
}

int Program::State::share_memory() {
    const std::size_t count = replies.sets();
    if (!sets.map(map("kept_sets"), count * sizeof(cio_kept_set)) ||
        !places.map(map("kept_places"), count * CIO_KEPT_WAYS * sizeof(cio_kept_place)) ||
        !epochs.map(map("kept_epochs"), kMostPorts * sizeof(cio_kept_epoch)) ||
        !paths.map(map("paths"), CIO_PATHS * sizeof(cio_path)))
        return errno;
    replies.use({.sets = {static_cast<cio_kept_set*>(sets.at), count},
                 .places = {static_cast<cio_kept_place*>(places.at), count * CIO_KEPT_WAYS},
                 .epochs = {static_cast<cio_kept_epoch*>(epochs.at), kMostPorts}},
                constants.seed);
    return 0;
}

int Program::State::set() {
    const std::uint32_t first = 0;
    return bpf_map_update_elem(map(".bss"), &first, &settings, BPF_ANY) == 0 ? 0 : errno;
}

int Program::State::open(const Interface& interface, const char* program, bool shared) {
    unload();
    constants.outlives = shared ? 1 : 0;
    const auto size = static_cast<std::size_t>(chainio_xdp_object_end - chainio_xdp_object);
    object = bpf_object__open_mem(chainio_xdp_object, size, nullptr);
    if (object == nullptr) return errno;
    bpf_program* each = nullptr;
    bpf_object__for_each_program(each, object)
        bpf_program__set_autoload(each, std::string_view(program) == bpf_program__name(each));
    return prepare(interface);
}

std::expected<void, Refusal> Program::State::load(const Interface& interface) {
    // libbpf's own words would stand between the program's lines; its error code says enough.
    const auto before = libbpf_set_print(silent);
    int failed = open(interface, kTake, false);
    if (failed == 0) failed = -bpf_object__load(object);
    if (failed == 0) failed = share_memory();
    libbpf_set_print(before);
    if (failed != 0) return std::unexpected(refusal("the kernel does not load the XDP program", failed));
    return {};
}

int Program::State::attach(const Interface& interface, std::uint32_t flags) {
    bpf_link_create_opts options{};
    options.sz = sizeof options;
    options.flags = flags;
    bpf_program* program = bpf_object__find_program_by_name(object, kTake);
    link = bpf_link_create(bpf_program__fd(program), static_cast<int>(interface.index), BPF_XDP, &options);
    return link >= 0 ? 0 : -link;
}

std::expected<void, Refusal> Program::State::attach_alone(const Interface& interface, Attach how) {
    if (auto loaded = load(interface); !loaded) return loaded;
    int failed = EOPNOTSUPP;
    if (how != Attach::generic && !runs_on_members(interface)) {
        failed = attach(interface, XDP_FLAGS_DRV_MODE);
        native = failed == 0;
    }
    if (failed != 0 && failed != EBUSY && how != Attach::native) failed = attach(interface, XDP_FLAGS_SKB_MODE);
    if (failed == 0) return {};
    // Somebody was quicker: the kernel keeps what came first.
    if (const auto now = attached_program(interface); failed == EBUSY && now && *now)
        return std::unexpected(foreign(interface, **now));
    Refusal refused = refusal(fmt::format("the XDP program cannot be attached to {}{}", interface.name,
                                          how == Attach::native ? " in its driver" : ""),
                              failed);
    if (failed == ENOSPC)
        refused.message +=
            ": it has too few queues (a veth wants as many to receive as its peer has to send): give it "
            "more (`ethtool -L`), or take the generic program (--xdp-attach generic)";
    if (failed == EOPNOTSUPP) refused.why = Refusal::Why::unsupported;
    return std::unexpected(refused);
}

int Program::State::attach_shared(const Interface& interface, bool in_driver) {
    const char* program = replies.keeps_any() ? kTake : kHand;
    const int failed = open(interface, program, true);
    if (failed != 0) return failed;
    auto taken = Place::take(object, program, interface, in_driver);
    if (!taken) return taken.error();
    place.emplace(std::move(*taken));
    native = in_driver;
    return share_memory();
}

// Whether it is attached beside others: where a dispatcher is there, or, if that is wanted, with one of our own. False:
// it is not attached, and nothing else is.
std::expected<bool, Refusal> Program::State::share(const Interface& interface, Attach how, bool wanted) {
    auto there = dispatcher_there(interface);
    if (!there) return std::unexpected(there.error());
    if (!*there && !wanted) return false;
    claim = Claim::take(interface);
    if (!claim && lacks_descriptor(errno))
        return std::unexpected(
            refusal("cannot ask whether another process of ChainIO has its XDP program there", errno));
    if (!claim)
        return std::unexpected(
            Refusal{Refusal::Why::foreign_program,
                    fmt::format("another process of ChainIO has its XDP program on {}: serve the port `via uring`, or "
                                "end that one",
                                interface.name)});
    if (*there && (*there)->ours != 0) {
        take_out(interface, *claim);
        there = dispatcher_there(interface);
        if (!there) return std::unexpected(there.error());
        if (!*there && !wanted) return false;
    }
    int failed = EOPNOTSUPP;
    const bool may_native = how != Attach::generic && !runs_on_members(interface) && (!*there || (*there)->native);
    const bool may_generic = how != Attach::native && (!*there || !(*there)->native);
    if (may_native) failed = attach_shared(interface, true);
    if (failed != 0 && may_generic) failed = attach_shared(interface, false);
    if (failed == 0) return true;
    unload();
    if (is_for_now(failed))
        return std::unexpected(refusal("the XDP program cannot be attached beside those of others", failed));
    if (replies.keeps_any() && (*there || failed == EINVAL)) return std::unexpected(not_kept(interface, failed));
    if (*there) return std::unexpected(not_joined(interface, (*there)->names, failed));
    alone = failed == EOPNOTSUPP ? "the kernel lets no program replace another's function (freplace), or no bpffs is "
                                   "mounted at /sys/fs/bpf"
                                 : std::strerror(failed);
    return false;
}

std::expected<Program, Refusal> Program::attach(const Interface& interface, Attach how, bool share,
                                                ReplyTable replies) {
    if (replies.services() > kMostPorts) return std::unexpected(too_many());  // as many epochs does the program have
    if (how == Attach::native && runs_on_members(interface))
        return std::unexpected(
            Refusal{Refusal::Why::unsupported,
                    fmt::format("the driver of {0} runs XDP programs on its members, whose packets reach no socket of "
                                "{0}: take the generic program (--xdp-attach generic)",
                                interface.name)});
    auto state = std::make_unique<State>();
    state->replies = std::move(replies);
    const auto shared = state->share(interface, how, share);
    if (!shared) return std::unexpected(shared.error());
    if (!*shared) {
        state->claim.reset();
        if (auto attached = state->attach_alone(interface, how); !attached) return std::unexpected(attached.error());
    }
    return Program(std::move(state));
}

Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

int Program::sockets_map() const { return state_->map("sockets"); }
bool Program::native() const { return state_->native; }
bool Program::shared() const { return state_->place.has_value(); }
const std::string& Program::alone() const { return state_->alone; }

std::expected<void, Refusal> Program::take(std::span<const std::uint16_t> ports, std::span<const Address> addresses,
                                           std::span<const Address> others, std::uint32_t longest_frame) {
    if (ports.size() > kMostPorts || addresses.size() > kMostAddresses) return std::unexpected(too_many());
    for (std::uint32_t place = 0; place < ports.size(); place++) {
        const cio_kept_service service = state_->replies.service_at(ports[place]);
        if (bpf_map_update_elem(state_->map("services"), &place, &service, BPF_ANY) != 0)
            return std::unexpected(refusal("a service cannot be given to the XDP program", errno));
    }
    const std::uint32_t first = 0;
    if (bpf_map_update_elem(state_->map("taken"), &first, net::taken(ports, addresses, others).get(), BPF_ANY) != 0)
        return std::unexpected(refusal("ports and addresses cannot be given to the XDP program", errno));
    state_->settings.longest_frame = longest_frame;
    if (const int failed = state_->set(); failed != 0)
        return std::unexpected(refusal("a frame's length cannot be given to the XDP program", failed));
    return {};
}

// The sum over all processors.
std::uint64_t Program::State::count(const char* name, std::uint32_t which) const {
    std::vector<std::uint64_t> each(static_cast<std::size_t>(processors));
    if (bpf_map_lookup_elem(map(name), &which, each.data()) != 0) return 0;
    return std::accumulate(each.begin(), each.end(), std::uint64_t{0});
}

ProgramCounters Program::counters() const {
    return {.taken = state_->count("counters", 0), .passed = state_->count("counters", 1)};
}

ReplyTable& Program::replies() { return state_->replies; }

std::span<cio_path> Program::paths() const { return {static_cast<cio_path*>(state_->paths.at), CIO_PATHS}; }
std::uint64_t Program::seed() const { return state_->constants.seed; }

KeptCounters Program::kept(std::size_t service) const {
    const auto count = [&](cio_kept_count what) {
        return state_->count("kept_counts", static_cast<std::uint32_t>(service * CIO_KEPT_COUNTS + what));
    };
    return {.hits = count(CIO_KEPT_HIT),
            .misses = count(CIO_KEPT_MISS),
            .stale = count(CIO_KEPT_STALE),
            .no_room = count(CIO_KEPT_NO_ROOM),
            .kept = state_->replies.kept(service)};
}

void Program::answer(cio_xdp_answering how) {
    state_->settings.answering = how;
    state_->set();
}

}  // namespace chainio::net
