#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include <cerrno>
#include <deque>
#include <random>
#include <semaphore>

#include "tests/support/soak.h"
#include "tests/unit/rings/ring_handle.h"

namespace chainio::tests {
namespace {

bool readable(int fd, int timeout_ms = 0) {
    pollfd one{fd, POLLIN, 0};
    return poll(&one, 1, timeout_ms) == 1;
}

TEST(Watching, TheDescriptorIsReadableAsLongAsThereAreReplies) {
    std::counting_semaphore<> answers(0);
    const RingServer server([&](Guest& guest) {
        while (const auto request = guest.take()) {
            answers.acquire();
            guest.answer(request->number, text_of(*request));
        }
    });
    Ring ring(server);
    const int fd = chainio_ring_fd(ring.ring);
    EXPECT_FALSE(readable(fd));
    ring.submit("a", 1);
    ring.submit("b", 2);
    EXPECT_FALSE(readable(fd));
    answers.release();
    EXPECT_TRUE(readable(fd, kRingPatience));
    EXPECT_EQ(ring.next(0), "1:a");
    answers.release();
    EXPECT_EQ(ring.next(), "2:b");
    EXPECT_EQ(ring.next(0), "0");
    EXPECT_FALSE(readable(fd)) << "a reap that found nothing ends it";
    ring.submit("c", 3);
    EXPECT_FALSE(readable(fd));
    answers.release();
    EXPECT_TRUE(readable(fd, kRingPatience)) << "without another reap before";
    EXPECT_EQ(ring.next(0), "3:c");
}

TEST(Watching, WhatIsLeftOfSeveralStaysReadable) {
    std::binary_semaphore answered(0);
    const RingServer server([&](Guest& guest) {
        const auto first = guest.take(), second = guest.take();
        guest.answer(first->number, "a");
        guest.answer(second->number, "b");
        answered.release();
        echo(guest);
    });
    Ring ring(server);
    const int fd = chainio_ring_fd(ring.ring);
    ring.submit("a", 1);
    EXPECT_EQ(ring.next(0), "0");
    ring.submit("b", 2);
    answered.acquire();
    EXPECT_EQ(ring.next(), "1:a");
    EXPECT_TRUE(readable(fd));
    EXPECT_EQ(ring.next(0), "2:b");
}

TEST(Watching, WhatCameBeforeItWasAskedForIsReadable) {
    std::binary_semaphore answered(0);
    const RingServer server([&](Guest& guest) {
        const auto first = guest.take();
        guest.answer(first->number, "a");
        answered.release();
        echo(guest);
    });
    Ring ring(server);
    ring.submit("a", 1);
    answered.acquire();
    EXPECT_TRUE(readable(chainio_ring_fd(ring.ring)));
    EXPECT_EQ(ring.next(0), "1:a");
}

TEST(Watching, TheRepliesThatACallLeavesAreReadable) {
    const RingServer server([&](Guest& guest) {
        const auto first = guest.take(), second = guest.take();
        guest.answer(first->number, "A");
        guest.answer(second->number, "B");
        echo(guest);
    });
    Ring ring(server);
    const int fd = chainio_ring_fd(ring.ring);
    ring.submit("a", 1);
    EXPECT_EQ(ring.call("b"), "B");
    EXPECT_TRUE(readable(fd));
    EXPECT_EQ(ring.next(0), "1:A");
    EXPECT_EQ(ring.next(0), "0");
    EXPECT_FALSE(readable(fd));
}

TEST(Watching, TheServersEndIsReadable) {
    const RingServer server([](Guest& guest) { guest.take(); });
    Ring ring(server);
    const int fd = chainio_ring_fd(ring.ring);
    EXPECT_FALSE(readable(fd));
    ring.submit("x", 1);
    EXPECT_TRUE(readable(fd, kRingPatience));
    EXPECT_EQ(ring.next(0), "-32");
    EXPECT_TRUE(readable(fd)) << "and stays so";
}

// Else each of its replies would cost the server a system call.
TEST(Watching, WhoDoesNotSleepIsNotRungFor) {
    std::binary_semaphore looked(0), answered(0);
    const RingServer server([&](Guest& guest) {
        const auto request = guest.take();
        looked.acquire();
        EXPECT_EQ(guest.end.answer(request->number, 0), false);
        answered.release();
        guest.take();
    });
    Ring ring(server);
    ring.submit("x", 1);
    EXPECT_EQ(ring.next(1), "0");
    looked.release();
    answered.acquire();
    EXPECT_EQ(ring.next(0), "1:");
}

// A bell that is rung without cause, as by a server that is slow to ring or means harm, is no reply and no end.
TEST(Watching, ABellWithoutAReplyEndsNoWait) {
    std::binary_semaphore rung(0);
    const RingServer server([&](Guest& guest) {
        ipc::wake(guest.socket.get());
        rung.release();
        const auto request = guest.take();
        for (int i = 0; i < 100; i++) ipc::wake(guest.socket.get());
        guest.answer(request->number, "x");
        guest.take();
    });
    Ring ring(server);
    rung.acquire();
    const int fd = chainio_ring_fd(ring.ring);
    EXPECT_TRUE(readable(fd));
    EXPECT_EQ(ring.next(0), "0");
    EXPECT_FALSE(readable(fd));
    ring.submit("x", 1);
    EXPECT_EQ(ring.next(), "1:x");
}

// Nothing that it does keeps a wait from its end.
TEST(Watching, ABellThatIsAlwaysRungEndsNoTime) {
    std::atomic<bool> stop = false;
    const RingServer server([&](Guest& guest) {
        while (!stop) ipc::wake(guest.socket.get());
        guest.take();
    });
    Ring ring(server);
    ring.submit("x", 1);
    EXPECT_EQ(ring.next(5), "0");
    EXPECT_EQ(ring.next(0), "0");
    EXPECT_EQ(ring.call("x", 5), std::to_string(-ETIMEDOUT));
    stop = true;
}

std::atomic<unsigned> g_signals = 0;

TEST(Watching, ASignalEndsNoWait) {
    struct sigaction action{}, before{};
    action.sa_handler = [](int) { g_signals++; };
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    const pthread_t asking = pthread_self();
    const RingServer server([&](Guest& guest) {
        while (const auto request = guest.take()) {
            const unsigned so_far = g_signals;
            for (unsigned i = 1; i <= 20; i++) {
                pthread_kill(asking, SIGUSR1);
                while (g_signals < so_far + i) std::this_thread::yield();
            }
            guest.answer(request->number, "x");
        }
    });
    {
        Ring ring(server);
        ring.submit("x", 1);
        EXPECT_EQ(ring.next(-1), "1:x");
        EXPECT_EQ(ring.call("x", -1), "x");
        EXPECT_EQ(g_signals, 40u);
    }
    sigaction(SIGUSR1, &before, nullptr);
}

TEST(Watching, WhoLooksBeforeItSleepsFindsTheSame) {
    const RingServer server(echo);
    {
        Ring ring(server, 4, 512, 2000);
        for (int i = 0; i < 100; i++) EXPECT_EQ(ring.call(std::to_string(i)), "[" + std::to_string(i) + "]");
    }
    Ring never(server, 1, 512, 1'000'000);
    EXPECT_EQ(never.next(0), "0");
}

// A server that answers by chance, and a client that sleeps by its descriptor alone: one ring that is lost would leave
// it asleep.
TEST(Watching, NobodySleepsThroughAReply) {
    const auto total = static_cast<std::uint64_t>(soak_count(30'000, 1'000'000));
    const RingServer server([](Guest& guest) {
        std::mt19937 random(11);
        std::deque<std::pair<std::uint32_t, std::string>> held;
        for (;;) {
            ipc::Request request;
            const auto taken = guest.end.take(request);
            if (!taken) return;
            if (*taken) {
                held.emplace_back(request.number, text_of(request));
                if (random() % 3 == 0) continue;
            } else if (held.empty()) {
                const auto next = guest.take();
                if (!next) return;
                held.emplace_back(next->number, text_of(*next));
            }
            guest.answer(held.front().first, held.front().second);
            held.pop_front();
        }
    });
    constexpr unsigned kFrames = 5;
    Ring ring(server, kFrames);
    const int fd = chainio_ring_fd(ring.ring);
    std::mt19937 random(12);
    std::uint64_t sent = 0, got = 0;
    while (got < total) {
        while (sent < total && chainio_ring_in_flight(ring.ring) < kFrames && random() % 4 != 0) {
            ring.submit(std::to_string(sent), sent);
            sent++;
        }
        if (chainio_ring_in_flight(ring.ring) == 0) continue;
        ASSERT_TRUE(readable(fd, kRingPatience)) << "nobody has rung within a minute, " << got << " have come";
        chainio_ring_reply replies[3]{};
        // One that waits hears the bell itself, and may leave replies behind.
        const int timeout_ms = random() % 2 == 0 ? 0 : kRingPatience;
        const int count = chainio_ring_reap(ring.ring, replies, 1 + random() % 3, timeout_ms);
        ASSERT_GE(count, 0) << ring.error();
        for (int i = 0; i < count; i++) {
            const std::string text(static_cast<const char*>(replies[i].bytes), replies[i].length);
            ASSERT_EQ(text, std::to_string(replies[i].user_data));
            ASSERT_EQ(chainio_ring_release(ring.ring, replies[i].frame), 0);
            got++;
        }
    }
}

}  // namespace
}  // namespace chainio::tests
