// bench_replay FILE: reads the ranges that it is given (lines of `offset length`), as many at once as a disk takes,
// into the page cache. It says `ready` and begins when there is nothing more on its standard input: the oracle that
// knows what a program will read.
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <vector>

namespace {

constexpr unsigned kDepth = 128;
constexpr std::size_t kMost = 128 * 1024;

struct Range {
    std::uint64_t offset;
    unsigned length;
};

bool replay(io_uring& ring, int fd, const std::vector<Range>& ranges, std::vector<char>& memory) {
    std::size_t next = 0, in_flight = 0;
    while (next < ranges.size() || in_flight > 0) {
        for (; next < ranges.size() && in_flight < kDepth; ++next, ++in_flight) {
            io_uring_sqe* sqe = io_uring_get_sqe(&ring);
            if (!sqe) break;
            // Nobody looks at the bytes: all reads may land in one place.
            io_uring_prep_read(sqe, fd, memory.data(), ranges[next].length, ranges[next].offset);
        }
        if (io_uring_submit_and_wait(&ring, 1) < 0) return false;
        io_uring_cqe* cqe = nullptr;
        while (io_uring_peek_cqe(&ring, &cqe) == 0) {
            io_uring_cqe_seen(&ring, cqe);
            --in_flight;
        }
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const int fd = ::open(argv[1], O_RDONLY | O_CLOEXEC);
    io_uring ring = {};
    if (fd < 0 || io_uring_queue_init(2 * kDepth, &ring, 0) < 0) return std::perror("bench_replay"), 1;
    std::vector<Range> ranges;
    std::size_t count = 0;
    std::cin >> count;
    for (Range range = {}; ranges.size() < count && std::cin >> range.offset >> range.length;) {
        if (range.length <= kMost) ranges.push_back(range);
    }
    std::vector<char> memory(kMost);
    std::cout << "ready" << std::endl;
    char go = 0;
    std::cin.ignore(1);
    std::cin.get(go);
    return replay(ring, fd, ranges, memory) ? 0 : 1;
}
