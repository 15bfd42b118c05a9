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
#include <vector>

#include "runtime/shim/raw.h"
#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

constexpr off_t kPages = 8;
constexpr std::size_t kFixedPages = 24;

using Block = std::unique_ptr<void, decltype(&std::free)>;
Block page_of_memory() { return {std::aligned_alloc(kPage, kPage), &std::free}; }

// A file that stays as it is and is read past the page cache, so that the server beside may answer.
class Fixed {
  public:
    explicit Fixed(Actor& a) {
        const std::string path = process.base + "/fixed.imm";
        const auto data = a.random_bytes(kFixedPages * kPage);
        bytes_.assign(data.begin(), data.end());
        const int made = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
        if (::write(made, bytes_.data(), bytes_.size()) < 0) a.text("no fixed file");
        ::close(made);
        if (process.served) ::usleep(80'000);  // files that have just changed are not served
        fd_ = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    }
    ~Fixed() { ::close(fd_); }
    Fixed(const Fixed&) = delete;

    // Whether a page of it is still what was written. Where the file system has no O_DIRECT, there is nothing to ask.
    bool is_same(Actor& a) {
        const std::size_t at = a.rng.below(kFixedPages) * kPage;
        if (fd_ < 0) return true;
        const auto got = ::pread(fd_, into_.get(), kPage, static_cast<off_t>(at));
        return got == static_cast<ssize_t>(kPage) && std::memcmp(into_.get(), bytes_.data() + at, kPage) == 0;
    }

  private:
    std::vector<std::uint8_t> bytes_;
    Block into_ = page_of_memory();
    int fd_ = -1;
};

// Reads between the changes are what sets prefetches going: by libc, past it, and told of by a function.
// In a function with a jump table, as is that of the changes, no system call is rewritten.
[[gnu::noinline]] void read_between(Actor& a, int fd, const std::string& name, std::span<std::uint8_t> into) {
    chainio_random_step(name.c_str());
    a.bytes(into.data(), ::pread(fd, into.data(), 4096, static_cast<off_t>(a.rng.below(8 * kPage))));
    const auto at = static_cast<long>(a.rng.below(8 * kPage));
    a.bytes(into.data(), shim::raw_call(SYS_pread64, fd, shim::word(into.data()), 4096, at));
}

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
            const Block block = page_of_memory();
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
    Fixed fixed(a);
    const int journal =
        ::open((folder + "/journal").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (::write(1, "started\n", 8) != 8) return 1;
    const auto into = a.buffer(kMostBytes);
    for (unsigned step = 0; step < steps; ++step) {
        const unsigned file = a.file();
        const std::string name = a.plain_path(file), path = folder + "/" + name;
        int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);  // a change by itself
        } else {
            read_between(a, fd, name, into);
            one_change(a, fd, file);
        }
        ::close(fd);
        if (a.rng.chance(12) && !fixed.is_same(a)) return 1;
        const std::string line = fmt::format("{:<15}\n", step);
        if (::write(journal, line.data(), line.size()) != 16) return 1;
    }
    ::close(journal);
    return 0;
}

}  // namespace chainio::random_program
