#include "runtime/probe/waker.h"

#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace chainio::probe {

std::unique_ptr<Waker> Waker::start(int events, std::atomic<std::uint32_t>& word) {
    const int poll = epoll_create1(EPOLL_CLOEXEC), stop = eventfd(0, EFD_CLOEXEC);
    std::unique_ptr<Waker> waker(new Waker(poll, stop, word));
    // Edges: events that are not taken yet must not keep this thread awake.
    epoll_event edge{.events = EPOLLIN | EPOLLET, .data = {.fd = events}}, end{.events = EPOLLIN, .data = {.fd = stop}};
    if (poll < 0 || stop < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, events, &edge) != 0 ||
        epoll_ctl(poll, EPOLL_CTL_ADD, stop, &end) != 0)
        return nullptr;
    // The program's signals are for the thread that serves it.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        waker->thread_ = std::thread([self = waker.get()] { self->run(); });
    } catch (const std::system_error&) {
        waker.reset();  // as many are there as the user may have
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return waker;
}

Waker::~Waker() {
    const std::uint64_t one = 1;
    if (thread_.joinable() && write(stop_, &one, sizeof one) == sizeof one) thread_.join();
    if (poll_ >= 0) close(poll_);
    if (stop_ >= 0) close(stop_);
}

void Waker::run() const {
    while (true) {
        epoll_event event{};
        const int count = epoll_wait(poll_, &event, 1, -1);
        if (count < 0 && errno != EINTR) return;
        if (count <= 0) continue;
        if (event.data.fd == stop_) return;
        if (word_.exchange(0, std::memory_order_seq_cst) == 1)
            syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
}

}  // namespace chainio::probe
