// One connection of the service: lines in, lines out, both bounded.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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
    // Reads some of what there is. False: the peer is gone. After a line that is too long, which is answered with an
    // error, no more is read.
    bool read_some();
    std::optional<std::string> next_line();
    bool has_line() const { return lines_ != 0 || waiting_.has_value(); }
    // A line that cannot be done yet: the next one again.
    void put_back(std::string line) { waiting_ = std::move(line); }
    bool waits() const { return waiting_.has_value(); }
    void send(std::string_view text) { output_.append(text); }
    bool write_some();  // false: the peer is gone
    bool wants_write() const { return !output_.empty(); }
    // A peer that does not read its answers gets no more work done.
    bool may_answer() const { return output_.size() < kMostOutput; }
    bool may_read() const { return !closing_ && may_answer() && !waits() && input_.size() - taken_ <= kLongestLine; }

    unsigned in_flight = 0;  // its chains in the engine
    bool closing() const { return closing_; }
    void close_when_done() { closing_ = true; }

  private:
    void refuse_long_line();

    int fd_;
    std::string input_, output_;
    std::size_t taken_ = 0;  // bytes of the input's begin
    std::size_t lines_ = 0;  // whole ones, behind these
    std::optional<std::string> waiting_;
    bool closing_ = false;  // no more is read; goes away when everything is answered
};

}  // namespace chainio::runtime_tool
