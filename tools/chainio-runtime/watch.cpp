#include "tools/chainio-runtime/watch.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace chainio::runtime_tool {
namespace {

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool same_bytes(const struct stat& a, const struct stat& b) {
    return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

void FileWatch::look_after(const Edition& edition) {
    files_.clear();
    for (const OpenFile& file : edition.files) {
        Watched watched;
        watched.path = file.path;
        watched.immutable = edition.loaded->module().files[file.file_class].immutable;
        // What was opened, not what the name leads to by now.
        if (const auto* opened = edition.engine->file(file.handle);
            opened == nullptr || fstat(opened->fd, &watched.seen) != 0)
            continue;
        files_.push_back(std::move(watched));
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
        const bool replaced = !same_file(file.seen, now);
        if (!replaced && (!file.immutable || same_bytes(file.seen, now))) continue;
        file.seen = now;
        notices.push_back(
            {true, fmt::format("'{}' {}", file.path,
                               replaced ? "was replaced"
                                        : "is declared immutable and was written to; replace it by a rename")});
    }
    return notices;
}

}  // namespace chainio::runtime_tool
