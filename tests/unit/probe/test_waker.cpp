// The thread that wakes a sleeping server, where there can be one.
#include "runtime/probe/waker.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tests/support/refused_call.h"

namespace chainio::probe {
namespace {

TEST(Waker, IsNoneWhereNoThreadCanBeMade) {
    const int events = eventfd(0, EFD_CLOEXEC);
    std::atomic<std::uint32_t> word{1};
    EXPECT_NE(Waker::start(events, word), nullptr);
    std::thread refused([&] {
        for (const unsigned call : {SYS_clone3, SYS_clone}) tests::refuse_call(call, EAGAIN);
        sigset_t before, after;
        pthread_sigmask(SIG_SETMASK, nullptr, &before);
        EXPECT_EQ(Waker::start(events, word), nullptr);
        pthread_sigmask(SIG_SETMASK, nullptr, &after);
        EXPECT_EQ(sigismember(&before, SIGUSR1), sigismember(&after, SIGUSR1));
    });
    refused.join();
    close(events);
}

}  // namespace
}  // namespace chainio::probe
