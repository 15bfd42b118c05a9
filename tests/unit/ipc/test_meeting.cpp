#include "runtime/ipc/meeting.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <string>

namespace chainio::ipc {
namespace {

struct Sockets {
    Sockets() {
        std::array<int, 2> both{};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both.data()), 0);
        client = OwnFd(both[0]);
        server = OwnFd(both[1]);
    }
    OwnFd client, server;
};

bool same_file(int a, int b) {
    struct stat of_a{}, of_b{};
    return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_ino == of_b.st_ino && of_a.st_dev == of_b.st_dev;
}

TEST(Meeting, AWelcomeHandsOverTheRegionAndTheBells) {
    const Sockets sockets;
    ASSERT_TRUE(say_hello(sockets.client.get(), {"store", {8, 4096}}));
    const auto hello = hear_hello(sockets.server.get());
    ASSERT_TRUE(hello);
    EXPECT_EQ(hello->service, "store");
    EXPECT_EQ(hello->shape.frames, 8u);
    EXPECT_EQ(hello->shape.frame_bytes, 4096u);
    auto server = ServerEnd::create(hello->shape);
    ASSERT_TRUE(server);
    const OwnFd server_bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    ASSERT_TRUE(welcome(sockets.server.get(), server->region().fd(), server_bell.get()));
    const auto heard = hear_answer(sockets.client.get());
    ASSERT_TRUE(heard) << heard.error().why;
    EXPECT_TRUE(same_file(heard->region.get(), server->region().fd()));
    // Doorbells have no file of their own to be known by: what is rung here is heard there.
    ring_bell(heard->server_bell.get());
    EXPECT_TRUE(hush_bell(server_bell.get()));
    EXPECT_EQ(hear_wakes(sockets.client.get()), Heard::nothing);
    wake(sockets.server.get());
    EXPECT_EQ(hear_wakes(sockets.client.get()), Heard::woken);
    EXPECT_EQ(hear_wakes(sockets.client.get()), Heard::nothing);
    auto client = ClientEnd::attach(heard->region.get());
    ASSERT_TRUE(client) << client.error();
    EXPECT_EQ(client->shape().frames, 8u);
}

// Whoever rings what cannot take more waits in it, or is ended by a signal.
TEST(Meeting, DoorbellsAreNoPipesAndNoSockets) {
    const auto refusal = [](int server_bell) {
        const Sockets sockets;
        const auto server = ServerEnd::create({1, 512});
        EXPECT_TRUE(welcome(sockets.server.get(), server->region().fd(), server_bell));
        const auto heard = hear_answer(sockets.client.get());
        return heard ? "" : heard.error().why;
    };
    const OwnFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), blocking(eventfd(0, EFD_CLOEXEC));
    const Sockets sockets;
    std::array<int, 2> pipe{};
    ASSERT_EQ(pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK), 0);
    const OwnFd in(pipe[0]), out(pipe[1]);
    EXPECT_EQ(refusal(bell.get()), "");
    for (const int other : {blocking.get(), sockets.client.get(), in.get(), out.get()})
        EXPECT_EQ(refusal(other), "the server's doorbell is none: it could hold up whoever rings");
}

// Nor is it ended by a signal.
TEST(Meeting, WhoWakesAClientNeverWaitsForIt) {
    Sockets sockets;
    // A socket that its client has made one that waits is no other.
    fcntl(sockets.server.get(), F_SETFL, fcntl(sockets.server.get(), F_GETFL) & ~O_NONBLOCK);
    for (int i = 0; i < 10'000; i++) wake(sockets.server.get());
    EXPECT_EQ(hear_wakes(sockets.client.get()), Heard::woken);
    while (hear_wakes(sockets.client.get()) == Heard::woken) {}
    wake(sockets.server.get());
    EXPECT_EQ(hear_wakes(sockets.client.get()), Heard::woken);
    wake(sockets.server.get());
    sockets.server.reset();
    EXPECT_EQ(hear_wakes(sockets.client.get()), Heard::gone);
    EXPECT_EQ(hear_wakes(sockets.client.get()), Heard::gone);
    Sockets others;
    others.client.reset();
    wake(others.server.get());
}

TEST(Meeting, ARefusalSaysWhy) {
    const Sockets sockets;
    refuse(sockets.server.get(), "there is no service 'x'");
    EXPECT_EQ(hear_answer(sockets.client.get()).error().why, "there is no service 'x'");
    refuse(sockets.server.get(), std::string(5000, 'y'));
    EXPECT_EQ(hear_answer(sockets.client.get()).error().why, std::string(kMostWhy, 'y'));
}

TEST(Meeting, WhatCannotBeAskedForIsNotSent) {
    const Sockets sockets;
    EXPECT_EQ(say_hello(sockets.client.get(), {"", {}}).error().why, "the name of a service has 1 to 255 bytes, not 0");
    EXPECT_EQ(say_hello(sockets.client.get(), {std::string(256, 'x'), {}}).error().why,
              "the name of a service has 1 to 255 bytes, not 256");
    EXPECT_EQ(say_hello(sockets.client.get(), {"x", {0, 512}}).error().why, wrong_shape({0, 512}));
    EXPECT_EQ(hear_hello(sockets.server.get()).error(), "") << "nothing has come";
}

TEST(Meeting, AHelloThatIsNoneIsRefused) {
    const auto refusal = [](std::string bytes) {
        const Sockets sockets;
        EXPECT_EQ(send(sockets.client.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
        const auto hello = hear_hello(sockets.server.get());
        return hello ? "" : hello.error();
    };
    const auto hello = [](std::uint16_t version, std::uint16_t name_bytes, std::uint32_t frames,
                          std::string_view name) {
        std::string bytes("cmet");
        const auto add = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
        add(version);
        add(name_bytes);
        add(frames);
        add(std::uint32_t{512});
        return bytes.append(name);
    };
    EXPECT_EQ(refusal(hello(1, 5, 4, "store")), "");
    EXPECT_EQ(refusal(hello(2, 5, 4, "store")),
              "the other side meets in version 2, this one in 1: use the same version of ChainIO on both sides");
    EXPECT_EQ(refusal(hello(1, 4, 4, "store")), "the name of a service has 1 to 255 bytes");
    EXPECT_EQ(refusal(hello(1, 6, 4, "store")), "the name of a service has 1 to 255 bytes");
    EXPECT_EQ(refusal(hello(1, 0, 4, "")), "the name of a service has 1 to 255 bytes");
    EXPECT_EQ(refusal(hello(1, 256, 4, std::string(256, 'x'))), "the name of a service has 1 to 255 bytes");
    EXPECT_EQ(refusal(hello(1, 5, 0, "store")), wrong_shape({0, 512}));
    EXPECT_EQ(refusal("GET / HTTP/1.0\r\n\r\n"),
              "this socket is for clients of rings: what came is no hello of theirs");
    EXPECT_EQ(refusal("cmet"), "this socket is for clients of rings: what came is no hello of theirs");
}

TEST(Meeting, AnAnswerThatIsNoneIsNotTaken) {
    const auto heard = [](std::string bytes) {
        const Sockets sockets;
        EXPECT_EQ(send(sockets.server.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
        return hear_answer(sockets.client.get()).error().why;
    };
    EXPECT_EQ(heard("hello, world"), "what answers there is no server of ChainIO's rings");
    EXPECT_EQ(heard(std::string("cmet\x02\0\0\0", 8)),
              "the other side meets in version 2, this one in 1: use the same version of ChainIO on both sides");
    EXPECT_EQ(heard(std::string("cmet\x01\0\0\0", 8)),
              "the server's memory could not be taken over: too many descriptors are open (ulimit -n)");
    EXPECT_EQ(heard(std::string("cmet\x01\0\x09\0no", 10)), "no") << "no more than has come";
    Sockets sockets;
    sockets.server.reset();
    EXPECT_EQ(hear_answer(sockets.client.get()).error().why,
              "the server has closed the connection: it is ending, or is another program's");
}

// Descriptors that nobody has asked for are closed.
TEST(Meeting, WhatComesWithAHelloIsClosed) {
    const Sockets sockets;
    const OwnFd bell(eventfd(0, EFD_CLOEXEC));
    ASSERT_TRUE(welcome(sockets.client.get(), bell.get(), bell.get()));
    const int before = dup(bell.get());
    ASSERT_FALSE(hear_hello(sockets.server.get()));
    const int after = dup(bell.get());
    EXPECT_EQ(after, before + 1) << "the next free number is the same";
    close(before);
    close(after);
}

}  // namespace
}  // namespace chainio::ipc
