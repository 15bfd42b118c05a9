#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <semaphore>
#include <set>

#include "runtime/ipc/client.h"
#include "tests/unit/rings/ring_handle.h"

namespace chainio::tests {
namespace {

std::string number(int error) { return std::to_string(-error); }

TEST(Asking, ACallGivesItsReply) {
    const RingServer server(echo);
    Ring ring(server);
    EXPECT_EQ(ring.call("hello"), "[hello]");
    EXPECT_EQ(ring.call(""), "[]");
    EXPECT_EQ(chainio_ring_in_flight(ring.ring), 0u);
    EXPECT_EQ(chainio_ring_longest(ring.ring), 512u);
}

TEST(Asking, RepliesComeInTheOrderInWhichTheyAreReady) {
    const RingServer server([](Guest& guest) {
        std::vector<std::pair<std::uint32_t, std::string>> held;
        while (const auto request = guest.take()) {
            held.emplace_back(request->number, text_of(*request));
            if (held.size() < 3) continue;
            for (; !held.empty(); held.pop_back()) guest.answer(held.back().first, "re " + held.back().second);
        }
    });
    Ring ring(server);
    for (int i = 0; i < 3; i++) ring.submit("abc" + std::to_string(i), 70u + static_cast<unsigned>(i));
    EXPECT_EQ(chainio_ring_in_flight(ring.ring), 3u);
    EXPECT_EQ(ring.next(), "72:re abc2");
    EXPECT_EQ(ring.next(), "71:re abc1");
    EXPECT_EQ(ring.next(), "70:re abc0");
    EXPECT_EQ(chainio_ring_in_flight(ring.ring), 0u);
    EXPECT_EQ(ring.next(), "0") << "nothing is waited for where nothing is on its way";
}

TEST(Asking, SeveralAreReapedAtOnce) {
    const RingServer server([](Guest& guest) {
        std::vector<std::uint32_t> held;
        while (const auto request = guest.take()) {
            held.push_back(request->number);
            if (held.size() < 4) continue;
            for (const std::uint32_t one : held) std::memcpy(guest.end.frame(one).data(), "x", 1);
            // The bell is rung once all of them are there.
            bool wakes = false;
            for (const std::uint32_t one : held) wakes |= *guest.end.answer(one, 1);
            if (wakes) ipc::wake(guest.socket.get());
            held.clear();
        }
    });
    Ring ring(server);
    std::multiset<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 4; i++) ring.submit("x", i);
    while (chainio_ring_in_flight(ring.ring) > 0) {
        chainio_ring_reply replies[3]{};
        const int count = chainio_ring_reap(ring.ring, replies, 3, kRingPatience);
        ASSERT_GT(count, 0) << ring.error();
        for (int i = 0; i < count; i++) {
            seen.insert(replies[i].user_data);
            // A frame can go out again at once.
            ASSERT_EQ(chainio_ring_release(ring.ring, replies[i].frame), 0);
        }
    }
    EXPECT_EQ(seen, (std::multiset<std::uint64_t>{0, 1, 2, 3}));
}

TEST(Asking, ARequestWithoutAReplyIsToldFromAnEmptyOne) {
    const RingServer server([](Guest& guest) {
        while (const auto request = guest.take())
            text_of(*request) == "empty" ? guest.answer(request->number, "") : guest.release(request->number);
    });
    Ring ring(server, 1);
    chainio_ring_reply reply{};
    ring.submit("empty", 5);
    ASSERT_EQ(ring.reap(reply), 1);
    EXPECT_NE(reply.bytes, nullptr);
    EXPECT_EQ(reply.length, 0u);
    // The frame of a reply can be submitted as it is.
    std::memcpy(reply.frame, "none", 4);
    ASSERT_EQ(chainio_ring_submit(ring.ring, reply.frame, 4, 6), 0);
    ASSERT_EQ(ring.reap(reply), 1);
    EXPECT_EQ(reply.user_data, 6u);
    EXPECT_EQ(reply.bytes, nullptr);
    EXPECT_EQ(reply.length, 0u);
    ASSERT_EQ(chainio_ring_release(ring.ring, reply.frame), 0);
    EXPECT_EQ(ring.call("empty"), "");
    EXPECT_EQ(ring.call("none"), number(ENOMSG));
    EXPECT_EQ(ring.error(),
              "the server has given no reply, as of a request that it does not understand, or has no time for");
}

TEST(Asking, AFrameIsSubmittedAndReleasedByWhoHasIt) {
    std::binary_semaphore answers(0);
    const RingServer server([&](Guest& guest) {
        const auto request = guest.take();
        answers.acquire();
        guest.answer(request->number, "late");
        guest.take();
    });
    Ring ring(server, 2);
    auto* first = static_cast<char*>(chainio_ring_take(ring.ring));
    auto* second = static_cast<char*>(chainio_ring_take(ring.ring));
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(chainio_ring_take(ring.ring), nullptr);
    EXPECT_EQ(ring.error(),
              "all frames are on their way or with the caller: reap and release some, or open with more in_flight");
    EXPECT_EQ(ring.call("x"), number(EBUSY));
    EXPECT_EQ(ring.error(),
              "all 2 frames are on their way or with the caller: reap and release some, or open with a larger "
              "`in_flight`");

    const std::string not_yours = "the frame is not the caller's: submit one that was taken, or came with a reply";
    char other[512]{};
    for (char* frame : {first + 1, first - 512, second + 512, other, static_cast<char*>(nullptr)}) {
        if (frame == second || frame == first) continue;
        EXPECT_EQ(chainio_ring_submit(ring.ring, frame, 1, 0), -EINVAL);
        EXPECT_EQ(ring.error(), not_yours);
        EXPECT_EQ(chainio_ring_release(ring.ring, frame), -EINVAL);
    }
    EXPECT_EQ(chainio_ring_submit(ring.ring, first, 513, 0), -EMSGSIZE);
    EXPECT_EQ(ring.error(), "a request has at most 512 bytes, not 513: open with a larger `longest`");
    ASSERT_EQ(chainio_ring_submit(ring.ring, first, 512, 9), 0) << "a refusal takes nothing away";
    EXPECT_EQ(chainio_ring_submit(ring.ring, first, 1, 0), -EINVAL) << "it is the server's";
    EXPECT_EQ(chainio_ring_release(ring.ring, first), -EINVAL);
    EXPECT_EQ(ring.error(), "the frame is not the caller's: release one that was taken, or came with a reply");
    ASSERT_EQ(chainio_ring_release(ring.ring, second), 0);
    EXPECT_EQ(chainio_ring_release(ring.ring, second), -EINVAL) << "twice";
    EXPECT_EQ(chainio_ring_submit(ring.ring, second, 1, 0), -EINVAL) << "no longer";
    answers.release();
    EXPECT_EQ(ring.next(), "9:late");
    EXPECT_EQ(chainio_ring_release(ring.ring, first), -EINVAL) << "next() has given it back";
}

TEST(Asking, AReplyThatComesLateIsNoOthers) {
    std::binary_semaphore answers(0);
    const RingServer server([&](Guest& guest) {
        const auto late = guest.take();
        answers.acquire();
        guest.answer(late->number, "late");
        echo(guest);
    });
    Ring ring(server, 1);
    EXPECT_EQ(ring.call("slow", 10), number(ETIMEDOUT));
    EXPECT_EQ(ring.error(), "no reply has come within 10 ms");
    EXPECT_EQ(chainio_ring_in_flight(ring.ring), 0u);
    EXPECT_EQ(ring.call("next", 0), number(EBUSY)) << "its frame is the server's still";
    EXPECT_EQ(ring.next(0), "0");
    answers.release();
    // What a reap finds by the way is free again, and no reply.
    const ipc::Deadline deadline(kRingPatience);
    while (chainio_ring_take(ring.ring) == nullptr && !deadline.is_over()) ASSERT_EQ(ring.next(1), "0");
    EXPECT_FALSE(deadline.is_over());
}

TEST(Asking, ACallFindsTheFrameOfAnEarlierOneThatCameBackLate) {
    std::binary_semaphore answers(0);
    const RingServer server([&](Guest& guest) {
        const auto late = guest.take();
        answers.acquire();
        guest.answer(late->number, "late");
        echo(guest);
    });
    Ring ring(server, 1);
    EXPECT_EQ(ring.call("slow", 0), number(ETIMEDOUT));
    EXPECT_EQ(ring.call("next", 0), number(EBUSY));
    answers.release();
    const ipc::Deadline deadline(kRingPatience);
    std::string said;
    while ((said = ring.call("next")) == number(EBUSY) && !deadline.is_over()) std::this_thread::yield();
    EXPECT_EQ(said, "[next]");
}

TEST(Asking, AReplyThatComesLateLeavesTheNextCallItsOwn) {
    std::binary_semaphore answers(0);
    const RingServer server([&](Guest& guest) {
        const auto late = guest.take();
        const auto next = guest.take();
        guest.answer(late->number, "late");
        guest.answer(next->number, "in time");
        echo(guest);
    });
    Ring ring(server, 2);
    EXPECT_EQ(ring.call("slow", 0), number(ETIMEDOUT));
    EXPECT_EQ(ring.call("next"), "in time");
    for (int i = 0; i < 2; i++) EXPECT_NE(chainio_ring_take(ring.ring), nullptr) << "both are free again";
}

TEST(Asking, AReplyThatIsTooLongIsLost) {
    const RingServer server(echo);
    Ring ring(server, 1);
    char room[4]{};
    EXPECT_EQ(chainio_ring_call(ring.ring, "abc", 3, room, sizeof room, kRingPatience), -EMSGSIZE);
    EXPECT_EQ(ring.error(), "the reply has 5 bytes, and there is room for 4");
    EXPECT_EQ(chainio_ring_call(ring.ring, "ab", 2, room, sizeof room, kRingPatience), 4);
    EXPECT_EQ(std::string(room, 4), "[ab]");
    EXPECT_EQ(chainio_ring_call(ring.ring, std::string(513, 'x').data(), 513, room, sizeof room, 0), -EMSGSIZE);
    EXPECT_EQ(ring.error(), "a request has at most 512 bytes, not 513: open with a larger `longest`");
    EXPECT_EQ(ring.call("ab"), "[ab]") << "the frame came back";
}

TEST(Asking, ACallLeavesTheRepliesOfOthersToBeReaped) {
    const RingServer server([&](Guest& guest) {
        const auto first = guest.take(), second = guest.take(), third = guest.take();
        guest.answer(second->number, "B");
        guest.answer(first->number, "A");
        guest.answer(third->number, "C");
        echo(guest);
    });
    Ring ring(server, 3);
    ring.submit("a", 1);
    ring.submit("b", 2);
    EXPECT_EQ(ring.call("c"), "C");
    EXPECT_EQ(chainio_ring_in_flight(ring.ring), 2u);
    EXPECT_EQ(ring.call("d"), "[d]");
    EXPECT_EQ(ring.next(), "2:B");
    EXPECT_EQ(ring.next(), "1:A");
    EXPECT_EQ(ring.next(), "0");
}

TEST(Asking, TheServersLastRepliesAreReapedBeforeItsEnd) {
    const RingServer server([](Guest& guest) {
        const auto first = guest.take();
        guest.take();
        guest.answer(guest.take()->number, "three");
        guest.release(first->number);
    });
    Ring ring(server);
    for (std::uint64_t i = 1; i <= 3; i++) ring.submit("x", i);
    EXPECT_EQ(ring.next(), "3:three");
    EXPECT_EQ(ring.next(), "1:");
    EXPECT_EQ(ring.next(-1), number(EPIPE));
    EXPECT_EQ(ring.error(), "the server is gone: open another one once it runs again");
    EXPECT_EQ(chainio_ring_in_flight(ring.ring), 1u);
    void* frame = chainio_ring_take(ring.ring);
    EXPECT_EQ(chainio_ring_submit(ring.ring, frame, 1, 0), -EPIPE);
    EXPECT_EQ(chainio_ring_release(ring.ring, frame), 0) << "it is the caller's still";
    EXPECT_EQ(ring.call("x"), number(EPIPE));
    EXPECT_EQ(ring.next(0), number(EPIPE));
}

TEST(Asking, TheServersEndIsSeenWithNothingOnItsWay) {
    std::binary_semaphore ends(0);
    const RingServer server([&](Guest&) { ends.acquire(); });
    Ring ring(server);
    EXPECT_EQ(ring.next(0), "0");
    ends.release();
    std::string said;
    while ((said = ring.next(1)) == "0") {}
    EXPECT_EQ(said, number(EPIPE));
}

TEST(Asking, ACallEndsWithTheServer) {
    const RingServer server([](Guest& guest) { guest.take(); });
    Ring ring(server);
    EXPECT_EQ(ring.call("x", -1), number(EPIPE));
}

// Of two processes that have the handle, one goes on with it, and is not disturbed where the other closes its own.
TEST(Asking, AChildThatClosesEndsNothing) {
    const RingServer server(echo);
    Ring ring(server);
    const int fd = chainio_ring_fd(ring.ring);
    const pid_t child = fork();
    if (child == 0) {
        chainio_ring_close(ring.ring);
        _exit(0);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(ring.call("x"), "[x]");
    ring.submit("y", 1);
    pollfd readable{fd, POLLIN, 0};
    EXPECT_EQ(poll(&readable, 1, kRingPatience), 1);
    EXPECT_EQ(ring.next(0), "1:[y]");
}

// What the server has done wrong, as the client tells it.
std::string broken_by(std::function<void(Guest&, umem::Descriptor&)> change) {
    const RingServer server([&](Guest& guest) {
        const auto request = guest.take();
        umem::Descriptor descriptor{};
        descriptor.kind = umem::Kind::send;
        descriptor.frame = guest.name_of(request->number);
        descriptor.serial = request->number;
        descriptor.length = 1;
        change(guest, descriptor);
        guest.push(descriptor);
        guest.take();
    });
    Ring ring(server);
    ring.submit("x", 3);
    const std::string said = ring.next();
    if (said != number(EPROTO)) return said.substr(0, 2);
    const std::string why = ring.error();
    EXPECT_EQ(ring.next(), number(EPROTO)) << "it stays so";
    EXPECT_EQ(ring.call("x"), number(EPROTO));
    return why;
}

TEST(Asking, AServerThatBreaksTheProtocolIsNotBelieved) {
    const auto why = [](const std::string& what) {
        return "the server has broken the protocol (" + what + "): open another one";
    };
    using D = umem::Descriptor;
    EXPECT_EQ(broken_by([](Guest&, D&) {}), "3:");
    EXPECT_EQ(broken_by([](Guest&, D& d) { d.kind = umem::Kind::message; }), why("bad_kind"));
    EXPECT_EQ(broken_by([](Guest&, D& d) { d.kind = static_cast<umem::Kind>(99); }), why("bad_kind"));
    EXPECT_EQ(broken_by([](Guest& g, D& d) { d.frame = g.name_of(2); }), why("bad_frame")) << "it was not sent";
    EXPECT_EQ(broken_by([](Guest&, D& d) { d.frame = 0; }), why("bad_frame")) << "the rings";
    EXPECT_EQ(broken_by([](Guest&, D& d) { d.offset = 512; }), why("bad_frame")) << "into the next frame";
    EXPECT_EQ(broken_by([](Guest&, D& d) { d.length = UINT32_MAX; }), why("bad_range"));
    EXPECT_EQ(broken_by([](Guest&, D& d) { d.serial++; }), why("another serial"));
}

TEST(Asking, WhatCannotBeMeantIsRefused) {
    const RingServer server(echo);
    Ring ring(server);
    chainio_ring_reply reply{};
    EXPECT_EQ(chainio_ring_reap(ring.ring, nullptr, 1, 0), -EINVAL);
    EXPECT_EQ(ring.error(), "replies must not be NULL");
    EXPECT_EQ(chainio_ring_reap(ring.ring, nullptr, 0, 0), 0);
    EXPECT_EQ(chainio_ring_reap(ring.ring, &reply, 1000, 0), 0) << "more than there are frames";
    EXPECT_EQ(chainio_ring_call(ring.ring, nullptr, 1, &reply, 1, 0), -EINVAL);
    EXPECT_EQ(ring.error(), "request must not be NULL");
    EXPECT_EQ(chainio_ring_call(ring.ring, "x", 1, nullptr, 1, 0), -EINVAL);
    EXPECT_EQ(ring.error(), "reply must not be NULL");
    for (const auto& none : {
             +[] { return chainio_ring_submit(nullptr, nullptr, 0, 0); },
             +[] { return chainio_ring_reap(nullptr, nullptr, 0, 0); },
             +[] { return chainio_ring_release(nullptr, nullptr); },
             +[] { return chainio_ring_fd(nullptr); },
             +[] { return static_cast<int>(chainio_ring_call(nullptr, nullptr, 0, nullptr, 0, 0)); },
         }) {
        EXPECT_EQ(none(), -EINVAL);
        EXPECT_STREQ(chainio_ring_error(nullptr), "ring must not be NULL");
    }
    EXPECT_EQ(chainio_ring_take(nullptr), nullptr);
    EXPECT_EQ(chainio_ring_longest(nullptr), 0u);
    EXPECT_EQ(chainio_ring_in_flight(nullptr), 0u);
    chainio_ring_close(nullptr);
}

}  // namespace
}  // namespace chainio::tests
