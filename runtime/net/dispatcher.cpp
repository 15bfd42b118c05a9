#include "runtime/net/dispatcher.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace chainio::net {
namespace {

constexpr std::string_view kOurs[] = {"chainio_take", "chainio_hand"};  // of bpf-templates/chainio_xdp.bpf.c
// Others have 50 when they say nothing: a filter among them sees each packet before it is taken.
constexpr unsigned kPriority = 60;
constexpr int kMostPrograms = 10;  // of a dispatcher

int silent(libxdp_print_level, const char*, va_list) { return 0; }
int silent_too(libbpf_print_level, const char*, va_list) { return 0; }

// Their words would stand between the program's own lines; their error codes say enough.
class Quiet {
  public:
    Quiet() : xdp_(libxdp_set_print(silent)), bpf_(libbpf_set_print(silent_too)) {}
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
    ~Quiet() {
        libxdp_set_print(xdp_);
        libbpf_set_print(bpf_);
    }

  private:
    libxdp_print_fn_t xdp_;
    libbpf_print_fn_t bpf_;
};

bool is_ours(const xdp_program* program) { return std::ranges::count(kOurs, xdp_program__name(program)) != 0; }

// What is attached to an interface, as libxdp sees it.
class Attached {
  public:
    explicit Attached(unsigned index) : all_(xdp_multiprog__get_from_ifindex(static_cast<int>(index))) {
        if (libxdp_get_error(all_) != 0) all_ = nullptr;
    }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
    ~Attached() { xdp_multiprog__close(all_); }
    bool dispatcher() const { return all_ != nullptr && !xdp_multiprog__is_legacy(all_); }
    bool native() const { return xdp_multiprog__attach_mode(all_) == XDP_MODE_NATIVE; }
    xdp_program* next(xdp_program* before) const { return xdp_multiprog__next_prog(before, all_); }
    xdp_program* find_ours() const {
        for (xdp_program* each = next(nullptr); each != nullptr; each = next(each))
            if (is_ours(each)) return each;
        return nullptr;
    }

  private:
    xdp_multiprog* all_;
};

xdp_attach_mode mode_of(bool native) { return native ? XDP_MODE_NATIVE : XDP_MODE_SKB; }

}  // namespace

std::optional<Claim> Claim::take(const Interface& interface) {
    Claim claim(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // A name that is no file: it is the network namespace's, and goes with the socket.
    const std::string name = fmt::format("chainio-xdp-{}", interface.index);
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (claim.fd_ < 0 || bind(claim.fd_, reinterpret_cast<const sockaddr*>(&address), size) != 0) return std::nullopt;
    return claim;
}

Claim::~Claim() {
    if (fd_ >= 0) close(fd_);
}

std::optional<Dispatched> dispatched(const Interface& interface) {
    const Quiet quiet;
    const Attached attached(interface.index);
    if (!attached.dispatcher()) return std::nullopt;
    Dispatched found;
    found.native = attached.native();
    for (xdp_program* each = attached.next(nullptr); each != nullptr; each = attached.next(each)) {
        if (is_ours(each))
            found.ours++;
        else
            found.names += fmt::format("{}'{}'", found.names.empty() ? "" : ", ", xdp_program__name(each));
    }
    return found;
}

void take_out(const Interface& interface, const Claim&) {
    const Quiet quiet;
    for (int turn = 0; turn < kMostPrograms; turn++) {
        const Attached attached(interface.index);
        xdp_program* left = attached.dispatcher() ? attached.find_ours() : nullptr;
        const int index = static_cast<int>(interface.index);
        if (left == nullptr || xdp_program__detach(left, index, mode_of(attached.native()), 0) != 0) return;
    }
}

std::expected<Place, int> Place::take(bpf_object* object, const char* name, const Interface& interface, bool native) {
    const Quiet quiet;
    xdp_program_opts options{};
    options.sz = sizeof options;
    options.obj = object;
    options.prog_name = name;
    xdp_program* program = xdp_program__create(&options);
    if (const long failed = libxdp_get_error(program); failed != 0) return std::unexpected(static_cast<int>(-failed));
    // libbpf knows from the section's name only while it loads that packets of several frames are taken.
    int failed = -xdp_program__set_xdp_frags_support(program, true);
    if (failed == 0) failed = -xdp_program__set_run_prio(program, kPriority);
    if (failed == 0) failed = -xdp_program__attach(program, static_cast<int>(interface.index), mode_of(native), 0);
    if (failed != 0) {
        xdp_program__close(program);
        return std::unexpected(failed);
    }
    // Where there can be no dispatcher libxdp attaches the program alone; nothing would take it away with the process.
    Place place(program, interface.index, native);
    if (!Attached(interface.index).dispatcher()) return std::unexpected(EOPNOTSUPP);
    return place;
}

Place::~Place() {
    if (program_ == nullptr) return;
    const Quiet quiet;
    // With the interface, all that was attached to it is gone; what libxdp has pinned for it is not.
    const int index = static_cast<int>(index_);
    if (xdp_program__detach(program_, index, mode_of(native_), 0) != 0) libxdp_clean_references(index);
    xdp_program__close(program_);
}

}  // namespace chainio::net
