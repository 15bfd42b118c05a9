#include "tests/bench/lookup/direct_vfs.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/bench/lookup/os.h"

namespace chainio::bench {
namespace {

std::uint64_t reads = 0;

struct DirectFile {
    sqlite3_file base;
    int fd;
    std::uint8_t* bounce;  // SQLite's page buffers are not aligned; one page and the sectors around it fit
};
constexpr std::size_t bounce_bytes = 65536 + 8192, sector = 512;

DirectFile* self(sqlite3_file* file) { return reinterpret_cast<DirectFile*>(file); }

int close_file(sqlite3_file* file) {
    ::close(self(file)->fd);
    std::free(self(file)->bounce);
    return SQLITE_OK;
}

int read_file(sqlite3_file* file, void* into, int amount, sqlite3_int64 offset) {
    const auto wanted = static_cast<std::size_t>(amount);
    const auto skip = static_cast<std::size_t>(offset) % sector;
    const std::size_t length = (skip + wanted + sector - 1) / sector * sector;
    if (length > bounce_bytes) return SQLITE_IOERR_READ;
    const ssize_t got = ::pread(self(file)->fd, self(file)->bounce, length, offset - static_cast<sqlite3_int64>(skip));
    reads++;
    if (got < 0) return SQLITE_IOERR_READ;
    const auto have = static_cast<std::size_t>(got) > skip ? std::min(static_cast<std::size_t>(got) - skip, wanted) : 0;
    std::memcpy(into, self(file)->bounce + skip, have);
    if (have == wanted) return SQLITE_OK;
    std::memset(static_cast<std::uint8_t*>(into) + have, 0, wanted - have);
    return SQLITE_IOERR_SHORT_READ;
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
    struct stat status{};
    if (::fstat(self(file)->fd, &status) != 0) return SQLITE_IOERR_FSTAT;
    *size = status.st_size;
    return SQLITE_OK;
}

int no_lock(sqlite3_file*, int) { return SQLITE_OK; }
int never_reserved(sqlite3_file*, int* result) {
    *result = 0;
    return SQLITE_OK;
}
int not_handled(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int sector_size(sqlite3_file*) { return sector; }
int characteristics(sqlite3_file*) { return SQLITE_IOCAP_IMMUTABLE; }
int refuse_write(sqlite3_file*, const void*, int, sqlite3_int64) { return SQLITE_READONLY; }
int refuse_truncate(sqlite3_file*, sqlite3_int64) { return SQLITE_READONLY; }
int refuse_sync(sqlite3_file*, int) { return SQLITE_READONLY; }

const sqlite3_io_methods methods = {1,           close_file,  read_file,       refuse_write, refuse_truncate,
                                    refuse_sync, file_size,   no_lock,         no_lock,      never_reserved,
                                    not_handled, sector_size, characteristics, nullptr,      nullptr,
                                    nullptr,     nullptr,     nullptr,         nullptr};

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int, int* out_flags) {
    file->pMethods = nullptr;
    const int fd = name == nullptr ? -1 : ::open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) return SQLITE_CANTOPEN;
    auto* bounce = static_cast<std::uint8_t*>(std::aligned_alloc(4096, bounce_bytes));
    if (bounce == nullptr) {
        ::close(fd);
        return SQLITE_NOMEM;
    }
    self(file)->fd = fd;
    self(file)->bounce = bounce;
    file->pMethods = &methods;
    if (out_flags != nullptr) *out_flags = SQLITE_OPEN_READONLY;
    return SQLITE_OK;
}

}  // namespace

void register_direct_vfs() {
    static sqlite3_vfs vfs = [] {
        sqlite3_vfs copy = *sqlite3_vfs_find(nullptr);  // paths, time and randomness stay the system's
        copy.zName = direct_vfs_name;
        copy.szOsFile = sizeof(DirectFile);
        copy.xOpen = open_file;
        return copy;
    }();
    sqlite3_vfs_register(&vfs, 0);
}

std::uint64_t direct_vfs_reads() { return reads; }

}  // namespace chainio::bench
