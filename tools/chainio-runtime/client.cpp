#include "tools/chainio-runtime/client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tools/chainio-runtime/request.h"

namespace chainio::runtime_tool {

Client::~Client() { close(fd_); }

bool Client::read_some() {
    char buffer[65536];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) {
        // The peer has sent all it wants to; it may still read answers, also to a last line without an end.
        if (taken_ < input_.size() && input_.back() != '\n') {
            input_ += '\n';
            lines_++;
        }
        closing_ = true;
        return true;
    }
    // No byte is looked at or moved once for each line in front of it.
    if (taken_ > input_.size() / 2) input_.erase(0, std::exchange(taken_, 0));
    const std::string_view came(buffer, static_cast<std::size_t>(got));
    lines_ += static_cast<std::size_t>(std::ranges::count(came, '\n'));
    input_.append(came);
    refuse_long_line();
    return true;
}

// What is behind the last whole line is looked at once that one is taken.
void Client::refuse_long_line() {
    const std::size_t end = lines_ != 0 ? input_.find('\n', taken_) : input_.size();
    if (end - taken_ <= kLongestLine) return;
    send(error_line(nullptr, "a line is longer than 1 MiB"));
    input_.clear();
    taken_ = lines_ = 0;
    closing_ = true;
}

std::optional<std::string> Client::next_line() {
    if (waiting_) return std::exchange(waiting_, std::nullopt);
    if (lines_ == 0) return std::nullopt;
    const std::size_t end = input_.find('\n', taken_);
    std::string line = input_.substr(taken_, end - taken_);
    taken_ = end + 1;
    lines_--;
    refuse_long_line();
    return line;
}

bool Client::write_some() {
    std::size_t left = 0;
    bool alive = true;
    while (left < output_.size()) {
        const ssize_t sent = ::send(fd_, output_.data() + left, output_.size() - left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        alive = sent >= 0 || errno == EAGAIN;
        if (sent < 0) break;
        left += static_cast<std::size_t>(sent);
    }
    output_.erase(0, left);
    return alive;
}

}  // namespace chainio::runtime_tool
