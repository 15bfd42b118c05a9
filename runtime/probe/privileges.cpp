#include "runtime/probe/privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace chainio::probe {
namespace {

struct Capabilities {
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    bool read() { return syscall(SYS_capget, &head, data) == 0; }
    bool write() { return syscall(SYS_capset, &head, data) == 0; }
    bool has(unsigned number) const { return (data[number / 32].effective >> (number % 32) & 1) != 0; }
    void remove(unsigned number) {
        const std::uint32_t keep = ~(std::uint32_t{1} << (number % 32));
        data[number / 32].effective &= keep;
        data[number / 32].permitted &= keep;
        data[number / 32].inheritable &= keep;
    }
};

// Where users are numbered as outside of all namespaces there is none of ours.
bool is_in_user_namespace() {
    const int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    char map[64]{};
    const ssize_t got = read(fd, map, sizeof map - 1);
    close(fd);
    char* at = map;
    const unsigned long inside = strtoul(at, &at, 10), outside = strtoul(at, &at, 10), count = strtoul(at, &at, 10);
    return got > 0 && (inside != 0 || outside != 0 || count != UINT32_MAX);
}

std::string reason(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

}  // namespace

std::string missing_privileges() {
    Capabilities mine;
    if (!mine.read()) return reason("cannot read this process's capabilities");
    std::string missing;
    if (!mine.has(CAP_BPF)) missing = "CAP_BPF";
    if (!mine.has(CAP_PERFMON)) missing += missing.empty() ? "CAP_PERFMON" : " and CAP_PERFMON";
    if (missing.empty() || mine.has(CAP_SYS_ADMIN))
        return is_in_user_namespace()
                   ? "attaching probes needs CAP_BPF and CAP_PERFMON, and those of a user namespace, "
                     "as of a container, do not count; run as root outside of it"
                   : "";
    return "attaching probes needs " + missing + "; run as root, or once: setcap cap_bpf,cap_perfmon+ep on chainio-run";
}

std::expected<void, std::string> drop_privileges() {
    Capabilities mine;
    if (!mine.read()) return std::unexpected(reason("cannot read this process's capabilities"));
    for (unsigned number : {CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN}) mine.remove(number);
    if (!mine.write()) return std::unexpected(reason("cannot give up capabilities"));
    return {};
}

}  // namespace chainio::probe
