// How a client comes to its channel: over a Unix socket (SOCK_SEQPACKET) it says which service it wants and how large
// the frames are to be, and is handed the region and the server's doorbell. docs/protocol.md specifies it byte for
// byte. The socket stays open as long as both are there, and is the client's doorbell.
#pragma once
#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "runtime/ipc/channel.h"
#include "runtime/ipc/own_fd.h"

namespace chainio::ipc {

inline constexpr std::size_t kMostName = 255;  // bytes of a service's name
inline constexpr std::size_t kMostWhy = 1000;  // bytes of a refusal

struct Hello {
    std::string service;
    Shape shape;
};

// What a client has not come in for, with what to do about it.
struct Trouble {
    int number;  // an errno
    std::string why;
};

struct Welcome {
    OwnFd region;
    OwnFd server_bell;  // wakes the server
};

// The client's side. A refusal by the server is ECONNREFUSED, and what is no answer EPROTO.
std::expected<void, Trouble> say_hello(int socket, const Hello& hello);
std::expected<Welcome, Trouble> hear_answer(int socket);

// The server's side. A hello that cannot be is an error, which is what to refuse the client with; one that has not
// come yet, or whose client is gone, is one without a word.
std::expected<Hello, std::string> hear_hello(int socket);
bool welcome(int socket, int region, int server_bell);
void refuse(int socket, std::string_view why);

// The server's side: wakes the client. It never waits, whatever the client does: an eventfd that both have could be
// made one that does. One that was rung and was not heard yet stays so.
void wake(int socket);
// The client's side: whether it was woken since the last time, or the server is gone.
enum class Heard : std::uint8_t { nothing, woken, gone };
Heard hear_wakes(int socket);

}  // namespace chainio::ipc
