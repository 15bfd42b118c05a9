#include "tools/chainio-runtime/watch.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace chainio::runtime_tool {
namespace {

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool same_time(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

bool same_bytes(const struct stat& a, const struct stat& b) {
    return a.st_size == b.st_size && same_time(a.st_mtim, b.st_mtim);
}

// When the file was made to which a name leads; zero where the file system does not say.
timespec made_at(const char* path) {
    struct statx file{};
    if (statx(AT_FDCWD, path, 0, STATX_BTIME, &file) != 0 || (file.stx_mask & STATX_BTIME) == 0) return {};
    return {.tv_sec = file.stx_btime.tv_sec, .tv_nsec = file.stx_btime.tv_nsec};
}

// What has happened to a file that is declared immutable; empty: nothing. Who writes can put its time back, as `cp -p`
// and `rsync -t` do, but not the time of that.
std::string change_of(const struct stat& before, const struct stat& now) {
    if (!same_bytes(before, now)) return "is declared immutable and was written to; replace it by a rename";
    if (!same_time(before.st_ctim, now.st_ctim))
        return "is declared immutable and may have been written to, as its time of change (ctime) is another; it is "
               "opened anew";
    return {};
}

}  // namespace

void FileWatch::look_after(const Edition& edition) {
    files_.clear();
    for (const OpenFile& file : edition.files) {
        const engine::OpenedFile* opened = edition.engine->file(file.handle);
        if (opened == nullptr) continue;
        // What it was when it was opened: its name may lead elsewhere by now, and since then its header was read.
        files_.push_back({.path = file.path,
                          .immutable = edition.loaded->module().files[file.file_class].immutable,
                          .seen = opened->as_opened});
    }
}

std::vector<FileWatch::Notice> FileWatch::look() {
    std::vector<Notice> notices;
    for (Watched& file : files_) {
        struct stat now{};
        if (stat(file.path.c_str(), &now) != 0) {
            if (file.gone) continue;
            file.gone = true;
            notices.push_back(
                {false, fmt::format("'{}': {}; what was opened is read further", file.path, std::strerror(errno))});
            continue;
        }
        file.gone = false;
        std::string change;
        if (!same_file(file.seen, now) || (file.told && !same_time(file.made, made_at(file.path.c_str()))))
            change = "was replaced";
        else if (file.immutable)
            change = change_of(file.seen, now);
        if (change.empty()) continue;
        file.seen = now;
        file.made = made_at(file.path.c_str());
        file.told = true;
        notices.push_back({true, fmt::format("'{}' {}", file.path, change)});
    }
    return notices;
}

}  // namespace chainio::runtime_tool
