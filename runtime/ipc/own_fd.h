// A descriptor that is closed with whoever has it.
#pragma once
#include <unistd.h>

#include <utility>

namespace chainio::ipc {

class OwnFd {
  public:
    OwnFd() = default;
    explicit OwnFd(int fd) : fd_(fd) {}
    OwnFd(OwnFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    OwnFd& operator=(OwnFd&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    OwnFd(const OwnFd&) = delete;
    OwnFd& operator=(const OwnFd&) = delete;
    ~OwnFd() { reset(); }

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    void reset() {
        if (fd_ >= 0) close(fd_);
        fd_ = -1;
    }

  private:
    int fd_ = -1;
};

}  // namespace chainio::ipc
