#include "runtime/ipc/meeting.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>

namespace chainio::ipc {
namespace {

constexpr std::uint32_t kMagic = 0x74656d63;  // "cmet"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kDescriptors = 2;
constexpr unsigned kMostWakes = 64;  // that are heard at once

struct HelloHead {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t name_bytes;
    std::uint32_t frames;
    std::uint32_t frame_bytes;
};
static_assert(sizeof(HelloHead) == 16);

struct AnswerHead {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t why_bytes;  // 0: welcome
};
static_assert(sizeof(AnswerHead) == 8);

template <class Head>
struct Message {
    Head head{};
    std::array<char, kMostWhy> text{};
};

std::string other_version(std::uint16_t theirs) {
    return "the other side meets in version " + std::to_string(theirs) + ", this one in " + std::to_string(kVersion) +
           ": use the same version of ChainIO on both sides";
}

std::unexpected<Trouble> trouble(int number, std::string why) {
    return std::unexpected(Trouble{number, std::move(why)});
}

template <class Head>
bool send_message(int socket, const Head& head, std::string_view text, std::initializer_list<int> descriptors) {
    std::array<iovec, 2> parts{iovec{const_cast<Head*>(&head), sizeof head},
                               iovec{const_cast<char*>(text.data()), text.size()}};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    if (descriptors.size() != 0) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
        std::memcpy(CMSG_DATA(header), descriptors.begin(), descriptors.size() * sizeof(int));
    }
    ssize_t sent = 0;
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

// Its length, as recvmsg has it. What came with it is the caller's to close.
template <class Head>
ssize_t receive_message(int socket, Message<Head>& out, std::array<OwnFd, kDescriptors>& descriptors) {
    std::array<iovec, 2> parts{iovec{&out.head, sizeof out.head}, iovec{out.text.data(), out.text.size()}};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t got = 0;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    std::size_t count = 0;
    for (cmsghdr* header = got < 0 ? nullptr : CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < here; i++) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            OwnFd own(fd);
            if (count < kDescriptors) descriptors[count++] = std::move(own);
        }
    }
    return got;
}

}  // namespace

std::expected<void, Trouble> say_hello(int socket, const Hello& hello) {
    if (hello.service.empty() || hello.service.size() > kMostName)
        return trouble(EINVAL, "the name of a service has 1 to " + std::to_string(kMostName) + " bytes, not " +
                                   std::to_string(hello.service.size()));
    if (std::string wrong = wrong_shape(hello.shape); !wrong.empty()) return trouble(EINVAL, std::move(wrong));
    const HelloHead head{kMagic, kVersion, static_cast<std::uint16_t>(hello.service.size()), hello.shape.frames,
                         hello.shape.frame_bytes};
    if (send_message(socket, head, hello.service, {})) return {};
    const int error = errno;
    return trouble(error, std::string("the server cannot be told what is wanted: ") + std::strerror(error));
}

std::expected<Welcome, Trouble> hear_answer(int socket) {
    Message<AnswerHead> message;
    std::array<OwnFd, kDescriptors> descriptors;
    const ssize_t got = receive_message(socket, message, descriptors);
    const int error = errno;
    if (got < 0) return trouble(error, std::string("the server does not answer: ") + std::strerror(error));
    if (got == 0)
        return trouble(ECONNRESET, "the server has closed the connection: it is ending, or is another program's");
    if (got < static_cast<ssize_t>(sizeof message.head) || message.head.magic != kMagic)
        return trouble(EPROTO, "what answers there is no server of ChainIO's rings");
    if (message.head.version != kVersion) return trouble(EPROTO, other_version(message.head.version));
    const auto room = static_cast<std::size_t>(got) - sizeof message.head;
    if (message.head.why_bytes != 0)
        return trouble(ECONNREFUSED,
                       std::string(message.text.data(), std::min<std::size_t>(message.head.why_bytes, room)));
    if (!descriptors.back())
        return trouble(EMFILE,
                       "the server's memory could not be taken over: too many descriptors are open (ulimit -n)");
    if (!is_bell(descriptors[1].get()))
        return trouble(EPROTO, "the server's doorbell is none: it could hold up whoever rings");
    return Welcome{std::move(descriptors[0]), std::move(descriptors[1])};
}

std::expected<Hello, std::string> hear_hello(int socket) {
    Message<HelloHead> message;
    std::array<OwnFd, kDescriptors> descriptors;
    const ssize_t got = receive_message(socket, message, descriptors);
    if (got <= 0) return std::unexpected(std::string());
    if (got < static_cast<ssize_t>(sizeof message.head) || message.head.magic != kMagic)
        return std::unexpected("this socket is for clients of rings: what came is no hello of theirs");
    if (message.head.version != kVersion) return std::unexpected(other_version(message.head.version));
    const auto room = static_cast<std::size_t>(got) - sizeof message.head;
    if (message.head.name_bytes == 0 || message.head.name_bytes > kMostName || message.head.name_bytes != room)
        return std::unexpected("the name of a service has 1 to " + std::to_string(kMostName) + " bytes");
    Hello hello{std::string(message.text.data(), room), {message.head.frames, message.head.frame_bytes}};
    if (std::string wrong = wrong_shape(hello.shape); !wrong.empty()) return std::unexpected(std::move(wrong));
    return hello;
}

bool welcome(int socket, int region, int server_bell) {
    return send_message(socket, AnswerHead{kMagic, kVersion, 0}, {}, {region, server_bell});
}

void refuse(int socket, std::string_view why) {
    why = why.substr(0, kMostWhy);
    send_message(socket, AnswerHead{kMagic, kVersion, static_cast<std::uint16_t>(why.size())}, why, {});
}

void wake(int socket) { send(socket, "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL); }

Heard hear_wakes(int socket) {
    Heard heard = Heard::nothing;
    for (unsigned i = 0; i < kMostWakes; i++) {
        char byte = 0;
        const ssize_t got = recv(socket, &byte, sizeof byte, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return Heard::gone;
        if (got < 0) return heard;
        heard = Heard::woken;
    }
    return heard;
}

}  // namespace chainio::ipc
