// A Unix socket at a path, at which somebody listens and which is removed with its end.
#pragma once
#include <sys/types.h>

#include <expected>
#include <string>
#include <utility>

namespace chainio::runtime_tool {

class SocketFile {
  public:
    SocketFile() = default;
    // Of that type, as socket() has it, and with that mode: whoever may write to it may connect, and read what is
    // served. An error names the option that gave the path.
    static std::expected<SocketFile, std::string> listen(const std::string& path, int type, unsigned mode,
                                                         const char* option);
    SocketFile(SocketFile&& other) noexcept;
    SocketFile& operator=(SocketFile&& other) noexcept;
    SocketFile(const SocketFile&) = delete;
    SocketFile& operator=(const SocketFile&) = delete;
    ~SocketFile() { stop(); }

    int fd() const { return fd_; }  // -1: nobody listens
    const std::string& path() const { return path_; }
    void stop();

  private:
    int fd_ = -1;
    std::string path_;
    std::pair<dev_t, ino_t> own_{};  // of the socket there
};

}  // namespace chainio::runtime_tool
