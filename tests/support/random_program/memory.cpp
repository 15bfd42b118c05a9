// Files that are mapped, sparse, or live in memory only.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstring>
#include <string>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

void map_shared(Actor& a) {
    const int fd = a.open_some(O_RDWR | O_CREAT);
    if (fd < 0) return;
    a.call("ftruncate", [&] { return ::ftruncate(fd, static_cast<off_t>(3 * kPage)); });
    auto* memory = static_cast<std::uint8_t*>(::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    if (memory == MAP_FAILED) {
        ::close(fd);
        return;
    }
    const std::size_t at = a.rng.below(2 * kPage);
    std::memcpy(memory + at, a.random_bytes(3000).data(), 3000);
    // What is stored is read, and what is written is seen in the mapping.
    const auto into = a.buffer(3 * kPage);
    a.bytes(into.data(), a.call("pread", [&] { return ::pread(fd, into.data(), into.size(), 0); }));
    const auto data = a.random_bytes(500);
    a.call("pwrite", [&] { return ::pwrite(fd, data.data(), data.size(), 777); });
    a.bytes(memory, 3 * kPage);
    if (a.rng.chance(30)) a.call("msync", [&] { return ::msync(memory, 3 * kPage, MS_SYNC); });
    // The mapping outlives the descriptor.
    if (a.rng.chance(50)) {
        ::close(fd);
    } else {
        a.keep(fd);
    }
    memory[5] = 42;
    a.bytes(memory, 3 * kPage);
    a.call("munmap", [&] { return ::munmap(memory, 3 * kPage); });
}

void map_private(Actor& a) {
    const int fd = a.open_some(O_RDONLY);
    struct stat st = {};
    if (fd < 0 || ::fstat(fd, &st) != 0 || st.st_size == 0 || !S_ISREG(st.st_mode)) {
        ::close(fd);
        return;
    }
    const auto size = static_cast<std::size_t>(st.st_size);
    auto* memory = static_cast<std::uint8_t*>(::mmap64(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    if (memory != MAP_FAILED) {
        a.bytes(memory, st.st_size);
        memory[size / 2] ^= 0xff;
        a.bytes(memory, st.st_size);
        a.call("munmap", [&] { return ::munmap(memory, size); });
    }
    const auto into = a.buffer(size);
    a.bytes(into.data(), a.call("pread", [&] { return ::pread(fd, into.data(), size, 0); }));
    ::close(fd);
}

thread_local sigjmp_buf after_fault;
void on_fault(int) { siglongjmp(after_fault, 1); }

// A mapping beyond the file's new end faults; so it must after a prefetch too.
void map_beyond(Actor& a) {
    const int fd = a.open_some(O_RDWR | O_CREAT);
    if (fd < 0) return;
    a.call("ftruncate", [&] { return ::ftruncate(fd, static_cast<off_t>(2 * kPage)); });
    auto* memory = static_cast<volatile std::uint8_t*>(::mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, fd, 0));
    a.note("byte", memory[kPage + 1]);
    a.call("ftruncate", [&] { return ::ftruncate(fd, 100); });
    struct sigaction action = {}, before = {};
    action.sa_handler = on_fault;
    ::sigaction(SIGBUS, &action, &before);
    if (sigsetjmp(after_fault, 1) == 0) {
        a.note("no fault", memory[kPage + 1]);
    } else {
        a.text("fault");
    }
    ::sigaction(SIGBUS, &before, nullptr);
    ::munmap(const_cast<std::uint8_t*>(memory), 2 * kPage);
    ::close(fd);
}

// Holes read as zeros, and stay holes.
void sparse(Actor& a) {
    const std::string path = fmt::format("{}/{}sparse{}.dat", process.base, a.folder, a.rng.below(2));
    const int fd = a.call_fd("open", [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600); });
    const std::size_t pieces = 1 + a.rng.below(4);
    for (std::size_t i = 0; i < pieces; ++i) {
        const auto data = a.random_bytes(kPage);
        const auto at = static_cast<off_t>(65536 * (1 + a.rng.below(64)));
        a.call("pwrite", [&] { return ::pwrite(fd, data.data(), data.size(), at); });
    }
    a.call("ftruncate", [&] { return ::ftruncate(fd, 65536 * 70); });
    const auto into = a.buffer(20000);
    for (int i = 0; i < 4; ++i) {
        const auto at = static_cast<off_t>(a.rng.below(65536 * 71));
        a.bytes(into.data(), a.call("pread", [&] { return ::pread(fd, into.data(), into.size(), at); }));
    }
    off_t at = 0;
    for (int i = 0; i < 12 && at >= 0; ++i) {
        at = a.call(i % 2 ? "SEEK_HOLE" : "SEEK_DATA", [&] { return ::lseek(fd, at, i % 2 ? SEEK_HOLE : SEEK_DATA); });
    }
    ::close(fd);
    if (a.rng.chance(60)) ::unlink(path.c_str());
}

void in_memory(Actor& a) {
    const int fd = a.call_fd("memfd_create", [&] { return ::memfd_create("f0.dat", MFD_CLOEXEC); });
    const auto data = a.random_bytes(5000);
    a.call("write", [&] { return ::write(fd, data.data(), data.size()); });
    const auto into = a.buffer(6000);
    a.bytes(into.data(), a.call("pread", [&] { return ::pread(fd, into.data(), into.size(), 100); }));
    a.keep(fd);
}

}  // namespace

Operations memory_operations() {
    return {{"map shared", 3, map_shared, true, true},
            {"map private", 3, map_private, true, true},
            {"map beyond", 1, map_beyond, false, true},
            {"sparse", 2, sparse, true, true},
            {"memfd", 1, in_memory, true, true}};
}

}  // namespace chainio::random_program
