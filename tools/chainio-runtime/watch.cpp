#include "tools/chainio-runtime/watch.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace chainio::runtime_tool {
namespace {

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool same_time(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

bool same_bytes(const struct stat& a, const struct stat& b) {
    return a.st_size == b.st_size && same_time(a.st_mtim, b.st_mtim);
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
    std::vector<std::string> paths;
    for (const OpenFile& file : edition.files) {
        const engine::OpenedFile* opened = edition.engine->file(file.handle);
        if (opened == nullptr) continue;
        // What it was when it was opened: its name may lead elsewhere by now, and since then its header was read.
        files_.push_back({.path = file.path,
                          .immutable = edition.loaded->module().files[file.file_class].immutable,
                          .seen = opened->as_opened});
        paths.push_back(file.path);
    }
    look_ = std::make_unique<Look>(std::move(paths));
}

void FileWatch::look_at(Watched& file, const Seen& now, std::vector<Notice>& notices) {
    if (now.error != 0) {
        if (file.gone) return;
        file.gone = true;
        notices.push_back(
            {false, fmt::format("'{}': {}; what was opened is read further", file.path, std::strerror(now.error))});
        return;
    }
    file.gone = false;
    std::string change;
    if (!same_file(file.seen, now.file) || (file.told && !same_time(file.made, now.made)))
        change = "was replaced";
    else if (file.immutable)
        change = change_of(file.seen, now.file);
    if (change.empty()) return;
    file.seen = now.file;
    file.made = now.made;
    file.told = true;
    notices.push_back({true, fmt::format("'{}' {}", file.path, change)});
}

std::vector<FileWatch::Notice> FileWatch::take() {
    std::vector<Notice> notices;
    const std::span<const Seen> seen = look_->take();
    for (std::size_t i = 0; i < files_.size(); i++) look_at(files_[i], seen[i], notices);
    return notices;
}

}  // namespace chainio::runtime_tool
