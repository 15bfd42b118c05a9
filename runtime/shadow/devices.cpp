#include "runtime/shadow/devices.h"

#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/shadow/clock.h"
#include "runtime/shadow/ranges.h"

namespace chainio::shadow {
namespace {

constexpr std::uint64_t kKindGoodFor = 1'000'000'000;  // ns
constexpr std::uint64_t kUsualReadAhead = 128 * 1024;  // which the kernel gives everything unless told otherwise

struct System {
    std::uint64_t kind = 0, id = 0;
};

System system_of(int fd) {
    struct statfs system;
    if (fstatfs(fd, &system) != 0) return {};
    std::uint64_t id = 0;
    static_assert(sizeof id == sizeof system.f_fsid);
    std::memcpy(&id, &system.f_fsid, sizeof id);
    return {static_cast<std::uint64_t>(system.f_type), id};
}

// Bytes. A partition has that of its disk, and what is no block device (FUSE, NFS) an entry among the backing devices.
// The numbers of others (overlayfs, btrfs) lead nowhere: the disk below them is not found by these, nor by anything
// that a container shows. Memory is not read ahead.
std::uint64_t kernel_read_ahead(std::uint64_t device, std::uint64_t kind) {
    const std::string number = std::to_string(major(device)) + ":" + std::to_string(minor(device));
    const std::string block = "/sys/dev/block/" + number;
    for (const std::string& path : {"/sys/class/bdi/" + number + "/read_ahead_kb", block + "/queue/read_ahead_kb",
                                    block + "/../queue/read_ahead_kb"}) {
        std::uint64_t kib = 0;
        if (std::ifstream(path) >> kib) return kib * 1024;
    }
    return kind == TMPFS_MAGIC || kind == RAMFS_MAGIC ? 0 : kUsualReadAhead;
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
bool is_made(std::uint64_t kind) {
    constexpr std::uint64_t kConfigFs = 0x62656570;
    constexpr std::uint64_t kThose[] = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,       DEBUGFS_MAGIC,  TRACEFS_MAGIC,
                                        SECURITYFS_MAGIC,    SELINUX_MAGIC,     SMACK_MAGIC,    CGROUP_SUPER_MAGIC,
                                        CGROUP2_SUPER_MAGIC, PSTOREFS_MAGIC,    EFIVARFS_MAGIC, BPF_FS_MAGIC,
                                        BINFMTFS_MAGIC,      XENFS_SUPER_MAGIC, kConfigFs};
    return std::ranges::find(kThose, kind) != std::end(kThose);
}

}  // namespace

const Devices::Device* Devices::find(std::uint64_t number) const {
    const auto found = devices_.find(number);
    return found != devices_.end() ? &found->second : nullptr;
}

const Devices::Device& Devices::of(std::uint64_t number, int fd, std::uint64_t size) {
    const auto [at, is_new] = devices_.try_emplace(number);
    if (!is_new) return at->second;
    const auto known = kinds_.find(number);
    const std::uint64_t kind = known != kinds_.end() ? known->second.kind : system_of(fd).kind;
    const bool begins = begins_reads(fd, size);
    // FUSE may leave a file's reads and pages to another one, and lets nobody begin a read.
    at->second = {kernel_read_ahead(number, kind), begins, begins && kind != OVERLAYFS_SUPER_MAGIC};
    return at->second;
}

bool Devices::made_when_read(std::uint64_t number, int fd) {
    const std::uint64_t now = now_ns();
    const auto known = kinds_.find(number);
    if (known != kinds_.end() && elapsed_ns(known->second.looked_ns, now) < kKindGoodFor) return false;
    const auto [kind, id] = system_of(fd);
    if (is_made(kind)) return true;
    // What is known is of another one that had the number.
    if (known != kinds_.end() && (known->second.kind != kind || known->second.id != id)) forget(number);
    kinds_[number] = {kind, id, now};
    return false;
}

// Those behind it move up: whether there is any disk, programs see by the first.
void Devices::forget(std::uint64_t number) {
    devices_.erase(number);
    auto to = told_.begin();
    for (shim::DiskFacts& disk : told_) {
        const std::uint64_t device = disk.device;
        if (device == number) continue;
        to->longest = disk.longest.load();
        to++->device = device;
    }
    for (; to != told_.end(); to++) to->device = 0;
}

}  // namespace chainio::shadow
