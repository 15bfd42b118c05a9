// What the contenders need of the operating system.
#pragma once
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>

namespace chainio::bench {

class File {  // open for O_DIRECT reads
  public:
    static std::expected<File, std::string> open_direct(const std::string& path);
    File(File&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    File& operator=(File&&) = delete;
    ~File();
    int fd() const { return fd_; }

  private:
    explicit File(int fd) : fd_(fd) {}
    int fd_;
};

class AlignedBlock {  // memory that O_DIRECT accepts, touched so that the first read does not fault
  public:
    explicit AlignedBlock(std::size_t bytes);
    std::span<std::uint8_t> bytes() const { return {memory_.get(), size_}; }

  private:
    struct Free {
        void operator()(std::uint8_t*) const;
    };
    std::size_t size_;
    std::unique_ptr<std::uint8_t, Free> memory_;
};

// Bytes that the block layer has fetched for this process, /proc/self/io; 0 when the kernel does not count them.
std::uint64_t device_bytes();

std::string errno_text(const std::string& what);

}  // namespace chainio::bench
