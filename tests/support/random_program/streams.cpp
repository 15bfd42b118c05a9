// FILEs beyond plain reads and writes: buffers of all sizes, lines, characters that are put back, positions, modes that
// change, files that are memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>

#include "tests/support/random_program/actor.h"

extern "C" int __uflow(FILE*);

namespace chainio::random_program {
namespace {

std::FILE* open_stream(Actor& a, const char* mode) {
    const std::string path = a.path(a.file());
    errno = kUntouched;
    std::FILE* file = std::fopen(path.c_str(), mode);
    a.note(fmt::format("fopen {}", mode), file != nullptr, file ? kUntouched : errno);
    if (!file) return nullptr;
    static constexpr int kBuffers[] = {_IOFBF, _IOLBF, _IONBF};
    static constexpr std::size_t kSizes[] = {1, 100, 4096, 20000};
    if (a.rng.chance(60)) {
        const int kind = a.rng.of(kBuffers);
        const std::size_t size = a.rng.of(kSizes);
        a.call("setvbuf", [&] { return std::setvbuf(file, nullptr, kind, size); });
    }
    return file;
}

void close_stream(Actor& a, std::FILE* file) {
    a.note("feof", std::feof(file) != 0);
    a.note("ferror", std::ferror(file) != 0);
    a.call("fclose", [&] { return std::fclose(file); });
}

void lines(Actor& a) {
    std::FILE* file = open_stream(a, a.rng.chance(50) ? "r" : "r+");
    if (!file) return;
    char* line = nullptr;
    std::size_t room = 0;
    char some[200];
    for (int i = 0; i < 12; ++i) {
        long got = 0;  // before `line` is looked at, which moves
        switch (a.rng.below(5)) {
            case 0: got = a.call("getline", [&] { return ::getline(&line, &room, file); }); break;
            case 1: got = a.call("getdelim", [&] { return ::getdelim(&line, &room, 7, file); }); break;
            case 2:
                std::memset(some, 0, sizeof some);
                a.call("fgets", [&] { return std::fgets(some, sizeof some, file) != nullptr; });
                a.bytes(some, sizeof some);
                break;
            case 3: a.call("fgets of nothing", [&] { return std::fgets(some, 1, file) != nullptr; }); break;
            default: a.call("ftell", [&] { return std::ftell(file); });
        }
        a.bytes(line, got);
    }
    std::free(line);
    a.position(::fileno(file));
    close_stream(a, file);
}

void characters(Actor& a) {
    std::FILE* file = open_stream(a, "r+");
    if (!file) return;
    char some[64] = {};
    for (int i = 0; i < 16; ++i) {
        switch (a.rng.below(8)) {
            case 0: a.call("getc", [&] { return std::getc(file); }); break;
            case 1: a.call("getc_unlocked", [&] { return ::getc_unlocked(file); }); break;
            case 2: a.call("ungetc", [&] { return std::ungetc('u', file); }); break;
            case 3: a.call("fread", [&] { return static_cast<long>(std::fread(some, 3, 20, file)); }); break;
            case 4: a.call("fread of nothing", [&] { return static_cast<long>(std::fread(some, 0, 9, file)); }); break;
            case 5: a.call("getw", [&] { return ::getw(file); }); break;
            case 6: a.call("fscanf", [&] { return std::fscanf(file, "%9s", some); }); break;
            default:
                a.bytes(some, a.call("fread_unlocked",
                                     [&] { return static_cast<long>(::fread_unlocked(some, 1, 64, file)); }));
        }
    }
    a.call("ftell", [&] { return std::ftell(file); });
    close_stream(a, file);
}

void places(Actor& a) {
    std::FILE* file = open_stream(a, a.rng.chance(50) ? "r+" : "a+");
    if (!file) return;
    std::fpos_t kept = {};
    a.call("fgetpos", [&] { return std::fgetpos(file, &kept); });
    char some[500] = {};
    for (int i = 0; i < 10; ++i) {
        const auto by = static_cast<off_t>(a.rng.below(kMostBytes));
        switch (a.rng.below(8)) {
            case 0: a.call("SEEK_SET", [&] { return ::fseeko(file, by, SEEK_SET); }); break;
            case 1: a.call("SEEK_CUR", [&] { return ::fseeko64(file, by / 8 - 1000, SEEK_CUR); }); break;
            case 2: a.call("SEEK_END", [&] { return std::fseek(file, -by, SEEK_END); }); break;
            case 3: a.call("fsetpos", [&] { return std::fsetpos(file, &kept); }); break;
            case 4: a.call("fgetpos", [&] { return std::fgetpos(file, &kept); }); break;
            case 5: std::rewind(file); break;
            case 6:
                a.call("fseek", [&] { return std::fseek(file, 0, SEEK_CUR); });
                a.call("fwrite", [&] { return static_cast<long>(std::fwrite("written", 1, 7, file)); });
                a.call("fflush", [&] { return std::fflush(file); });
                break;
            default:
                a.bytes(some, a.call("fread", [&] {
                    return static_cast<long>(std::fread(some, 1, 1 + a.rng.below(500), file));
                }));
        }
        a.call("ftell", [&] { return std::ftell(file); });
    }
    a.position(::fileno(file));
    close_stream(a, file);
}

// The same FILE in another mode, and another file under the same FILE; a number that is closed under a FILE.
void reopened(Actor& a) {
    std::FILE* file = open_stream(a, "r+");
    if (!file) return;
    char some[300] = {};
    a.bytes(some, a.call("fread", [&] { return static_cast<long>(std::fread(some, 1, 300, file)); }));
    if (a.rng.chance(50)) {
        std::FILE* same = std::freopen(nullptr, "r", file);
        a.note("freopen of itself", same != nullptr);
        if (!same) return;
    } else {
        const std::string path = a.rng.chance(70) ? a.path(a.file()) : process.base + "/no/such.dat";
        std::FILE* other = std::freopen(path.c_str(), "r", file);
        a.note("freopen", other != nullptr);
        if (!other) return;
    }
    a.bytes(some, a.call("fread", [&] { return static_cast<long>(std::fread(some, 1, 300, file)); }));
    a.call("fwrite to what is read", [&] { return static_cast<long>(std::fwrite("w", 1, 1, file)); });
    if (a.alone && a.rng.chance(30)) {
        ::close(::fileno(file));
        a.call("fread of what is closed", [&] { return static_cast<long>(std::fread(some, 1, 300, file)); });
    }
    close_stream(a, file);
}

ssize_t make_letters(void* count, char* into, std::size_t size) {
    auto& left = *static_cast<std::size_t*>(count);
    const std::size_t some = size < left ? size : left;
    std::memset(into, 'k', some);
    left -= some;
    return static_cast<ssize_t>(some);
}

// FILEs that have no descriptor.
void in_no_file(Actor& a) {
    char memory[300] = "a line\nanother line\n";
    std::FILE* file = ::fmemopen(memory, sizeof memory, "r+");
    char some[100] = {};
    a.call("fgets", [&] { return std::fgets(some, sizeof some, file) != nullptr; });
    a.call("fseek", [&] { return std::fseek(file, 3, SEEK_SET); });
    a.call("fgetc", [&] { return std::fgetc(file); });
    close_stream(a, file);
    std::size_t left = 1 + a.rng.below(9000);
    file = ::fopencookie(&left, "r", {.read = make_letters, .write = nullptr, .seek = nullptr, .close = nullptr});
    a.call("fread", [&] { return static_cast<long>(std::fread(some, 1, sizeof some, file)); });
    a.call("__uflow", [&] { return ::__uflow(file); });
    while (std::fread(some, 1, sizeof some, file) == sizeof some) {}
    close_stream(a, file);
    std::FILE* volatile none = nullptr;  // glibc 2.41 declares that nobody passes it; programs that it has do
    a.call("fread of no FILE", [&] { return static_cast<long>(std::fread(some, 0, 5, none)); });
    a.call("fgets of no FILE", [&] { return std::fgets(some, 0, none) != nullptr; });
}

void wide(Actor& a) {
    std::FILE* file = open_stream(a, "r");
    if (!file) return;
    for (int i = 0; i < 5; ++i) a.call("fgetwc", [&] { return static_cast<long>(std::fgetwc(file)); });
    a.call("fgetc of a wide one", [&] { return std::fgetc(file); });
    close_stream(a, file);
}

}  // namespace

Operations stream_operations() {
    return {{"lines", 3, lines, true, true},           {"characters", 3, characters, true, true},
            {"places", 3, places, true, true},         {"reopened", 2, reopened, true, true},
            {"in no file", 1, in_no_file, true, true}, {"wide", 1, wide, true, true}};
}

}  // namespace chainio::random_program
