#include "tools/cloud_volume/pace.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

namespace chainio::cloud {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

}  // namespace

std::int64_t now_ns() {
    timespec now = {};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * kSecond + now.tv_nsec;
}

// As many reads as the rate gives within one delay may come at once without waiting for each other.
Pace::Pace(const PaceOptions& options)
    : delay_ns_(options.delay_ns),
      spacing_ns_(kSecond / options.reads_per_second),
      burst_ns_(options.delay_ns),
      thread_([this] { run(); }) {}

Pace::~Pace() {
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void Pace::set_overhead(std::int64_t ns) {
    const std::lock_guard lock(mutex_);
    delay_ns_ = std::max<std::int64_t>(0, delay_ns_ - ns);
}

void Pace::later(std::int64_t arrived_ns, std::function<void()> answer) {
    const std::lock_guard lock(mutex_);
    next_ns_ = std::max(next_ns_ + spacing_ns_, arrived_ns - burst_ns_);
    const std::int64_t due = std::max(arrived_ns, next_ns_) + delay_ns_;
    waiting_.push_back({due, std::move(answer)});
    if (waiting_.size() == 1) changed_.notify_one();
}

void Pace::sleep_until(std::int64_t due_ns) {
    const std::int64_t target = due_ns - late_ns_;
    const timespec until = {.tv_sec = target / kSecond, .tv_nsec = target % kSecond};
    if (target > now_ns()) {
        while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {}
        const std::int64_t late = std::clamp<std::int64_t>(now_ns() - target, 0, 200'000);
        late_ns_ += (late - late_ns_) / 16;
    }
}

void Pace::run() {
    ::prctl(PR_SET_TIMERSLACK, 1);
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        const std::int64_t due = waiting_.front().due_ns;
        lock.unlock();
        sleep_until(due);
        lock.lock();
        Waiting next = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        next.answer();
        lock.lock();
    }
}

}  // namespace chainio::cloud
