// When an answer of the emulated volume leaves: a fixed time after its request came, and not more than so many a
// second.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace chainio::cloud {

std::int64_t now_ns();

struct PaceOptions {
    std::int64_t delay_ns = 500'000;
    std::int64_t reads_per_second = 16'000;
};

// Answers leave in the order in which their requests came: the delay is the same for all, and so is the rate.
class Pace {
  public:
    explicit Pace(const PaceOptions& options);
    ~Pace();
    Pace(const Pace&) = delete;
    // Calls `answer` from the thread of this object when its time has come.
    void later(std::int64_t arrived_ns, std::function<void()> answer);
    // What the way through the kernel takes is part of the delay that a program sees.
    void set_overhead(std::int64_t ns);

  private:
    struct Waiting {
        std::int64_t due_ns;
        std::function<void()> answer;
    };
    void run();
    void sleep_until(std::int64_t due_ns);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Waiting> waiting_;
    std::int64_t delay_ns_, spacing_ns_, burst_ns_, next_ns_ = 0;
    std::int64_t late_ns_ = 0;  // by how much the timer wakes us late, on average
    bool ended_ = false;
    std::thread thread_;
};

}  // namespace chainio::cloud
