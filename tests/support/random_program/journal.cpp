// Changes one after the other, each of which is done or not done at once, and a journal that says how many there were.
// Killed anywhere, the files are as after as many changes as the journal has lines, or one more.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

constexpr off_t kPages = 8;

void one_change(Actor& a, int fd, unsigned file) {
    const std::string path = process.base + "/" + a.plain_path(file);
    const auto page = static_cast<off_t>(a.rng.below(static_cast<std::size_t>(kPages)));
    switch (a.rng.below(6)) {
        case 0: {  // within one page, so that no kill can cut it in two
            const auto data = a.random_bytes(1 + a.rng.below(2000));
            a.call("pwrite",
                   [&] { return ::pwrite(fd, data.data(), data.size(), page * static_cast<off_t>(kPage) + 100); });
            break;
        }
        case 1: a.call("ftruncate", [&] { return ::ftruncate(fd, static_cast<off_t>(a.rng.below(8 * kPage))); }); break;
        case 2: {
            const std::string to = process.base + "/" + a.plain_path(a.file());
            a.call("rename", [&] { return ::rename(path.c_str(), to.c_str()); });
            break;
        }
        case 3: a.call("unlink", [&] { return ::unlink(path.c_str()); }); break;
        case 4: {
            const int direct = ::open(path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
            const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(kPage, kPage), &std::free);
            std::memcpy(block.get(), a.random_bytes(kPage).data(), kPage);
            a.call("direct pwrite",
                   [&] { return ::pwrite(direct, block.get(), kPage, page * static_cast<off_t>(kPage)); });
            ::close(direct);
            break;
        }
        default: {
            const auto data = a.random_bytes(64);
            a.call("pwrite", [&] { return ::pwrite(fd, data.data(), data.size(), 0); });
        }
    }
}

}  // namespace

int run_journal(const std::string& folder, std::uint64_t seed, unsigned steps) {
    process.base = folder;
    Actor a("", seed, true, 0);
    a.make_files();
    const int journal =
        ::open((folder + "/journal").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (::write(1, "started\n", 8) != 8) return 1;
    const auto into = a.buffer(kMostBytes);
    for (unsigned step = 0; step < steps; ++step) {
        const unsigned file = a.file();
        const std::string path = folder + "/" + a.plain_path(file);
        int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);  // a change by itself
        } else {
            // Reads between the changes: they are what sets prefetches going.
            a.bytes(into.data(), ::pread(fd, into.data(), 4096, static_cast<off_t>(a.rng.below(8 * kPage))));
            one_change(a, fd, file);
        }
        ::close(fd);
        const std::string line = fmt::format("{:<15}\n", step);
        if (::write(journal, line.data(), line.size()) != 16) return 1;
    }
    ::close(journal);
    return 0;
}

}  // namespace chainio::random_program
