// A service manager that has no room hears of the newest state once it has some.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tools/chainio-runtime/notify.h"

namespace chainio::runtime_tool {
namespace {

using namespace std::chrono_literals;

class ServiceManager : public testing::Test {
  protected:
    void SetUp() override {
        heard_ = bound();
        setenv("NOTIFY_SOCKET", ("@" + name()).c_str(), 1);
    }
    void TearDown() override {
        unsetenv("NOTIFY_SOCKET");
        close(heard_);
    }

    static std::string name() { return "chainio-test-manager-" + std::to_string(getpid()); }
    // A socket of that name, which nobody else has.
    static int bound() {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path + 1, name().data(), name().size());
        const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name().size());
        const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), length), 0);
        return fd;
    }
    // Empty: nothing has come.
    std::string next() const {
        std::array<char, 256> text{};
        const ssize_t length = recv(heard_, text.data(), text.size(), 0);
        return {text.data(), static_cast<std::size_t>(length < 0 ? 0 : length)};
    }
    // How many it takes until there is no room.
    static unsigned fill(Manager& others) {
        unsigned count = 0;
        for (others.tell("others"); !others.keeps(); others.tell("others")) count++;
        return count;
    }
    static bool has_room(const Manager& manager) {
        pollfd room{.fd = manager.fd(), .events = POLLOUT, .revents = 0};
        return poll(&room, 1, 0) == 1;
    }

    int heard_ = -1;
};

TEST_F(ServiceManager, HearsAtOnceWhereItHasRoom) {
    Manager manager;
    manager.tell("READY=1");
    EXPECT_FALSE(manager.keeps());
    EXPECT_EQ(next(), "READY=1");
    EXPECT_EQ(next(), "");
}

TEST_F(ServiceManager, HearsTheNewestStateOnceItHasRoom) {
    Manager others, manager;
    unsigned there = fill(others);
    manager.tell("RELOADING=1");
    manager.tell("READY=1");
    EXPECT_TRUE(manager.keeps());
    EXPECT_FALSE(has_room(manager));
    manager.tell_kept();
    EXPECT_TRUE(manager.keeps());
    while (there != 0 && next() == "others") there--;
    ASSERT_EQ(there, 0u);
    EXPECT_TRUE(has_room(manager));
    manager.tell_kept();
    EXPECT_FALSE(manager.keeps());
    EXPECT_EQ(next(), "READY=1");
    EXPECT_EQ(next(), "");
}

TEST_F(ServiceManager, IsForgottenWhereItIsGone) {
    Manager others, manager;
    fill(others);
    manager.tell("READY=1");
    close(heard_);
    EXPECT_TRUE(has_room(manager));
    manager.tell_kept();
    EXPECT_FALSE(manager.keeps());
    heard_ = bound();
    manager.tell("STOPPING=1");
    EXPECT_EQ(next(), "STOPPING=1");
}

// Who is told of a watchdog as systemd tells it, by the time after which he is ended.
class Watchdog : public ServiceManager {
  protected:
    void SetUp() override {
        ServiceManager::SetUp();
        setenv("WATCHDOG_USEC", "60000000", 1);
        setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
    }
    void TearDown() override {
        for (const char* name : {"WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
        ServiceManager::TearDown();
    }
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST_F(Watchdog, HearsTwiceInItsTime) {
    Manager manager;
    EXPECT_EQ(manager.next_ms(start_), 0);
    manager.go_on(start_);
    EXPECT_EQ(next(), "WATCHDOG=1");
    EXPECT_EQ(manager.next_ms(start_), 30'000);
    manager.go_on(start_ + 29'999ms);
    EXPECT_EQ(next(), "");
    EXPECT_EQ(manager.next_ms(start_ + 29'999ms), 1);
    manager.go_on(start_ + 30s);
    EXPECT_EQ(next(), "WATCHDOG=1");
    EXPECT_EQ(manager.next_ms(start_ + 30s), 30'000);
}

TEST_F(Watchdog, IsThereWithoutANameOfAProcess) {
    unsetenv("WATCHDOG_PID");
    Manager manager;
    manager.go_on(start_);
    EXPECT_EQ(next(), "WATCHDOG=1");
}

TEST_F(Watchdog, OfAnotherProcessOrWithoutATimeIsNone) {
    for (const char* time : {"60000000", "0", "-1", "soon"}) {
        setenv("WATCHDOG_USEC", time, 1);
        if (time[0] == '6') setenv("WATCHDOG_PID", "1", 1);
        Manager manager;
        manager.go_on(start_);
        EXPECT_EQ(next(), "") << time;
        EXPECT_EQ(manager.next_ms(start_), -1) << time;
        setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
    }
}

TEST_F(Watchdog, TakesNoStatesPlaceAndIsToldSoonWhereItHasNoRoom) {
    Manager others, manager;
    unsigned there = fill(others);
    manager.tell("READY=1");
    manager.go_on(start_);
    EXPECT_TRUE(manager.keeps());
    EXPECT_EQ(manager.next_ms(start_), 100);
    while (there != 0 && next() == "others") there--;
    ASSERT_EQ(there, 0u);
    manager.tell_kept();
    EXPECT_EQ(next(), "READY=1");
    manager.go_on(start_ + 100ms);
    EXPECT_EQ(next(), "WATCHDOG=1");
}

TEST(ServiceManagerOfNobody, IsToldNothing) {
    unsetenv("NOTIFY_SOCKET");
    Manager manager;
    manager.tell("READY=1");
    EXPECT_FALSE(manager.keeps());
    EXPECT_EQ(manager.fd(), -1);
}

}  // namespace
}  // namespace chainio::runtime_tool
