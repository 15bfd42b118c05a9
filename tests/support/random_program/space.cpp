// What may be done to the space of a file: pieces that are taken out, put in, made zero, copied within it and mapped.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

constexpr std::size_t kBytes = 10 * kPage;

off_t some_page(Actor& a) { return static_cast<off_t>(kPage * a.rng.below(8)); }

// Of its own, since direct writes beside blocks that were never written make ext4 complain.
class Own {
  public:
    explicit Own(Actor& a) : a_(a), path_(fmt::format("{}/{}space.dat", process.base, a.folder)) {
        fd = a.call_fd("open", [&] { return ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); });
        const auto data = a.random_bytes(kBytes);
        a.call("write", [&] { return ::write(fd, data.data(), data.size()); });
        a.position(fd);
    }
    ~Own() {
        if (fd >= 0) ::close(fd);
        if (a_.rng.chance(70)) ::unlink(path_.c_str());
    }
    Own(const Own&) = delete;

    void look() const {
        const auto into = a_.buffer(2 * kBytes);
        a_.bytes(into.data(), a_.call("pread", [&] { return ::pread(fd, into.data(), into.size(), 0); }));
    }
    int fd;

  private:
    Actor& a_;
    std::string path_;
};

void reshape(Actor& a) {
    static constexpr int kWays[] = {FALLOC_FL_COLLAPSE_RANGE,
                                    FALLOC_FL_INSERT_RANGE,
                                    FALLOC_FL_ZERO_RANGE,
                                    FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                                    FALLOC_FL_UNSHARE_RANGE,
                                    FALLOC_FL_PUNCH_HOLE,
                                    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                    0};
    const Own own(a);
    own.look();
    for (int i = 0; i < 5; ++i) {
        const int way = a.rng.of(kWays);
        const off_t at = some_page(a) + (a.rng.chance(20) ? 77 : 0), length = 4096 * (1 + a.rng.chance(50));
        a.call(fmt::format("fallocate {:x}", way), [&] { return ::fallocate(own.fd, way, at, length); });
        own.look();
    }
    const auto length = static_cast<off_t>(a.rng.below(2 * kBytes));
    a.call("ftruncate", [&] { return ::ftruncate(own.fd, length); });
    own.look();
}

void copies_within(Actor& a) {
    const Own own(a);
    off64_t from = some_page(a), to = some_page(a);
    a.call("copy_file_range", [&] { return ::copy_file_range(own.fd, &from, own.fd, &to, 6000, 0); });
    a.text(fmt::format("{} {}", from, to));
    own.look();
    ::lseek(own.fd, some_page(a), SEEK_SET);
    off_t place = some_page(a);
    a.call("sendfile into itself", [&] { return ::sendfile(own.fd, own.fd, &place, 3000); });
    a.text(fmt::format("{}", place));
    a.position(own.fd);
    const int other = a.slot();
    a.call("FICLONE", [&] { return ::ioctl(own.fd, FICLONE, other); });
    a.call("sync_file_range", [&] { return ::sync_file_range(own.fd, 0, 8192, SYNC_FILE_RANGE_WAIT_AFTER); });
    a.call("readahead", [&] { return ::readahead(own.fd, -1, 8192); });
    a.call("copy_file_range with flags", [&] { return ::copy_file_range(own.fd, nullptr, other, nullptr, 10, 1); });
    own.look();
}

// A mapping that is read into, grows, is given back in part and moves.
void remap(Actor& a) {
    const Own own(a);
    auto* memory =
        static_cast<std::uint8_t*>(::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, own.fd, 0));
    if (memory == MAP_FAILED) return;
    a.call("pread into itself", [&] { return ::pread(own.fd, memory + 100, 5000, 3 * 4096); });
    a.bytes(memory, 4 * kPage);
    a.call("MADV_REMOVE", [&] { return ::madvise(memory + kPage, kPage, MADV_REMOVE); });
    a.call("MADV_DONTNEED", [&] { return ::madvise(memory, 2 * kPage, MADV_DONTNEED); });
    a.call("MADV_WILLNEED", [&] { return ::madvise(memory, 4 * kPage, MADV_WILLNEED); });
    void* moved = ::mremap(memory, 4 * kPage, 8 * kPage, MREMAP_MAYMOVE);
    a.note("mremap", moved != MAP_FAILED);
    if (moved == MAP_FAILED) return static_cast<void>(::munmap(memory, 4 * kPage));
    memory = static_cast<std::uint8_t*>(moved);
    a.bytes(memory, 8 * kPage);
    a.call("msync", [&] { return ::msync(memory, 8 * kPage, a.rng.chance(50) ? MS_ASYNC : MS_SYNC | MS_ASYNC); });
    a.call("mprotect", [&] { return ::mprotect(memory, kPage, PROT_READ); });
    a.call("pread into what is read only", [&] { return ::pread(own.fd, memory, 100, 0); });
    a.call("pwrite of it", [&] { return ::pwrite(own.fd, memory, 2 * kPage, 6 * 4096); });
    a.call("munmap", [&] { return ::munmap(memory, 8 * kPage); });
    own.look();
}

// What a private mapping had for itself is gone when it is given back: the file's bytes are there again.
void forget(Actor& a) {
    const Own own(a);
    auto* memory = static_cast<std::uint8_t*>(
        ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, own.fd, 4096));
    if (memory == MAP_FAILED) return;
    std::memset(memory + 100, 'x', 2 * kPage);
    a.bytes(memory, 4 * kPage);
    a.call("MADV_DONTNEED", [&] { return ::madvise(memory, kPage, MADV_DONTNEED); });
    a.bytes(memory, 4 * kPage);
    void* over = ::mmap(memory + kPage, kPage, PROT_READ, MAP_SHARED | MAP_FIXED, own.fd, 0);
    a.note("mapped over it", over == memory + kPage);
    const auto data = a.random_bytes(600);
    a.call("pwrite", [&] { return ::pwrite(own.fd, data.data(), data.size(), 50); });
    a.bytes(memory, 4 * kPage);
    a.call("munmap", [&] { return ::munmap(memory, 4 * kPage); });
}

}  // namespace

Operations space_operations() {
    return {{"reshape", 3, reshape, true, true},
            {"copies within", 2, copies_within, true, true},
            {"remap", 2, remap, true, true},
            {"forget", 2, forget, true, true}};
}

}  // namespace chainio::random_program
