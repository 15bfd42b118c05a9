#include "tools/chainio-runtime/waits.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace chainio::runtime_tool {

std::expected<std::unique_ptr<Waits>, std::string> Waits::create(ring::Shared* ring) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) return std::unexpected(std::string("epoll_create1: ") + std::strerror(errno));
    std::unique_ptr<Waits> waits(new Waits(ring, epoll));
    if (ring == nullptr) return waits;
    waits->seat_ = ring->sit();
    if (waits->seat_ == nullptr) return std::unexpected("the io_uring has too many users");
    return waits;
}

Waits::~Waits() { close(epoll_); }

bool Waits::want(int fd, std::uint32_t events, std::uint64_t key) {
    if (fd < 0 || events == 0) return true;
    const auto place = static_cast<std::size_t>(fd);
    if (place >= wanted_.size()) wanted_.resize(2 * place + 1);
    Wanted& wanted = wanted_[place];
    wanted.wait = wait_;
    if (wanted.events == events && wanted.key == key) return true;
    epoll_event event{.events = events, .data = {.u64 = key}};
    // A descriptor that was closed is gone from the set, and may be another one by now.
    if (epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) != 0 && epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
        if (wanted.events != 0) std::erase(known_, fd);
        wanted.events = 0;
        is_short_ = true;
        return false;
    }
    if (wanted.events == 0) known_.push_back(fd);
    wanted.events = events;
    wanted.key = key;
    return true;
}

void Waits::let_go() {
    std::erase_if(known_, [this](int fd) {
        Wanted& wanted = wanted_[static_cast<std::size_t>(fd)];
        if (wanted.wait == wait_) return false;
        epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
        wanted = {};
        return true;
    });
    wait_++;
}

std::span<const epoll_event> Waits::look(int timeout_ms) {
    const int count = epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()), timeout_ms);
    return {events_.data(), static_cast<std::size_t>(std::max(count, 0))};
}

std::expected<std::span<const epoll_event>, std::string> Waits::wait(int timeout_ms) {
    let_go();
    // Who is not waited for is wanted again soon: there may be room by then.
    if (std::exchange(is_short_, false)) timeout_ms = timeout_ms < 0 ? kAgainMs : std::min(timeout_ms, kAgainMs);
    if (ring_ == nullptr) return look(timeout_ms);
    // One look at a time, so that whatever is left from the last one is seen by the next.
    if (!std::exchange(armed_, true)) io_uring_prep_poll_add(seat_->next_sqe(0), epoll_, POLLIN);
    // A turn that somebody else took may have brought the look already.
    const bool waits = timeout_ms != 0 && seat_->waiting() == 0;
    if (const int turned = ring_->turn(waits ? 1 : 0, timeout_ms); turned < 0)
        return std::unexpected(std::string("io_uring_enter: ") + std::strerror(-turned));
    if (seat_->waiting() == 0) return std::span<const epoll_event>{};
    while (seat_->waiting() != 0) seat_->take();
    armed_ = false;
    return look(0);
}

}  // namespace chainio::runtime_tool
