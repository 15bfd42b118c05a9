#include "runtime/service/ring_clients.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <expected>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/ipc/meeting.h"

namespace chainio::service {
namespace {

// Clients and the server in one thread: of what is watched it is told by hand.
struct Joined {
    explicit Joined(unsigned joining, const ipc::Shape& shape) {
        std::string folder = std::filesystem::temp_directory_path() / "chainio-rings-XXXXXX";
        EXPECT_NE(mkdtemp(folder.data()), nullptr);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        (folder + "/rings").copy(address.sun_path, sizeof address.sun_path - 1);
        const auto* at = reinterpret_cast<const sockaddr*>(&address);
        listener = ipc::OwnFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        EXPECT_EQ(bind(listener.get(), at, sizeof address), 0);
        EXPECT_EQ(listen(listener.get(), 64), 0);
        RingHost host;
        host.find = [](std::string_view) { return std::expected<std::uint32_t, std::string>(0); };
        host.watch = [](std::uint32_t, int) {};
        host.stop_watching = [this](std::uint32_t number) { stopped.push_back(number); };
        host.joined = [this](const std::string&) { there++; };
        host.left = [this](const std::string&) { there--; };
        host.has_room = [this](std::uint32_t) { return has_room; };
        host.broken = [](std::uint32_t, std::string_view) {};
        clients = std::make_unique<RingClients>(listener.get(), *ring, std::move(host));
        for (unsigned i = 0; i < joining; i++) {
            sockets.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
            EXPECT_EQ(connect(sockets.back().get(), at, sizeof address), 0);
            EXPECT_TRUE(ipc::say_hello(sockets.back().get(), {"any", shape}));
            clients->came(0, true);
            clients->came(1 + 2 * i, true);
            auto welcome = ipc::hear_answer(sockets.back().get());
            EXPECT_TRUE(welcome);
            ends.push_back(*ipc::ClientEnd::attach(welcome->region.get()));
        }
        std::filesystem::remove_all(folder);
    }
    // Each watch that was stopped has its last event.
    void hear_ends() {
        for (const std::uint32_t number : std::exchange(stopped, {})) clients->came(number, false);
    }
    ipc::ChannelHeader& header(unsigned client) {
        return *reinterpret_cast<ipc::ChannelHeader*>(ends[client].region().base());
    }
    umem::RingHeader& requests(unsigned client) { return *reinterpret_cast<umem::RingHeader*>(&header(client) + 1); }

    metrics::Fallbacks fallbacks;
    std::unique_ptr<ring::Shared> ring = std::move(*ring::Shared::create({.entries = 8}, fallbacks));
    ipc::OwnFd listener;
    std::vector<ipc::OwnFd> sockets;
    std::vector<ipc::ClientEnd> ends;
    std::vector<std::uint32_t> stopped;
    int there = 0;
    bool has_room = true;
    std::unique_ptr<RingClients> clients;
};

TEST(RingClients, HaveTheirTurnsHoweverLittleRoomThereIs) {
    constexpr unsigned kClients = 5, kEach = 20;
    Joined server(kClients, {32, 512});
    for (unsigned client = 0; client < kClients; client++)
        for (unsigned i = 0; i < 32; i++) ASSERT_TRUE(server.ends[client].submit(i, 1, i));
    std::map<std::uint32_t, unsigned> taken;
    for (unsigned i = 0; i < kClients * kEach; i++) {
        std::array<RingRequest, 1> one;
        ASSERT_EQ(server.clients->take(one), 1u);
        taken[one[0].client]++;
    }
    for (unsigned client = 0; client < kClients; client++) EXPECT_EQ(taken[client], kEach) << client;
}

TEST(RingClients, WhoTakesBackWhatItHasSentKeepsNobodyAtTheEnd) {
    Joined server(1, {8, 512});
    server.requests(0).tail.store(3);
    server.clients->drain();
    server.hear_ends();
    EXPECT_FALSE(server.clients->drained()) << "three requests are to be taken";
    server.requests(0).tail.store(0);
    std::array<RingRequest, 4> out;
    EXPECT_EQ(server.clients->take(out), 0u);
    server.hear_ends();
    EXPECT_TRUE(server.clients->drained());
    EXPECT_EQ(server.there, 0);
}

// What a client sends once there is room again is heard of, though it was left for want of room before.
TEST(RingClients, RoomThatCameSinceIsRoom) {
    Joined server(1, {8, 512});
    server.has_room = false;
    std::array<RingRequest, 4> out;
    EXPECT_EQ(server.clients->take(out), 0u);
    ASSERT_TRUE(server.ends[0].submit(0, 1, 0));
    EXPECT_FALSE(server.clients->any_came()) << "it costs nothing while there is none";
    EXPECT_TRUE(server.clients->fall_asleep());
    server.clients->awake();
    server.has_room = true;
    EXPECT_TRUE(server.clients->any_came());
    EXPECT_FALSE(server.clients->fall_asleep());
    server.clients->awake();
    EXPECT_EQ(server.clients->take(out), 1u);
}

TEST(RingClients, APlaceIsFreeOnceAllIsHeardOfAndGivenBack) {
    Joined server(1, {8, 512});
    ASSERT_TRUE(server.ends[0].submit(3, 1, 0));
    std::array<RingRequest, 4> out;
    ASSERT_EQ(server.clients->take(out), 1u);
    server.sockets[0].reset();
    server.clients->came(1, true);
    EXPECT_EQ(server.there, 0);
    EXPECT_FALSE(server.clients->is_there(0));
    server.hear_ends();
    EXPECT_EQ(server.clients->count(), 1u) << "a request of it runs";
    server.clients->give_back(0, out[0].frame, 1);
    EXPECT_EQ(server.clients->count(), 0u);
}

}  // namespace
}  // namespace chainio::service
