#include "tools/chainio-runtime/look.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <utility>

namespace chainio::runtime_tool {
namespace {

enum class Phase : int { idle, asked, done, ends };

Seen ask(const std::string& path) {
    Seen seen;
    if (stat(path.c_str(), &seen.file) != 0) {
        seen.error = errno;
        return seen;
    }
    // The file system has just been asked.
    struct statx more{};
    if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, STATX_BTIME, &more) == 0 &&
        (more.stx_mask & STATX_BTIME) != 0)
        seen.made = {.tv_sec = more.stx_btime.tv_sec, .tv_nsec = more.stx_btime.tv_nsec};
    return seen;
}

}  // namespace

// Stays as long as a thread that nobody waits for.
struct Look::Shared {
    explicit Shared(std::vector<std::string> all) : paths(std::move(all)), seen(paths.size()) {}
    ~Shared() {
        if (fd >= 0) close(fd);
    }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    void ask_all() {
        for (std::size_t i = 0; i < paths.size() && phase.load(std::memory_order_acquire) != Phase::ends; i++) {
            at.store(i, std::memory_order_relaxed);
            seen[i] = ask(paths[i]);
        }
    }
    void run() {
        pthread_setname_np(pthread_self(), "chainio-look");
        for (Phase now = phase.load(); now != Phase::ends; now = phase.load()) {
            if (now != Phase::asked) {
                phase.wait(now);
                continue;
            }
            ask_all();
            if (!phase.compare_exchange_strong(now, Phase::done)) return;
            const std::uint64_t one = 1;
            // Whoever looked at the phase may have taken it already; then the next one is heard of too early.
            (void)!write(fd, &one, sizeof one);
        }
    }

    const std::vector<std::string> paths;
    std::vector<Seen> seen;  // the thread's while it is asked
    std::atomic<std::size_t> at = 0;
    std::atomic<Phase> phase = Phase::idle;
    int fd = -1;
};

Look::Look(std::vector<std::string> paths) : shared_(std::make_shared<Shared>(std::move(paths))) {
    if (!shared_->paths.empty()) start();
}

Look::~Look() {
    if (!thread_.joinable()) return;
    const Phase was = shared_->phase.exchange(Phase::ends);
    shared_->phase.notify_one();
    if (was == Phase::asked)
        thread_.detach();
    else
        thread_.join();
}

bool Look::start() {
    if (shared_->fd < 0) shared_->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (shared_->fd < 0) return false;
    try {
        thread_ = std::thread([shared = shared_] { shared->run(); });
    } catch (const std::exception&) {  // no thread, or no memory for one
        return false;
    }
    return true;
}

bool Look::begin() {
    assert(!is_under_way());
    if (!thread_.joinable() && !start()) {
        shared_->ask_all();
        shared_->phase.store(Phase::done);
        return false;
    }
    shared_->phase.store(Phase::asked);
    shared_->phase.notify_one();
    return true;
}

bool Look::is_under_way() const { return shared_->phase.load(std::memory_order_relaxed) != Phase::idle; }

bool Look::is_done() const { return shared_->phase.load(std::memory_order_acquire) == Phase::done; }

int Look::fd() const { return thread_.joinable() ? shared_->fd : -1; }

const std::string& Look::at() const { return shared_->paths[shared_->at.load(std::memory_order_relaxed)]; }

std::span<const Seen> Look::take() {
    assert(is_done());
    std::uint64_t count = 0;
    if (fd() >= 0) (void)!read(fd(), &count, sizeof count);
    shared_->phase.store(Phase::idle);
    return shared_->seen;
}

}  // namespace chainio::runtime_tool
