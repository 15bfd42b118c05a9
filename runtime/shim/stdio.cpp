// stdio: libc's FILEs open, read and close by calls inside libc that no other name reaches. A FILE of a matched file is
// asked for its position before and after a call that its buffer cannot answer; the others pay for one look-up.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {
namespace {

std::uint64_t flags_of(const char* mode) {
    const bool both = mode && std::strchr(mode, '+');
    switch (mode ? mode[0] : 0) {
        case 'w': return O_CREAT | O_TRUNC | (both ? O_RDWR : O_WRONLY);
        case 'a': return O_CREAT | O_APPEND | (both ? O_RDWR : O_WRONLY);
        default: return both ? O_RDWR : O_RDONLY;
    }
}

// As fileno() tells it: a FILE that is memory (open_memstream) has whatever was there before.
int descriptor_of(const FILE* file) {
    constexpr int kIsOfFile = 0x2000;  // glibc's _IO_IS_FILEBUF
    return file && (file->_flags & kIsOfFile) ? file->_fileno : -1;
}

// Whether libc has mapped its file, as it may with an "m" in the mode and for reading only, at the first read from one
// that is not empty: the position that it then sets is the end of the file, whatever is read of it.
bool is_mapped(const FILE& file) {
    constexpr int kMaps = 1, kOnlyReads = 8, kHasBuffer = 1;  // glibc's _IO_FLAGS2_MMAP, _IO_NO_WRITES, _IO_USER_BUF
    return (file._flags2 & kMaps) != 0 && (file._flags & kOnlyReads) != 0 && (file._flags & kHasBuffer) != 0;
}

template <class Call>
FILE* file_opened(const char* path, const char* mode, Call call) {
    FILE* file = call();
    const int descriptor = descriptor_of(file);
    if (descriptor >= 0 && concerns_us(descriptor, path)) [[unlikely]]
        may_end_alike(descriptor, path, flags_of(mode));
    return file;
}

// Without a path the FILE keeps its file and only changes its mode.
template <class Call>
FILE* file_reopened(const char* path, const char* mode, FILE* old, Call call) {
    if (path) closing(descriptor_of(old));
    return path ? file_opened(path, mode, call) : call();
}

// What the buffer holds may be read without the kernel. It is looked at without the FILE's lock: when threads share it,
// the answer is sometimes wrong, and then a position too many is asked for or a read is not told.
inline Slot* file_read(FILE* file, std::size_t wanted) {
    Slot* slot = table.watched(descriptor_of(file));
    if (!slot) [[likely]]
        return nullptr;
    if (slot->kind() != Kind::file || static_cast<std::size_t>(file->_IO_read_end - file->_IO_read_ptr) >= wanted)
        return nullptr;
    return !is_mapped(*file) && looks_at_read(*slot, false) ? slot : nullptr;
}

template <class Call>
[[gnu::noinline]] auto file_seen(Slot& slot, FILE* file, Call call) {
    const int fd = file->_fileno;
    const long first = raw_call(SYS_lseek, fd, 0, SEEK_CUR);
    const std::uint64_t before = now_ns();
    auto result = call();
    const std::uint32_t took = since(before);
    if (is_mapped(*file)) {
        mapped(fd, PROT_READ, MAP_SHARED);
        return result;
    }
    const long last = raw_call(SYS_lseek, fd, 0, SEEK_CUR);
    if (!failed(first) && last > first)
        post_read(fd, slot, kind_of_read(slot, false, false), first, last - first, took);
    return result;
}

constexpr std::size_t kLine = 1;  // a line or a character: read on only when nothing at all is left

// Whether libc reads when a FILE goes to `place`: it does from the block's begin on, so that what is read next lies in
// the buffer, unless that has it already or the place is where a block begins. Of files that hold something to write
// nobody can tell what was read.
bool seek_reads(const FILE& file, std::int64_t place, int whence) {
    if (file._IO_write_ptr > file._IO_write_base) return false;
    if (whence == SEEK_END) return true;  // how long it is, only the kernel knows
    if (whence == SEEK_CUR) {
        if (file._offset < 0) return false;
        place += file._offset - (file._IO_read_end - file._IO_read_ptr);
    }
    if (!file._IO_buf_base) return place > 0;
    if (place < file._offset && place >= file._offset - (file._IO_read_end - file._IO_buf_base)) return false;
    return (place & (file._IO_buf_end - file._IO_buf_base - 1)) != 0;
}

inline Slot* file_sought(FILE* file, std::int64_t place, int whence) {
    Slot* slot = table.watched(descriptor_of(file));
    if (!slot) [[likely]]
        return nullptr;
    if (slot->kind() != Kind::file || is_mapped(*file) || !seek_reads(*file, place, whence)) return nullptr;
    return looks_at_read(*slot, false) ? slot : nullptr;
}

// What was read is what the buffer holds, in front of the place that the FILE then has in the kernel.
template <class Call>
[[gnu::noinline]] int seek_seen(Slot& slot, FILE* file, Call call) {
    const bool empty = file->_IO_read_end == file->_IO_read_base;
    const std::int64_t place = file->_offset;
    const std::uint64_t before = now_ns();
    const int result = call();
    const std::uint32_t took = since(before);
    const std::int64_t length = file->_IO_read_end - file->_IO_read_base, end = file->_offset;
    if (result == 0 && length > 0 && end >= length && (empty || end != place))
        post_read(file->_fileno, slot, kind_of_read(slot, false, false), end - length, length, took);
    return result;
}

}  // namespace

#define CHAINIO_FOPEN(name)                                                             \
    CHAINIO_CALL(FILE*, name, const char* path, const char* mode) {                     \
        return file_opened(path, mode, [=] { return CHAINIO_NEXT(name)(path, mode); }); \
    }
#define CHAINIO_FREOPEN(name)                                                                         \
    CHAINIO_CALL(FILE*, name, const char* path, const char* mode, FILE* file) {                       \
        return file_reopened(path, mode, file, [=] { return CHAINIO_NEXT(name)(path, mode, file); }); \
    }
CHAINIO_FOPEN(fopen)
CHAINIO_FOPEN(fopen64)
CHAINIO_FREOPEN(freopen)
CHAINIO_FREOPEN(freopen64)

CHAINIO_CALL(int, fclose, FILE* file) {
    closing(descriptor_of(file));
    return CHAINIO_NEXT(fclose)(file);
}

#define CHAINIO_FILE_READ(result, name, wanted, parameters, ...)                        \
    CHAINIO_CALL(result, name, CHAINIO_LIST parameters) {                               \
        Slot* slot = file_read(file, wanted);                                           \
        if (!slot) [[likely]]                                                           \
            return CHAINIO_NEXT(name)(__VA_ARGS__);                                     \
        return file_seen(*slot, file, [=] { return CHAINIO_NEXT(name)(__VA_ARGS__); }); \
    }
#define CHAINIO_LIST(...) __VA_ARGS__

CHAINIO_FILE_READ(std::size_t, fread, size* count, (void* out, std::size_t size, std::size_t count, FILE* file), out,
                  size, count, file)
CHAINIO_FILE_READ(std::size_t, fread_unlocked, size* count,
                  (void* out, std::size_t size, std::size_t count, FILE* file), out, size, count, file)
CHAINIO_FILE_READ(std::size_t, __fread_chk, size* count,
                  (void* out, std::size_t room, std::size_t size, std::size_t count, FILE* file), out, room, size,
                  count, file)
CHAINIO_FILE_READ(std::size_t, __fread_unlocked_chk, size* count,
                  (void* out, std::size_t room, std::size_t size, std::size_t count, FILE* file), out, room, size,
                  count, file)
CHAINIO_FILE_READ(char*, fgets, kLine, (char* out, int size, FILE* file), out, size, file)
CHAINIO_FILE_READ(char*, fgets_unlocked, kLine, (char* out, int size, FILE* file), out, size, file)
CHAINIO_FILE_READ(char*, __fgets_chk, kLine, (char* out, std::size_t room, int size, FILE* file), out, room, size, file)
CHAINIO_FILE_READ(char*, __fgets_unlocked_chk, kLine, (char* out, std::size_t room, int size, FILE* file), out, room,
                  size, file)
CHAINIO_FILE_READ(ssize_t, getline, kLine, (char** line, std::size_t* size, FILE* file), line, size, file)
CHAINIO_FILE_READ(ssize_t, getdelim, kLine, (char** line, std::size_t* size, int end, FILE* file), line, size, end,
                  file)
CHAINIO_FILE_READ(ssize_t, __getdelim, kLine, (char** line, std::size_t* size, int end, FILE* file), line, size, end,
                  file)
CHAINIO_FILE_READ(int, fgetc, kLine, (FILE * file), file)
CHAINIO_FILE_READ(int, getc, kLine, (FILE * file), file)
CHAINIO_FILE_READ(int, _IO_getc, kLine, (FILE * file), file)
CHAINIO_FILE_READ(int, fgetc_unlocked, kLine, (FILE * file), file)
CHAINIO_FILE_READ(int, getc_unlocked, kLine, (FILE * file), file)
CHAINIO_FILE_READ(int, __uflow, kLine, (FILE * file), file)

#define CHAINIO_GETCHAR(name)                                                 \
    CHAINIO_CALL(int, name) {                                                 \
        Slot* slot = file_read(stdin, kLine);                                 \
        if (!slot) [[likely]]                                                 \
            return CHAINIO_NEXT(name)();                                      \
        return file_seen(*slot, stdin, [=] { return CHAINIO_NEXT(name)(); }); \
    }
CHAINIO_GETCHAR(getchar)
CHAINIO_GETCHAR(getchar_unlocked)

#define CHAINIO_FSEEK(name)                                                                     \
    CHAINIO_CALL(int, name, FILE* file, long place, int whence) {                               \
        Slot* slot = file_sought(file, place, whence);                                          \
        if (!slot) [[likely]]                                                                   \
            return CHAINIO_NEXT(name)(file, place, whence);                                     \
        return seek_seen(*slot, file, [=] { return CHAINIO_NEXT(name)(file, place, whence); }); \
    }
CHAINIO_FSEEK(fseek)
CHAINIO_FSEEK(fseeko)
CHAINIO_FSEEK(fseeko64)

#define CHAINIO_FSETPOS(name)                                                           \
    CHAINIO_CALL(int, name, FILE* file, const fpos_t* place) {                          \
        Slot* slot = place ? file_sought(file, place->__pos, SEEK_SET) : nullptr;       \
        if (!slot) [[likely]]                                                           \
            return CHAINIO_NEXT(name)(file, place);                                     \
        return seek_seen(*slot, file, [=] { return CHAINIO_NEXT(name)(file, place); }); \
    }
CHAINIO_FSETPOS(fsetpos)
CHAINIO_FSETPOS(fsetpos64)

}  // namespace chainio::shim
