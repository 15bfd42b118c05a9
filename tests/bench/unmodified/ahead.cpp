// bench_ahead PIECE READERS: brings files into the page cache whose paths it is given (one a line, up to an empty one),
// in their order, so many at a time: each whole and as the shadow server begins it, or, where PIECE is not 0, in pieces
// of so many bytes. It says `ready` and begins with the next line: the oracle that knows which files a program will
// read. Nothing is copied: a reader has the kernel begin a piece, and waits for its last byte.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/shadow/devices.h"
#include "tests/support/no_walks.h"

namespace {

using chainio::shadow::Devices;
using chainio::shadow::Disk;

struct File {
    int fd;
    off_t size;
    std::uint64_t read_ahead;
};

struct Piece {
    int fd = -1;
    off_t begin = 0, bytes = 0;
    Disk::Filled filled = {};
};

class Work {
  public:
    Work(std::vector<File> files, off_t piece) : files_(std::move(files)), piece_(piece) {}
    // The next piece, which has been begun; no descriptor: there is none left.
    Piece begin_next() {
        const std::scoped_lock lock(mutex_);
        while (file_ < files_.size() && at_ >= files_[file_].size) file_++, at_ = 0;
        if (file_ == files_.size()) return {};
        const File& file = files_[file_];
        const off_t rest = file.size - at_;
        Piece next{file.fd, at_, piece_ == 0 ? rest : std::min(piece_, rest)};
        at_ += next.bytes;
        const auto bytes = static_cast<std::uint64_t>(next.bytes);
        if (piece_ == 0 && file.read_ahead != 0) {
            disk_.begin_file(file.fd, bytes, file.read_ahead, true);
            next.filled = disk_.filled();
        } else {
            readahead(next.fd, next.begin, bytes);
        }
        return next;
    }
    // What is begun next goes by what this one's memory has cost.
    void has_come(const Piece& piece) {
        const std::scoped_lock lock(mutex_);
        disk_.look_at(piece.fd, piece.filled);
    }

  private:
    chainio::tests::NoWalks nobody_;
    chainio::metrics::Fallbacks fallbacks_;
    Disk disk_{1, 0, nobody_, fallbacks_};
    std::mutex mutex_;
    std::vector<File> files_;
    off_t piece_, at_ = 0;
    std::size_t file_ = 0;
};

void bring(Work& work) {
    char byte = 0;
    for (Piece piece; (piece = work.begin_next()).fd >= 0;) {
        if (pread(piece.fd, &byte, 1, piece.begin + piece.bytes - 1) < 0) std::perror("bench_ahead");
        work.has_come(piece);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    std::vector<File> files;
    Devices devices;
    for (std::string path; std::getline(std::cin, path) && !path.empty();) {
        const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat info = {};
        if (fd < 0 || fstat(fd, &info) != 0) return std::perror(path.c_str()), 1;
        // The kernel is to read what is asked for and nothing else, as it does for the program's last byte.
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        const auto size = static_cast<std::uint64_t>(info.st_size);
        files.push_back({fd, info.st_size, devices.of(info.st_dev, fd, size).read_ahead});
    }
    Work work(std::move(files), std::atol(argv[1]));
    std::cout << "ready" << std::endl;
    std::string go;
    std::getline(std::cin, go);
    std::vector<std::jthread> readers;
    for (int i = std::atoi(argv[2]); i > 0; i--) readers.emplace_back([&] { bring(work); });
    return 0;
}
