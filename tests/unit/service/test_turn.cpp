// One turn of a server with sockets: what stays for the next one, and replies that leave together.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ring/shared.h"
#include "runtime/service/server.h"
#include "tests/unit/service/compiled.h"

namespace chainio::service {
namespace {

constexpr std::uint64_t kEndless = UINT64_MAX, kNever = UINT64_MAX / 8;
constexpr int kPatienceMs = 10'000;  // for what comes at once, unless the test fails

class Turn : public testing::Test {
  protected:
    void SetUp() override {
        auto ring = ring::Shared::create({.entries = 64, .cq_entries = 1024, .seats = 2}, fallbacks_);
        if (!ring) GTEST_SKIP() << ring.error();
        ring_ = std::move(*ring);
        auto engine = engine::Engine::create(compiled(R"(
service s on tcp 9000 via uring {
  text Line { all: rest(max 65000) }
  request { line: Line }
  on request { reply "ok\n" }
}
)"),
                                             {.umem_bytes = std::size_t{4} << 20, .use_ring = false});
        ASSERT_TRUE(engine) << engine.error();
        engine_ = std::move(*engine);
    }
    void TearDown() override {
        for (const int fd : clients_) close(fd);
    }

    void serve(std::uint64_t gather_ns) {
        ServerOptions options;
        options.address = "127.0.0.1";
        options.gather_ns = options.most_gather_ns = gather_ns;
        const std::vector<GivenPort> any = {GivenPort{.service = 0, .port = 0}};
        auto server =
            Server::create(*engine_, Files({}), options, plan_of(engine_->spec().module()), any, *ring_, fallbacks_);
        ASSERT_TRUE(server) << server.error();
        server_ = std::move(*server);
    }
    void connect_some(unsigned count) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(server_->listening()[0].port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        for (unsigned i = 0; i < count; i++) {
            clients_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            const timeval patience{.tv_sec = kPatienceMs / 1000, .tv_usec = 0};
            setsockopt(clients_.back(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
            ASSERT_EQ(connect(clients_.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
            while (counters().accepted != clients_.size()) {
                ASSERT_EQ(ring_->turn(1, kPatienceMs), 0);
                server_->step(kEndless);
            }
        }
        ASSERT_EQ(ring_->turn(0), 0);
    }
    void send_all(int fd, const std::string& text) {
        ASSERT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    }
    // A turn of a daemon that has `more` to do, which ends with the first request.
    void short_turn(bool more) {
        server_->step(0);
        server_->flush(more);
        ASSERT_EQ(ring_->turn(0), 0);
    }
    static std::string what_came(int fd, int flags) {
        std::array<char, 64> text{};
        const ssize_t length = recv(fd, text.data(), text.size(), flags);
        return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
    }
    const ServiceCounters& counters() const { return server_->counters(0, true); }

    metrics::Fallbacks fallbacks_;
    std::unique_ptr<ring::Shared> ring_;
    std::unique_ptr<engine::Engine> engine_;
    std::unique_ptr<Server> server_;
    std::vector<int> clients_;
};

TEST_F(Turn, WhatIsLeftWhenItsTimeIsOverStaysForTheNextOne) {
    serve(0);
    constexpr unsigned kMany = 300;
    connect_some(kMany);
    for (const int fd : clients_) send_all(fd, "a\n");
    ASSERT_EQ(ring_->turn(kMany, kPatienceMs), 0);
    server_->step(0);
    EXPECT_GT(counters().requests, 0u);
    EXPECT_LT(counters().requests, kMany);
    EXPECT_TRUE(server_->has_work());
    server_->step(kEndless);
    EXPECT_EQ(counters().requests, kMany);
}

TEST_F(Turn, RepliesLeaveTogetherWhereRequestsHaveBeenSentAheadAndThereIsMoreToDo) {
    serve(kNever);
    connect_some(1);
    send_all(clients_[0], "a\nb\nc\n");
    ASSERT_EQ(ring_->turn(1, kPatienceMs), 0);
    for (unsigned done = 1; done <= 2; done++) {
        short_turn(true);
        EXPECT_EQ(counters().answered, done);
        EXPECT_EQ(what_came(clients_[0], MSG_DONTWAIT), "");
    }
    server_->flush(false);
    ASSERT_EQ(ring_->turn(1, kPatienceMs), 0);
    EXPECT_EQ(what_came(clients_[0], 0), "ok\nok\n");
}

TEST_F(Turn, RepliesThatHaveWaitedLongLeaveThoughThereIsMoreToDo) {
    serve(0);
    connect_some(1);
    send_all(clients_[0], "a\nb\nc\n");
    ASSERT_EQ(ring_->turn(1, kPatienceMs), 0);
    short_turn(true);
    EXPECT_EQ(what_came(clients_[0], 0), "ok\n");
}

TEST_F(Turn, TheReplyToTheLastRequestThatHasComeWaitsForNothing) {
    serve(kNever);
    connect_some(1);
    send_all(clients_[0], "a\nb\nc");
    ASSERT_EQ(ring_->turn(1, kPatienceMs), 0);
    for (unsigned i = 0; i < 3; i++) short_turn(true);
    EXPECT_EQ(what_came(clients_[0], 0), "ok\nok\n");
}

// The lists of those that gather, and of those that are to be looked at, would else have the place twice.
TEST(Lists, WhoeverHasAPlaceNextIsListedAlready) {
    std::array<std::uint8_t, 16> input{}, output{};
    Connection connection(Input(input.data(), input.size()), Output(output.data(), output.size()));
    connection.gathering = connection.dirty = true;
    connection.gathering_ns = 1;
    connection.reset(-1);
    EXPECT_TRUE(connection.gathering);
    EXPECT_TRUE(connection.dirty);
    EXPECT_EQ(connection.gathering_ns, 0u);
}

// Of a request that begins behind others and does not end where the room does, the rest comes in when they are done.
TEST_F(Turn, ALongRequestBehindManyShortOnes) {
    serve(0);
    connect_some(1);
    constexpr unsigned kShort = 2500;
    std::string all;
    for (unsigned i = 0; i < kShort; i++) all += "a\n";
    all += std::string(64'000, 'x') + "\nb\n";
    std::uint64_t came = 0;  // and left, when it was waited last
    unsigned in_vain = 0;
    for (std::size_t sent = 0; sent < all.size() || counters().requests < kShort + 2;) {
        const ssize_t length = send(clients_[0], all.data() + sent, all.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        ASSERT_TRUE(length >= 0 || errno == EAGAIN);
        sent += static_cast<std::size_t>(std::max<ssize_t>(length, 0));
        server_->step(kEndless);
        server_->flush(false);
        const bool waits = sent == all.size() && !server_->has_work() && counters().requests < kShort + 2;
        if (waits) {
            const std::uint64_t before = std::exchange(came, counters().bytes_in + counters().bytes_out);
            in_vain = came == before ? in_vain + 1 : 0;
            ASSERT_LT(in_vain, 8u) << counters().requests << " were done";
        }
        ASSERT_EQ(ring_->turn(waits ? 1 : 0, kPatienceMs / 10), 0);
    }
    EXPECT_EQ(counters().too_long, 0u);
}

}  // namespace
}  // namespace chainio::service
