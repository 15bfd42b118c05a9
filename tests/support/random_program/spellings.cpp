// The other ways in which programs reach the same calls: 64-bit and fortified names, syscall(), pointers from dlsym,
// stdio, streams.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/support/random_program/actor.h"

// What the C library's headers call under _FORTIFY_SOURCE.
extern "C" {
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
size_t __fread_chk(void*, size_t, size_t, size_t, FILE*);
}

namespace chainio::random_program {
namespace {

void opens(Actor& a) {
    const std::string path = a.path(a.file());
    const char* name = path.c_str();
    open_how how = {.flags = O_RDWR | O_CLOEXEC, .mode = 0, .resolve = 0};
    switch (a.rng.below(9)) {
        case 0: a.keep(a.call_fd("open64", [&] { return ::open64(name, O_RDWR); })); break;
        case 1: a.keep(a.call_fd("openat64", [&] { return ::openat64(AT_FDCWD, name, O_RDONLY); })); break;
        case 2: a.keep(a.call_fd("__open_2", [&] { return ::__open_2(name, O_RDWR); })); break;
        case 3: a.keep(a.call_fd("__open64_2", [&] { return ::__open64_2(name, O_RDONLY); })); break;
        case 4: a.keep(a.call_fd("__openat_2", [&] { return ::__openat_2(AT_FDCWD, name, O_RDWR); })); break;
        case 5:
            a.keep(a.call_fd("SYS_openat", [&] { return ::syscall(SYS_openat, AT_FDCWD, name, O_RDWR, 0); }));
            break;
        case 6: a.keep(a.call_fd("SYS_open", [&] { return ::syscall(SYS_open, name, O_RDONLY, 0); })); break;
        case 7:
            a.keep(a.call_fd("openat2", [&] { return ::syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how); }));
            break;
        default: a.keep(a.call_fd("creat64", [&] { return ::creat64(name, 0644); })); break;
    }
}

void reads(Actor& a) {
    const int fd = a.slot();
    const auto into = a.buffer(a.rng.below(9000) + 1);
    const std::size_t size = into.size();
    const auto at = static_cast<off_t>(a.rng.below(kMostBytes));
    long got = 0;
    switch (a.rng.below(8)) {
        case 0: got = a.call("pread64", [&] { return ::pread64(fd, into.data(), size, at); }); break;
        case 1: got = a.call("__read_chk", [&] { return ::__read_chk(fd, into.data(), size, size); }); break;
        case 2: got = a.call("__pread_chk", [&] { return ::__pread_chk(fd, into.data(), size, at, size); }); break;
        case 3: got = a.call("__pread64_chk", [&] { return ::__pread64_chk(fd, into.data(), size, at, size); }); break;
        case 4: got = a.call("SYS_read", [&] { return ::syscall(SYS_read, fd, into.data(), size); }); break;
        case 5: got = a.call("SYS_pread64", [&] { return ::syscall(SYS_pread64, fd, into.data(), size, at); }); break;
        case 6: {
            const iovec part = {into.data(), size};
            got = a.call("preadv64", [&] { return ::preadv64(fd, &part, 1, at); });
            break;
        }
        default: got = a.call("SYS_write", [&] { return ::syscall(SYS_write, fd, into.data(), a.writable(fd, size)); });
    }
    a.bytes(into.data(), got);
    a.call("lseek64", [&] { return ::lseek64(fd, 0, SEEK_CUR); });
}

// A pointer that a program looks up itself, in the default order and behind it.
void looked_up(Actor& a) {
    void* where = a.rng.chance(50) ? RTLD_DEFAULT : RTLD_NEXT;
    const auto open_it = reinterpret_cast<int (*)(const char*, int, ...)>(::dlsym(where, "open"));
    const auto read_it = reinterpret_cast<ssize_t (*)(int, void*, size_t)>(::dlsym(where, "read"));
    const auto close_it = reinterpret_cast<int (*)(int)>(::dlsym(where, "close"));
    a.note("found", open_it && read_it && close_it);
    if (!open_it || !read_it || !close_it) return;
    const std::string path = a.path(a.file());
    const int fd = a.call_fd("open by pointer", [&] { return open_it(path.c_str(), O_RDONLY); });
    const auto into = a.buffer(6000);
    a.bytes(into.data(), a.call("read by pointer", [&] { return read_it(fd, into.data(), into.size()); }));
    a.call("close by pointer", [&] { return close_it(fd); });
}

void stdio(Actor& a) {
    static constexpr const char* kOpenModes[] = {"r", "r+", "a+", "re", "rb", "r+x", "w+"};
    const std::string path = a.path(a.file()), other = a.path(a.file());
    errno = kUntouched;
    std::FILE* file = a.rng.chance(50) ? std::fopen(path.c_str(), a.rng.of(kOpenModes))
                                       : ::fopen64(path.c_str(), a.rng.of(kOpenModes));
    a.note("fopen", file != nullptr, file ? kUntouched : errno);
    if (!file) return;
    const auto into = a.buffer(5000);
    a.bytes(into.data(), a.call("fread", [&] {
        return static_cast<long>(std::fread(into.data(), 1, 1000 + a.rng.below(4000), file));
    }));
    a.bytes(into.data(),
            a.call("__fread_chk", [&] { return static_cast<long>(::__fread_chk(into.data(), 5000, 1, 50, file)); }));
    a.call("fseek", [&] { return std::fseek(file, static_cast<long>(a.rng.below(20000)), SEEK_SET); });
    a.call("fgetc", [&] { return std::fgetc(file); });
    const auto data = a.random_bytes(700);
    a.call("fseek", [&] { return std::fseek(file, 0, SEEK_CUR); });
    a.call("fwrite", [&] { return static_cast<long>(std::fwrite(data.data(), 1, data.size(), file)); });
    a.call("fprintf", [&] { return std::fprintf(file, "%d %s\n", 12345, "text"); });
    a.call("fflush", [&] { return std::fflush(file); });
    a.call("ftell", [&] { return std::ftell(file); });
    if (a.rng.chance(30)) {
        std::FILE* again = std::freopen(other.c_str(), "r", file);
        a.note("freopen", again != nullptr);
        if (!again) return;
        file = again;
        a.bytes(into.data(),
                a.call("fread", [&] { return static_cast<long>(std::fread(into.data(), 1, 3000, file)); }));
    }
    a.call("fclose", [&] { return std::fclose(file); });
}

// The position of a descriptor that a stream reads through too.
void stdio_over_descriptor(Actor& a) {
    const int fd = a.open_some(O_RDWR);
    if (fd < 0) return;
    std::FILE* file = ::fdopen(fd, "r+");
    char line[300] = {};
    a.note("fgets", std::fgets(line, sizeof line, file) != nullptr);
    a.bytes(line, static_cast<long>(std::strlen(line)));
    a.call("fseek", [&] { return std::fseek(file, 100, SEEK_SET); });
    a.call("fflush", [&] { return std::fflush(file); });
    a.position(fd);
    a.call("fclose", [&] { return std::fclose(file); });
}

void streams(Actor& a) {
    const std::string path = a.path(a.file());
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    a.note("opened", file.is_open());
    const auto into = a.buffer(4000);
    file.seekg(static_cast<std::streamoff>(a.rng.below(3000)));
    file.read(reinterpret_cast<char*>(into.data()), 4000);
    a.bytes(into.data(), file.gcount());
    file.clear();
    file.seekp(static_cast<std::streamoff>(a.rng.below(5000)));
    file << "written by a stream " << a.rng.below(1000);
    file.flush();
    a.note("good", file.good());
}

}  // namespace

Operations spelling_operations() {
    return {{"opens", 6, opens, true, true},
            {"reads", 8, reads, true, true},
            {"looked up", 3, looked_up, true, true},
            {"stdio", 4, stdio, true, true},
            {"fdopen", 2, stdio_over_descriptor, true, true},
            {"streams", 2, streams, true, true}};
}

}  // namespace chainio::random_program
