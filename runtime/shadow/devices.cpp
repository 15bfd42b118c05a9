#include "runtime/shadow/devices.h"

#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/shadow/clock.h"
#include "runtime/shadow/ranges.h"

namespace chainio::shadow {
namespace {

constexpr std::uint64_t kKindGoodFor = 1'000'000'000;  // ns

// Bytes; 0 where the kernel does not say. A partition has that of its disk, and what is no block device (FUSE, NFS) an
// entry among the backing devices.
std::uint64_t kernel_read_ahead(std::uint64_t device) {
    const std::string number = std::to_string(major(device)) + ":" + std::to_string(minor(device));
    const std::string block = "/sys/dev/block/" + number;
    for (const std::string& path : {"/sys/class/bdi/" + number + "/read_ahead_kb", block + "/queue/read_ahead_kb",
                                    block + "/../queue/read_ahead_kb"}) {
        std::uint64_t kib = 0;
        if (std::ifstream(path) >> kib) return kib * 1024;
    }
    return 0;
}

// Whether a read that need not wait is known there, so that the kernel begins it and comes back. Asked behind the
// file's end, where nothing is read. Elsewhere (FUSE, NFS) one who asks for many would wait for a few of them.
bool begins_reads(int fd, std::uint64_t size) {
    char byte = 0;
    const iovec nowhere{&byte, 1};
    const std::uint64_t behind = (size / kPageBytes + 1) * kPageBytes;
    return preadv2(fd, &nowhere, 1, static_cast<off_t>(behind), RWF_NOWAIT) >= 0 || errno == EAGAIN;
}

// Nothing of it lies on a disk, and to open or read it may change something: a look at a trace stops the trace, some
// counters begin anew.
bool of_a_made_system(int fd) {
    constexpr std::uint64_t kConfigFs = 0x62656570;
    constexpr std::uint64_t kThose[] = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,       DEBUGFS_MAGIC,  TRACEFS_MAGIC,
                                        SECURITYFS_MAGIC,    SELINUX_MAGIC,     SMACK_MAGIC,    CGROUP_SUPER_MAGIC,
                                        CGROUP2_SUPER_MAGIC, PSTOREFS_MAGIC,    EFIVARFS_MAGIC, BPF_FS_MAGIC,
                                        BINFMTFS_MAGIC,      XENFS_SUPER_MAGIC, kConfigFs};
    struct statfs system;
    return fstatfs(fd, &system) == 0 &&
           std::ranges::find(kThose, static_cast<std::uint64_t>(system.f_type)) != std::end(kThose);
}

}  // namespace

const Devices::Device* Devices::find(std::uint64_t number) const {
    const auto found = devices_.find(number);
    return found != devices_.end() ? &found->second : nullptr;
}

const Devices::Device& Devices::of(std::uint64_t number, int fd, std::uint64_t size) {
    const auto [at, is_new] = devices_.try_emplace(number);
    if (is_new) at->second = {kernel_read_ahead(number), begins_reads(fd, size)};
    return at->second;
}

bool Devices::made_when_read(std::uint64_t number, int fd) {
    const std::uint64_t now = now_ns();
    const auto known = stored_ns_.find(number);
    if (known != stored_ns_.end() && elapsed_ns(known->second, now) < kKindGoodFor) return false;
    if (of_a_made_system(fd)) return true;
    stored_ns_[number] = now;
    return false;
}

}  // namespace chainio::shadow
