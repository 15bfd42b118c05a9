// A program that is stopped by itself, and continued by somebody who knows nothing of chainio.
#pragma once

namespace chainio::run {

// Whether a signal has stopped it, and nothing has continued it since. False where /proc does not say.
bool is_stopped(int process);

// A process that continues this one as soon as the program is not stopped any more: a stopped process hears of nothing.
// All signals are blocked while it is made and ended.
class Watcher {
  public:
    explicit Watcher(int program);
    ~Watcher();
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    // False where processes cannot be looked at: then it is better not to stop.
    explicit operator bool() const { return pid_ > 0; }

  private:
    int pid_ = -1;
};

}  // namespace chainio::run
