// A thread that wakes a sleeping server when a probe's event has come.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

namespace chainio::probe {

class Waker {
  public:
    // Waits for `events` to become readable; then sets a futex `word` that is 1 to 0 and wakes its waiter. Takes no
    // signals. Null when there are no descriptors left, or no thread can be made; the server then
    // looks for itself.
    static std::unique_ptr<Waker> start(int events, std::atomic<std::uint32_t>& word);
    ~Waker();
    Waker(const Waker&) = delete;
    Waker& operator=(const Waker&) = delete;

  private:
    Waker(int poll, int stop, std::atomic<std::uint32_t>& word) : poll_(poll), stop_(stop), word_(word) {}
    void run() const;
    int poll_, stop_;
    std::atomic<std::uint32_t>& word_;
    std::thread thread_;
};

}  // namespace chainio::probe
