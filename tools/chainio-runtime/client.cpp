#include "tools/chainio-runtime/client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "tools/chainio-runtime/request.h"

namespace chainio::runtime_tool {

Client::~Client() { close(fd_); }

bool Client::read_some() {
    char buffer[65536];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) {
        // The peer has sent all it wants to; it may still read answers.
        closing_ = true;
        return true;
    }
    input_.append(buffer, static_cast<std::size_t>(got));
    if (input_.size() > kLongestLine && !has_line()) {
        send(error_line(nullptr, "a line is longer than 1 MiB"));
        input_.clear();
        closing_ = true;
    }
    return true;
}

std::optional<std::string> Client::next_line() {
    const std::size_t end = input_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = input_.substr(0, end);
    input_.erase(0, end + 1);
    return line;
}

bool Client::write_some() {
    while (!output_.empty()) {
        const ssize_t sent = ::send(fd_, output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN;
        output_.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
}

}  // namespace chainio::runtime_tool
