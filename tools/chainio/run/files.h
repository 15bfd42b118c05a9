// Small things about files that several parts of `chainio run` need.
#pragma once
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace chainio::run {

class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    ~Descriptor() { reset(); }
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    void reset() {
        if (fd_ >= 0) ::close(fd_);
        fd_ = -1;
    }

  private:
    int fd_ = -1;
};

// The whole file, at most `most` bytes; the error is the system's reason.
std::expected<std::string, std::string> read_whole(int fd, std::size_t most);
std::expected<std::string, std::string> read_whole(const std::string& path, std::size_t most);
// Waits for room also where the descriptor is not to wait (O_NONBLOCK), which whoever shares it may have asked for; for
// five seconds at most each time.
bool write_whole(int fd, std::string_view bytes);
// The same where the end of a pipe's reader, or a limit of file sizes, is to end nothing but the call: what cannot be
// said must not keep a program from being started, nor hide how it has ended.
bool write_unharmed(int fd, std::string_view bytes);

// 32 hexadecimal digits that stand for the bytes.
std::string fingerprint(std::string_view bytes);

// Without links and dots, as the kernel names an open file; empty when there is no such file.
std::string resolved(const std::string& path);

}  // namespace chainio::run
