// One connection of the service: lines in, lines out, both bounded.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace chainio::runtime_tool {

class Client {
  public:
    static constexpr std::size_t kLongestLine = std::size_t{1} << 20;
    static constexpr std::size_t kMostOutput = std::size_t{4} << 20;

    explicit Client(int fd) : fd_(fd) {}
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    int fd() const { return fd_; }
    // Reads what there is. False: the peer is gone, or sent a line that is too long (an error is answered first).
    bool read_some();
    std::optional<std::string> next_line();
    bool has_line() const { return input_.find('\n') != std::string::npos; }
    void send(std::string_view text) { output_.append(text); }
    bool write_some();  // false: the peer is gone
    bool wants_write() const { return !output_.empty(); }
    // A peer that does not read its answers gets no more work done.
    bool may_read() const { return !closing_ && output_.size() < kMostOutput && input_.size() <= kLongestLine; }

    unsigned in_flight = 0;  // its chains in the engine
    bool closing() const { return closing_; }
    void close_when_done() { closing_ = true; }

  private:
    int fd_;
    std::string input_, output_;
    bool closing_ = false;  // no more is read; goes away when everything is answered
};

}  // namespace chainio::runtime_tool
