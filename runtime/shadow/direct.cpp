#include "runtime/shadow/direct.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "runtime/engine/alignment.h"
#include "runtime/engine/files.h"
#include "runtime/shadow/stamps.h"

namespace chainio::shadow {
Direct::Direct(shim::Region& region, const std::string& region_path, std::uint64_t bytes)
    : region_(region), path_(region_path.substr(0, region_path.rfind('/')) + shim::kServedFile), bytes_(bytes) {}

bool Direct::refuse(Why why) {
    whys_[static_cast<std::size_t>(why)]++;
    return false;
}

bool Direct::make_memory() {
    if (memory_) return true;
    if (bytes_ == 0) return refuse(Why::off);
    if (!no_memory_.empty()) return refuse(Why::no_memory);
    auto made = ServedMemory::create(path_, bytes_);
    if (!made) {
        no_memory_ = made.error();
        return refuse(Why::no_memory);
    }
    memory_ = std::move(*made);
    region_.served.store(memory_->bytes(), std::memory_order_release);
    return true;
}

// The same file once more, whatever its name is by now.
bool Direct::open(ShadowFile& file) {
    if (file.direct_fd >= 0) return true;
    const std::string path = "/proc/self/fd/" + std::to_string(file.fd);
    const int times = fcntl(file.fd, F_GETFL) & O_NOATIME;
    file.direct_fd = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | times);
    if (file.direct_fd < 0) return refuse(Why::cannot_open);
    engine::let_reads_wait(file.direct_fd);
    return true;
}

bool Direct::ready(ShadowFile& file) {
    if (!make_memory() || !open(file)) return false;
    struct stat info{};
    if (fstat(file.direct_fd, &info) != 0) return refuse(Why::cannot_open);
    const std::uint64_t stamp = shim::stamp_of(info);
    if (file.served_id != 0) {
        if (stamp == file.served_stamp) return true;
        memory_->remove(file.served_id);
        file.served_id = 0;
        refuse(Why::changed);
    }
    if (!is_settled(info, file.seen)) return refuse(Why::just_changed);
    ServedIdentity identity{
        .device = file.device, .inode = file.inode, .stamp = stamp, .size = static_cast<std::uint64_t>(info.st_size)};
    // File systems that read into a program's memory by a device say what that asks for. Memory, a FUSE server, and
    // ext4 where it goes by the page cache all the same, ask for nothing.
    const auto asked = engine::direct_alignment(file.direct_fd);
    identity.fills = asked && asked->offset != 0 && asked->memory != 0;
    const engine::Alignment align = identity.fills ? *asked : engine::kSafeAlignment;
    identity.offset_align = align.offset;
    identity.memory_align = align.memory;
    if (identity.memory_align > shim::kServedPage || identity.offset_align > shim::kServedPage)
        return refuse(Why::alignment);
    file.served_id = memory_->add(identity);
    file.served_stamp = stamp;
    file.served_size = identity.size;
    return file.served_id != 0 || refuse(Why::too_many);
}

bool Direct::unchanged(const ShadowFile& file) const {
    struct stat info{};
    return fstat(file.direct_fd, &info) == 0 && shim::stamp_of(info) == file.served_stamp;
}

void Direct::closes(ShadowFile& file) {
    if (memory_ && file.served_id != 0) memory_->remove(file.served_id);
    file.served_id = 0;
    if (file.direct_fd >= 0) close(file.direct_fd);
    file.direct_fd = -1;
}

void Direct::arrived(std::uint32_t first, std::uint32_t pages, std::uint64_t bytes) {
    memory_->arrived(first, pages, bytes);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (region_.waiting.load(std::memory_order_relaxed) == 0) return;
    region_.arrivals.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &region_.arrivals, FUTEX_WAKE, INT_MAX);
}

std::vector<std::string> Direct::notes() const {
    static constexpr std::array<const char*, kWhys> kTexts{
        "--served 0 says that nothing is served",
        "the memory for it cannot be made",
        "it cannot be opened with O_DIRECT",
        "it has just changed",
        "too many such files are open at a time",
        "a chain would walk it, and what walks read is not served",
        "it has changed, though its class is immutable: what was read of it before is served no more",
        "its file system wants reads aligned to more than 4096 bytes",
        "io_uring may not be used here, and nothing else reads into memory that programs are served from",
    };
    std::vector<std::string> notes;
    for (std::size_t i = 0; i < kWhys; i++) {
        if (whys_[i] == 0) continue;
        std::string note = "a file that is read with O_DIRECT was left alone " +
                           (whys_[i] == 1 ? std::string("once") : std::to_string(whys_[i]) + " times") + ": " +
                           kTexts[i];
        if (static_cast<Why>(i) == Why::no_memory) note += " (" + no_memory_ + ")";
        notes.push_back(std::move(note));
    }
    return notes;
}

}  // namespace chainio::shadow
