// Readiness: epoll, poll, select, eventfd and timerfd, over pipes and files.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

constexpr std::size_t kPipes = 4;

struct Pipes {
    int ends[kPipes][2];
    Pipes() {
        for (auto& each : ends) {
            if (::pipe2(each, O_CLOEXEC | O_NONBLOCK) != 0) each[0] = each[1] = -1;
        }
    }
    ~Pipes() {
        for (const auto& each : ends) {
            ::close(each[0]);
            ::close(each[1]);
        }
    }
};

void wait_and_list(Actor& a, int poll, int timeout) {
    epoll_event ready[8];
    const long count = a.call("epoll_wait", [&] {
        return a.rng.chance(50) ? ::epoll_wait(poll, ready, 8, timeout)
                                : ::epoll_pwait(poll, ready, 8, timeout, nullptr);
    });
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    for (long i = 0; i < count; ++i) found.emplace_back(ready[i].data.u32, ready[i].events);
    std::ranges::sort(found);
    for (const auto& [who, what] : found) a.text(fmt::format("{}: {:x}", who, what));
}

void epoll(Actor& a) {
    const Pipes pipes;
    const int poll = a.call_fd("epoll_create1", [&] { return ::epoll_create1(EPOLL_CLOEXEC); });
    const bool edges = a.rng.chance(40);
    for (std::size_t i = 0; i < kPipes; ++i) {
        epoll_event event = {.events = EPOLLIN | (edges ? EPOLLET : 0U),
                             .data = {.u32 = static_cast<std::uint32_t>(i)}};
        a.call("add", [&] { return ::epoll_ctl(poll, EPOLL_CTL_ADD, pipes.ends[i][0], &event); });
    }
    epoll_event event = {.events = EPOLLIN, .data = {.u32 = 99}};
    const int file = a.slot();
    a.call("add a file", [&] { return ::epoll_ctl(poll, EPOLL_CTL_ADD, file, &event); });
    wait_and_list(a, poll, 0);
    for (std::size_t i = 0; i < kPipes; ++i) {
        if (a.rng.chance(50) && ::write(pipes.ends[i][1], "ready", 5) != 5) a.text("no write");
    }
    wait_and_list(a, poll, 0);
    wait_and_list(a, poll, 1);
    a.call("remove", [&] { return ::epoll_ctl(poll, EPOLL_CTL_DEL, pipes.ends[0][0], nullptr); });
    wait_and_list(a, poll, 0);
    ::close(poll);
}

void poll_and_select(Actor& a) {
    const Pipes pipes;
    pollfd waiting[kPipes + 1] = {};
    fd_set readable, writable;
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    for (std::size_t i = 0; i < kPipes; ++i) {
        if (a.rng.chance(50) && ::write(pipes.ends[i][1], "x", 1) != 1) a.text("no write");
        waiting[i] = {.fd = pipes.ends[i][i % 2], .events = POLLIN | POLLOUT, .revents = 0};
        FD_SET(pipes.ends[i][0], &readable);
        FD_SET(pipes.ends[i][1], &writable);
    }
    waiting[kPipes] = {.fd = 9999, .events = POLLIN, .revents = 0};
    a.call("poll", [&] { return ::poll(waiting, kPipes + 1, 0); });
    timespec none = {};
    a.call("ppoll", [&] { return ::ppoll(waiting, kPipes, &none, nullptr); });
    for (const pollfd& each : waiting) a.note("events", each.revents);
    timeval soon = {};
    a.call("select", [&] { return ::select(1000, &readable, &writable, nullptr, &soon); });
    for (const auto& each : pipes.ends) a.note("readable", FD_ISSET(each[0], &readable));
}

void counters(Actor& a) {
    const int counter = a.call_fd("eventfd", [&] { return ::eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC); });
    std::uint64_t value = 0;
    a.call("read", [&] { return ::read(counter, &value, sizeof value); });
    a.note("value", static_cast<long>(value));
    a.call("read of zero", [&] { return ::read(counter, &value, sizeof value); });
    a.call("short read", [&] { return ::read(counter, &value, 3); });
    ::close(counter);
    const int timer = a.call_fd("timerfd", [&] { return ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC); });
    const itimerspec soon = {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 1000}};
    a.call("settime", [&] { return ::timerfd_settime(timer, 0, &soon, nullptr); });
    a.call("read of a timer", [&] { return ::read(timer, &value, sizeof value); });
    a.note("value", static_cast<long>(value));
    ::close(timer);
}

}  // namespace

Operations event_operations() {
    return {{"epoll", 3, epoll, true, true},
            {"poll", 2, poll_and_select, true, true},
            {"counters", 1, counters, true, true}};
}

}  // namespace chainio::random_program
