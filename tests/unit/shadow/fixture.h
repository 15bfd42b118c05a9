// A server on a thread of the test, specs from text, and files whose pages are put out of the page cache.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/shadow/server.h"
#include "tests/support/shadow_poster.h"

namespace chainio::shadow::test {

inline constexpr std::uint32_t kPage = 4096;
inline constexpr std::uint64_t kMs = 1'000'000;  // nanoseconds

// A page of a file names other pages of it: a count, and the numbers.
inline const char* const kPointers = R"(
app pointers { files data = "*.ptr" }
record Page { count: u32le  page: u32le[count max 64] }
chain follow on read(data) as r {
  for p in r.record(Page).page max 64 { prefetch r.file at p * 4096 for 4096 }
}
)";

// A thread that has read much at a time of a column has the beginnings of others fetched.
inline const char* const kHeads = R"(
app columns { files columns = "*.col" }
chain more on read(columns) as r { if r.total >= 4096MiB { prefetch r.file at 0 for 4096 } }
chain head on open(columns) as c { when c.last_read >= 256KiB { prefetch c.file at 0 for 64KiB } }
)";

// A spec's text, compiled without clang: its programs are interpreted. Imports are found in the library of the sources.
std::shared_ptr<const spec::Loaded> compiled(const std::string& text);

// A directory beside the test program (/tmp may be a tmpfs, which has no device to read from), removed at the end.
class Folder {
  public:
    Folder();
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const std::string& path() const { return path_; }
    std::string write(const std::string& name, const std::string& bytes) const;

  private:
    std::string path_;
};

// Puts a file's pages out of the page cache.
void drop_pages(const std::string& path);
// How many of its pages are in memory, in [first, first + count).
unsigned pages_in_memory(const std::string& path, std::uint64_t first, std::uint64_t count);

struct Pages {
    std::uint64_t first, count;
};

// Pages of a file that are looked for until each was in memory at some time: one that has been may be taken away again,
// as InMemory says.
class Seen {
  public:
    Seen(std::string path, const Pages& pages) : path_(std::move(path)), pages_(pages), seen_(pages.count) {}
    // Looks again: how many were seen so far, and whether all were.
    std::uint64_t look();
    bool all() { return look() == pages_.count; }

  private:
    std::string path_;
    Pages pages_;
    std::vector<bool> seen_;
    std::uint64_t count_ = 0;
};

// Whether each of these pages is seen some time from now on.
bool come(const std::string& path, const std::vector<Pages>& pages);
// How many of a file's first `total` pages are in memory besides these, which are named in their order.
unsigned in_memory_besides(const std::string& path, std::uint64_t total, const std::vector<Pages>& these);

// Pages of a file that are in memory while this lives, whoever wants them out: the machines of this project lose a few
// pages of the cache every few seconds with most of their memory free.
class InMemory {
  public:
    InMemory(const std::string& path, std::uint64_t first, std::uint64_t count);
    ~InMemory();
    InMemory(const InMemory&) = delete;
    InMemory& operator=(const InMemory&) = delete;

  private:
    void* at_;
    std::size_t bytes_;
};

// With a limit that leaves room for so many more.
class FewDescriptors {
  public:
    explicit FewDescriptors(unsigned more) {
        getrlimit(RLIMIT_NOFILE, &before_);
        std::vector<int> held;
        for (unsigned i = 0; i <= more; i++) held.push_back(open("/", O_PATH | O_CLOEXEC));
        const rlimit few{static_cast<rlim_t>(held.back()), before_.rlim_max};
        for (const int fd : held) close(fd);
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    }
    ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
    FewDescriptors(const FewDescriptors&) = delete;
    FewDescriptors& operator=(const FewDescriptors&) = delete;

  private:
    rlimit before_{};
};

// The address of `what` happening within a generous time.
bool happens(const std::function<bool()>& what);

// Waits until a file was last changed so long ago that the server serves it: its times would tell of another change.
bool until_settled(const std::string& path);

class Running {
  public:
    explicit Running(std::unique_ptr<Server> server);
    ~Running() { stop(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    void stop();
    Server& server() { return *server_; }
    const shim::ChainStats& chain(unsigned i = 0) const { return server_->region().stats.chains[i]; }
    const shim::Stats& stats() const { return server_->region().stats; }
    shim::Region& region() { return *region_.get(); }

  private:
    std::unique_ptr<Server> server_;
    tests::MappedRegion region_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

std::unique_ptr<Server> server_of(const std::string& spec, const ServerOptions& options = {});

}  // namespace chainio::shadow::test
