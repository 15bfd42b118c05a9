// stdio: libc's FILEs open, read and close by calls inside libc that no other name reaches. A FILE of a matched file is
// asked for its position before and after a call that its buffer cannot answer; the others pay for one look-up.
#include <fcntl.h>
#include <stdio.h>
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

template <class Call>
FILE* file_opened(const char* path, const char* mode, Call call) {
    FILE* file = call();
    if (file && file->_fileno >= 0) opened(file->_fileno, path, flags_of(mode));
    return file;
}

// Without a path the FILE keeps its file and only changes its mode.
template <class Call>
FILE* file_reopened(const char* path, const char* mode, FILE* old, Call call) {
    if (path && old && old->_fileno >= 0) closing(old->_fileno);
    return path ? file_opened(path, mode, call) : call();
}

// What the buffer holds may be read without the kernel. It is looked at without the FILE's lock: when threads share it,
// the answer is sometimes wrong, and then a position too many is asked for or a read is not told.
inline Slot* file_read(FILE* file, std::size_t wanted) {
    if (!file) return nullptr;
    Slot* slot = table.watched(file->_fileno);
    if (!slot) [[likely]]
        return nullptr;
    if (slot->kind() != Kind::file || static_cast<std::size_t>(file->_IO_read_end - file->_IO_read_ptr) >= wanted)
        return nullptr;
    return looks_at_read(*slot, false) ? slot : nullptr;
}

template <class Call>
[[gnu::noinline]] auto file_seen(Slot& slot, FILE* file, Call call) {
    const int fd = file->_fileno;
    const long first = raw_call(SYS_lseek, fd, 0, SEEK_CUR);
    const std::uint64_t before = now_ns();
    auto result = call();
    const std::uint32_t took = since(before);
    const long last = raw_call(SYS_lseek, fd, 0, SEEK_CUR);
    if (!failed(first) && last > first) post_read(fd, slot, EventKind::read, first, last - first, took);
    return result;
}

constexpr std::size_t kLine = 1;  // a line or a character: read on only when nothing at all is left

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
    if (file && table.watched(file->_fileno)) [[unlikely]]
        closing(file->_fileno);
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
CHAINIO_FILE_READ(int, __uflow, kLine, (FILE * file), file)

}  // namespace chainio::shim
