// Files by their names: renames, links, folders, what stat says.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

void rename_file(Actor& a) {
    const unsigned from = a.file(), to = a.file();
    const std::string old_path = a.path(from), new_path = a.path(to);
    switch (a.rng.below(3)) {
        case 0:
            a.call(fmt::format("rename {} {}", from, to), [&] { return ::rename(old_path.c_str(), new_path.c_str()); });
            break;
        case 1:
            a.call("renameat", [&] { return ::renameat(AT_FDCWD, old_path.c_str(), AT_FDCWD, new_path.c_str()); });
            break;
        default:
            a.call("renameat2", [&] {
                return ::renameat2(AT_FDCWD, old_path.c_str(), AT_FDCWD, new_path.c_str(),
                                   a.rng.chance(50) ? RENAME_EXCHANGE : RENAME_NOREPLACE);
            });
    }
}

void link_file(Actor& a) {
    const unsigned from = a.file(), to = a.file();
    const std::string old_path = a.path(from), new_path = a.path(to);
    const bool symbolic = a.rng.chance(50);
    if (a.rng.chance(70)) a.call("unlink", [&] { return ::unlink(new_path.c_str()); });
    if (symbolic) {
        const std::string target = fmt::format("f{}{}", from, from % 4 == 2 ? ".idx" : from % 4 == 3 ? ".txt" : ".dat");
        a.call("symlink", [&] { return ::symlink(target.c_str(), new_path.c_str()); });
        char text[64] = {};
        a.bytes(text, a.call("readlink", [&] { return ::readlink(new_path.c_str(), text, sizeof text); }));
    } else {
        a.call("link", [&] { return ::link(old_path.c_str(), new_path.c_str()); });
    }
}

void remove_file(Actor& a) {
    const unsigned file = a.file();
    const std::string path = a.path(file);
    a.call(fmt::format("unlink {}", file), [&] { return ::unlink(path.c_str()); });
    if (a.rng.chance(70)) {
        const int fd = a.call_fd("creat", [&] { return ::creat(path.c_str(), 0600); });
        const auto data = a.random_bytes(a.rng.below(kMostBytes));
        a.call("write", [&] { return ::write(fd, data.data(), data.size()); });
        a.keep(fd);
    }
}

void stat_line(Actor& a, const struct stat& st) {
    a.text(fmt::format("mode {:o} links {} size {} blocks of {}", st.st_mode, S_ISDIR(st.st_mode) ? 0 : st.st_nlink,
                       S_ISDIR(st.st_mode) ? 0 : st.st_size, st.st_blksize));
}

void stat_file(Actor& a) {
    struct stat st = {};
    struct statx stx = {};
    const int fd = a.slot();
    const std::string path = a.path(a.file());
    switch (a.rng.below(5)) {
        case 0: a.call("stat", [&] { return ::stat(path.c_str(), &st); }); break;
        case 1: a.call("lstat", [&] { return ::lstat(path.c_str(), &st); }); break;
        case 2: a.call("fstat", [&] { return ::fstat(fd, &st); }); break;
        case 3: a.call("fstatat", [&] { return ::fstatat(AT_FDCWD, path.c_str(), &st, AT_SYMLINK_NOFOLLOW); }); break;
        default:
            a.call("statx", [&] { return ::statx(fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_MODE, &stx); });
            a.text(fmt::format("statx {} {:o}", stx.stx_size, stx.stx_mode));
    }
    stat_line(a, st);
    a.call("access", [&] { return ::access(path.c_str(), R_OK | W_OK); });
    a.call("chmod", [&] { return ::chmod(path.c_str(), 0600 | (a.rng.chance(50) ? 0044 : 0)); });
}

// Reading must leave a file's times of change alone.
void times(Actor& a) {
    const int fd = a.open_some(O_RDONLY);
    struct stat before = {}, after = {};
    ::fstat(fd, &before);
    const auto into = a.buffer(5000);
    a.bytes(into.data(), a.call("read", [&] { return ::read(fd, into.data(), into.size()); }));
    ::fstat(fd, &after);
    a.note("changed by reading",
           before.st_mtim.tv_nsec != after.st_mtim.tv_nsec || before.st_ctim.tv_nsec != after.st_ctim.tv_nsec);
    ::close(fd);
}

void list_folder(Actor& a) {
    std::vector<std::string> names;
    const std::string path = process.base + "/" + (a.folder.empty() ? "sub" : a.folder);
    DIR* folder = ::opendir(path.c_str());
    if (folder) {
        while (const dirent* entry = ::readdir(folder)) names.emplace_back(entry->d_name);
        if (a.alone) a.note("dirfd", ::dirfd(folder));
        ::closedir(folder);
    }
    std::ranges::sort(names);
    for (const std::string& name : names) a.text(name);
}

void folders(Actor& a) {
    const std::string path = process.base + "/" + a.folder + "made";
    a.call("mkdir", [&] { return ::mkdir(path.c_str(), 0750); });
    const int folder = a.call_fd("open folder", [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY); });
    const auto into = a.buffer(100);
    a.call("read a folder", [&] { return ::read(folder, into.data(), into.size()); });
    const int inside = a.call_fd("openat", [&] { return ::openat(folder, "in.dat", O_RDWR | O_CREAT, 0600); });
    const auto data = a.random_bytes(4000);
    a.call("write", [&] { return ::write(inside, data.data(), data.size()); });
    a.call("mkdirat", [&] { return ::mkdirat(folder, "deep", 0700); });
    a.call("renameat", [&] { return ::renameat(folder, "in.dat", folder, "deep/in.idx"); });
    const int again = a.call_fd("openat deep", [&] { return ::openat(folder, "deep/../deep/in.idx", O_RDONLY); });
    const auto back = a.buffer(5000);
    a.bytes(back.data(), a.call("read", [&] { return ::read(again, back.data(), back.size()); }));
    for (const int fd : {inside, again}) ::close(fd);
    a.call("unlinkat", [&] { return ::unlinkat(folder, "deep/in.idx", 0); });
    a.call("rmdir of a file's folder", [&] { return ::unlinkat(folder, "deep", AT_REMOVEDIR); });
    ::close(folder);
    a.call("rmdir", [&] { return ::rmdir(path.c_str()); });
}

void change_folder(Actor& a) {
    const std::string path = process.in_sub ? process.base : process.base + "/sub";
    if (a.rng.chance(50)) {
        a.call("chdir", [&] { return ::chdir(path.c_str()); });
    } else {
        const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
        a.call("fchdir", [&] { return ::fchdir(fd); });
        ::close(fd);
    }
    process.in_sub = !process.in_sub;
}

void temporary(Actor& a) {
    const int fd = a.call_fd("O_TMPFILE", [&] { return ::open(process.base.c_str(), O_TMPFILE | O_RDWR, 0600); });
    const auto data = a.random_bytes(3000);
    a.call("write", [&] { return ::write(fd, data.data(), data.size()); });
    const unsigned file = a.file();
    const std::string to = a.path(file), from = fmt::format("/proc/self/fd/{}", fd);
    ::unlink(to.c_str());
    a.call("linkat", [&] { return ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW); });
    const int again = a.call_fd("open by /proc", [&] { return ::open(from.c_str(), O_RDONLY); });
    const auto back = a.buffer(4000);
    a.bytes(back.data(), a.call("read", [&] { return ::read(again, back.data(), back.size()); }));
    a.keep(again);
    a.keep(fd);
    std::string made = process.base + "/" + a.folder + "tmpXXXXXX";
    const int other = a.call_fd("mkstemp", [&] { return ::mkstemp(made.data()); });
    ::close(other);
    a.call("remove", [&] { return std::remove(made.c_str()); });
}

void wrong_names(Actor& a) {
    const std::string file = process.base + "/" + a.plain_path(0);
    const std::string under_file = file + "/x.dat", missing = process.base + "/missing/y.dat",
                      long_name = process.base + "/" + std::string(300, 'n') + ".dat";
    const std::string very_long = std::string(5000, '/') + "z.dat";
    for (const std::string* path : {&under_file, &missing, &long_name, &very_long}) {
        a.call_fd("open", [&] { return ::open(path->c_str(), O_RDONLY); });
    }
    a.call_fd("open nothing", [&] { return ::open("", O_RDWR | O_CREAT, 0600); });
    a.call_fd("open null", [&] { return ::syscall(SYS_open, nullptr, O_RDONLY); });
    a.call_fd("openat nowhere", [&] { return ::openat(9999, "f0.dat", O_RDONLY); });
    const auto into = a.buffer(10);
    a.call("read of no descriptor", [&] { return ::read(-1, into.data(), into.size()); });
    a.call("pread of a far descriptor", [&] { return ::pread(1 << 20, into.data(), into.size(), 0); });
    const int fd = a.slot();
    a.call("read to nowhere", [&] { return ::syscall(SYS_read, fd, nullptr, 0); });
}

}  // namespace

Operations name_operations() {
    return {{"rename", 5, rename_file, true, true},  {"link", 3, link_file, true, true},
            {"remove", 3, remove_file, true, true},  {"stat", 5, stat_file, true, true},
            {"times", 2, times, true, true},         {"list", 1, list_folder, true, true},
            {"folders", 2, folders, true, true},     {"chdir", 2, change_folder, false, true},
            {"temporary", 2, temporary, true, true}, {"wrong", 2, wrong_names, true, true}};
}

}  // namespace chainio::random_program
