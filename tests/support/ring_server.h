// A server of rings in a thread of the test, which does what the test says with each client.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "runtime/ipc/channel.h"
#include "runtime/ipc/meeting.h"

namespace chainio::tests {

constexpr int kRingPatience = 60'000;  // milliseconds, for what comes at once unless something is broken

// One client that came in, as its server has it.
struct Guest {
    ipc::ServerEnd end;
    ipc::OwnFd socket, server_bell;

    // Waits for a request; none: the client is gone.
    std::optional<ipc::Request> take() {
        for (;;) {
            ipc::Request request;
            const auto taken = end.take(request);
            EXPECT_TRUE(taken);
            if (!taken) return std::nullopt;
            if (*taken) return request;
            if (!sleep()) return std::nullopt;
        }
    }
    void answer(std::uint32_t number, std::string_view text) {
        std::memcpy(end.frame(number).data(), text.data(), text.size());
        woken(end.answer(number, static_cast<std::uint32_t>(text.size())));
    }
    void release(std::uint32_t number) { woken(end.release(number)); }
    // What no server of ours would push.
    void push(const umem::Descriptor& descriptor) {
        const std::uint32_t entries = reinterpret_cast<ipc::ChannelHeader*>(end.region().base())->entries;
        const std::size_t bytes = umem::ring_bytes(entries);
        auto rogue = *umem::Producer::attach({end.region().base() + sizeof(ipc::ChannelHeader) + bytes, bytes});
        EXPECT_EQ(rogue.push(descriptor), true);
        ipc::wake(socket.get());
    }
    umem::Frame name_of(std::uint32_t number) const {
        return static_cast<umem::Frame>((end.frame(number).data() - end.region().base()) / umem::kUnit);
    }

  private:
    void woken(std::expected<bool, umem::Fault> pushed) {
        ASSERT_TRUE(pushed);
        if (*pushed) ipc::wake(socket.get());
    }
    // Whether the client is still there.
    bool sleep() {
        pollfd both[2] = {{server_bell.get(), POLLIN, 0}, {socket.get(), POLLRDHUP, 0}};
        if (end.fall_asleep()) poll(both, 2, kRingPatience);
        if (end.awake() || both[0].revents != 0) ipc::hush_bell(server_bell.get());
        return both[1].revents == 0 || end.any_came();
    }
};

inline std::string text_of(const ipc::Request& request) { return {request.bytes.begin(), request.bytes.end()}; }

// Meets and then serves one client after the other by `body`, whose return ends the client's channel.
class RingServer {
  public:
    using Meet = std::function<bool(int socket, const ipc::Hello& hello)>;  // false: the client is not let in
    using Body = std::function<void(Guest&)>;

    explicit RingServer(Body body, Meet meet = {}) : body_(std::move(body)), meet_(std::move(meet)) {
        std::string folder = std::filesystem::temp_directory_path() / "chainio-ring-XXXXXX";
        EXPECT_NE(mkdtemp(folder.data()), nullptr);
        folder_ = folder;
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path().copy(address.sun_path, sizeof address.sun_path - 1);
        listening_ = ipc::OwnFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        EXPECT_EQ(bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(listen(listening_.get(), 8), 0);
        thread_ = std::thread([this] { serve(); });
    }
    ~RingServer() {
        shutdown(listening_.get(), SHUT_RDWR);
        thread_.join();
        std::filesystem::remove_all(folder_);
    }
    RingServer(const RingServer&) = delete;
    RingServer& operator=(const RingServer&) = delete;

    std::string path() const { return folder_ / "rings"; }

  private:
    void serve() {
        for (;;) {
            ipc::OwnFd client(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!client) return;
            const auto hello = ipc::hear_hello(client.get());
            if (!hello || (meet_ && !meet_(client.get(), *hello))) continue;
            auto end = ipc::ServerEnd::create(hello->shape);
            ASSERT_TRUE(end);
            Guest guest{std::move(*end), std::move(client), bell()};
            ASSERT_TRUE(ipc::welcome(guest.socket.get(), guest.end.region().fd(), guest.server_bell.get()));
            body_(guest);
        }
    }
    static ipc::OwnFd bell() { return ipc::OwnFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

    Body body_;
    Meet meet_;
    std::filesystem::path folder_;
    ipc::OwnFd listening_;
    std::thread thread_;
};

}  // namespace chainio::tests
