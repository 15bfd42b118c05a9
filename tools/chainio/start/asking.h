// Somebody who looks at the program's arguments meanwhile, since a file system may take long to answer, or for ever.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>

namespace chainio::start {

// A process of its own, which ends with this one. No wait for any child finds it.
class Asking {
  public:
    // When the answer is yes, 0 is stored at the futex and who waits there is woken. Where there can be no process,
    // there is no answer.
    Asking(const std::function<bool()>& ask, std::atomic<std::uint32_t>& asleep);
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    ~Asking();  // without waiting for an answer
    bool is_yes() const { return yes_ != nullptr && yes_->load(); }

  private:
    std::atomic<bool>* yes_ = nullptr;  // memory of both
    int pid_ = -1;
};

}  // namespace chainio::start
