// Reads, writes, positions and lengths of files, by the names that most programs use.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

constexpr int kModes[] = {O_RDONLY,
                          O_RDWR,
                          O_RDWR,
                          O_WRONLY,
                          O_RDWR | O_CREAT,
                          O_RDWR | O_APPEND,
                          O_RDWR | O_CREAT | O_EXCL,
                          O_RDWR | O_DIRECT,
                          O_RDWR | O_CREAT | O_TRUNC,
                          O_RDONLY | O_NONBLOCK,
                          O_RDONLY | O_NOFOLLOW,
                          O_RDONLY | O_DIRECTORY,
                          O_PATH,
                          O_RDONLY | O_DIRECT};

void open_file(Actor& a) {
    const int flags = a.rng.of(kModes) | (a.rng.chance(50) ? O_CLOEXEC : 0);
    const unsigned file = a.file();
    const std::string path = a.path(file);
    a.keep(a.call_fd(fmt::format("open {} {:o}", file, flags), [&] { return ::open(path.c_str(), flags, 0640); }));
}

void open_fixed(Actor& a) {
    const std::string path = a.fixed_path();
    const int flags = a.rng.chance(30) ? O_RDONLY | O_DIRECT : O_RDONLY;
    a.keep(a.call_fd("open fixed", [&] { return ::open(path.c_str(), flags); }));
}

void close_file(Actor& a) {
    if (a.slots.empty()) return;
    const std::size_t at = a.rng.below(a.slots.size());
    const int fd = a.slots[at];
    a.slots.erase(a.slots.begin() + static_cast<std::ptrdiff_t>(at));
    a.call("close", [&] { return ::close(fd); });
    if (a.alone && a.rng.chance(20)) a.call("close again", [&] { return ::close(fd); });
}

std::size_t some_length(Actor& a) { return a.rng.chance(50) ? a.rng.below(200) : a.rng.below(kMostBytes); }

// Memory and length that suit O_DIRECT two times in three; the third is to be refused where the descriptor is direct.
struct Aligned {
    struct Free {
        void operator()(void* what) const { std::free(what); }
    };
    std::unique_ptr<void, Free> memory{std::aligned_alloc(4096, 16384)};
    std::size_t length = 0;
    off_t offset = 0;
    explicit Aligned(Rng& rng) {
        std::memset(memory.get(), 0, 16384);
        length = 4096 * (1 + rng.below(4));
        offset = static_cast<off_t>(4096 * rng.below(6));
        if (rng.chance(33)) length -= rng.below(500);
        if (rng.chance(20)) offset += static_cast<off_t>(rng.below(100));
    }
};

void aligned_io(Actor& a) {
    const int fd = a.slot();
    const Aligned io(a.rng);
    if (a.rng.chance(60)) {
        const long got = a.call("aligned pread", [&] { return ::pread(fd, io.memory.get(), io.length, io.offset); });
        a.bytes(io.memory.get(), got);
    } else {
        const std::size_t length = a.writable(fd, io.length);
        std::memcpy(io.memory.get(), a.random_bytes(length).data(), length);
        a.call("aligned pwrite", [&] { return ::pwrite(fd, io.memory.get(), length, io.offset); });
    }
}

// Reads a file that does not change past the page cache: once, and further on when that may have been fetched
// meanwhile.
void direct_reads(Actor& a) {
    const std::string path = a.fixed_path();
    const int fd = a.call_fd("open direct", [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC); });
    for (int i = 0; fd >= 0 && i < 6; ++i) {
        const Aligned io(a.rng);
        const long got = a.call("direct pread", [&] { return ::pread(fd, io.memory.get(), io.length, io.offset); });
        a.bytes(io.memory.get(), got);
        if (i % 3 == 0 && process.settled) ::usleep(2000);
    }
    if (fd >= 0) ::close(fd);
}

void read_some(Actor& a) {
    const int fd = a.slot();
    const auto into = a.buffer(some_length(a));
    const long got = a.call("read", [&] { return ::read(fd, into.data(), into.size()); });
    a.bytes(into.data(), got);
    if (a.rng.chance(30)) a.position(fd);
}

void pread_some(Actor& a) {
    const int fd = a.slot();
    const auto into = a.buffer(some_length(a));
    const auto at = static_cast<off_t>(a.rng.below(2 * kMostBytes)) - (a.rng.chance(3) ? 50000 : 0);
    const long got = a.call("pread", [&] { return ::pread(fd, into.data(), into.size(), at); });
    a.bytes(into.data(), got);
}

void write_some(Actor& a) {
    const int fd = a.slot();
    const auto from = a.random_bytes(a.writable(fd, some_length(a)));
    a.call("write", [&] { return ::write(fd, from.data(), from.size()); });
    if (a.rng.chance(30)) a.position(fd);
}

void pwrite_some(Actor& a) {
    const int fd = a.slot();
    const auto from = a.random_bytes(a.writable(fd, some_length(a)));
    const auto at = static_cast<off_t>(a.rng.below(kMostBytes));
    a.call("pwrite", [&] { return ::pwrite(fd, from.data(), from.size(), at); });
}

void vectors(Actor& a) {
    const int fd = a.slot();
    const auto memory = a.rng.chance(60) ? a.buffer(3000) : a.random_bytes(3000);
    std::size_t first = a.rng.below(1000), second = a.rng.below(1000);
    const iovec parts[3] = {{memory.data(), first}, {memory.data() + 1000, second}, {memory.data() + 2000, 1000}};
    const auto at = static_cast<off_t>(a.rng.below(kMostBytes));
    switch (a.rng.below(6)) {
        case 0: a.call("readv", [&] { return ::readv(fd, parts, 3); }); break;
        case 1: a.call("preadv", [&] { return ::preadv(fd, parts, 3, at); }); break;
        case 2: a.call("preadv2", [&] { return ::preadv2(fd, parts, 2, a.rng.chance(30) ? -1 : at, 0); }); break;
        case 3: a.call("writev", [&] { return ::writev(fd, parts, 3); }); break;
        case 4: a.call("pwritev", [&] { return ::pwritev(fd, parts, 2, at); }); break;
        default:
            a.call("pwritev2", [&] { return ::pwritev2(fd, parts, 3, at, a.rng.chance(50) ? RWF_APPEND : 0); });
            break;
    }
    a.bytes(memory.data(), 3000);
}

void seek(Actor& a) {
    const int fd = a.slot();
    const auto by = static_cast<off_t>(a.rng.below(kMostBytes)) - (a.rng.chance(10) ? 30000 : 0);
    const int from = a.rng.chance(60) ? SEEK_SET : a.rng.chance(50) ? SEEK_CUR : SEEK_END;
    a.call("lseek", [&] { return ::lseek(fd, from == SEEK_END ? -by / 2 : by, from); });
}

void truncate_some(Actor& a) {
    const auto length = static_cast<off_t>(a.rng.below(2 * kMostBytes));
    if (a.rng.chance(50)) {
        const int fd = a.slot();
        a.call("ftruncate", [&] { return ::ftruncate(fd, length); });
    } else {
        const std::string path = a.path(a.file());
        a.call("truncate", [&] { return ::truncate(path.c_str(), length); });
    }
}

void advise(Actor& a) {
    const int fd = a.slot();
    static constexpr int kAdvice[] = {POSIX_FADV_DONTNEED, POSIX_FADV_DONTNEED, POSIX_FADV_RANDOM,
                                      POSIX_FADV_SEQUENTIAL, POSIX_FADV_WILLNEED};
    const int advice = a.rng.of(kAdvice);
    a.call("posix_fadvise", [&] { return ::posix_fadvise(fd, 0, 0, advice); });
    if (a.rng.chance(20)) a.call("readahead", [&] { return ::readahead(fd, 0, 65536); });
    if (a.rng.chance(10)) a.call("sync_file_range", [&] { return ::sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); });
    if (a.rng.chance(5)) a.call("fdatasync", [&] { return ::fdatasync(fd); });
}

// Holes are made in any file. Blocks that were never written are left to a file of their own: direct writes beside them
// make ext4 complain in the kernel's log.
void allocate(Actor& a) {
    const int fd = a.slot();
    const auto at = static_cast<off_t>(a.rng.below(kMostBytes));
    const auto length = static_cast<off_t>(1 + a.rng.below(kMostBytes));
    a.call("punch", [&] { return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length); });
    const std::string path = process.base + "/" + a.folder + "allocated.dat";
    const int own =
        a.call_fd("open", [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); });
    a.call("posix_fallocate", [&] { return ::posix_fallocate(own, at, length); });
    a.call("fallocate", [&] { return ::fallocate(own, FALLOC_FL_KEEP_SIZE, 0, length); });
    const auto data = a.random_bytes(500);
    a.call("pwrite", [&] { return ::pwrite(own, data.data(), data.size(), at); });
    const auto into = a.buffer(9000);
    a.bytes(into.data(), a.call("pread", [&] { return ::pread(own, into.data(), into.size(), at); }));
    ::close(own);
    ::unlink(path.c_str());
}

}  // namespace

Operations file_operations() {
    return {{"open", 16, open_file, true, true},     {"fixed", 5, open_fixed, true, true},
            {"close", 7, close_file, true, true},    {"read", 14, read_some, true, true},
            {"pread", 14, pread_some, true, true},   {"write", 7, write_some, true, true},
            {"pwrite", 6, pwrite_some, true, true},  {"aligned", 8, aligned_io, true, true},
            {"direct", 3, direct_reads, true, true}, {"vectors", 7, vectors, true, true},
            {"seek", 8, seek, true, true},           {"truncate", 3, truncate_some, true, true},
            {"advise", 4, advise, true, true},       {"allocate", 2, allocate, true, true}};
}

}  // namespace chainio::random_program
