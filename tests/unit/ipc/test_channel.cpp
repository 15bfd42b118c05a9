#include "runtime/ipc/channel.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "runtime/umem/descriptor.h"
#include "tests/support/soak.h"

namespace chainio::ipc {
namespace {

struct Both {
    explicit Both(const Shape& shape)
        : server(*ServerEnd::create(shape)), client(*ClientEnd::attach(server.region().fd())) {}
    ServerEnd server;
    ClientEnd client;

    ChannelHeader& header() { return *reinterpret_cast<ChannelHeader*>(client.region().base()); }
    // What a client that is no client of ours would write.
    umem::Producer rogue() {
        const std::size_t bytes = umem::ring_bytes(header().entries);
        return *umem::Producer::attach({client.region().base() + sizeof(ChannelHeader), bytes});
    }
    umem::Frame name_of(std::uint32_t number) {
        return static_cast<umem::Frame>((client.frame(number).data() - client.region().base()) / umem::kUnit);
    }
};

std::string text(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

void put(std::span<std::uint8_t> frame, std::string_view bytes) {
    std::memcpy(frame.data(), bytes.data(), bytes.size());
}

TEST(Channel, RequestsGoOneWayAndAnswersComeBackInTheSameFrame) {
    Both both({4, 512});
    put(both.client.frame(2), "question");
    EXPECT_EQ(both.client.submit(2, 8, 77), false) << "nobody sleeps";
    EXPECT_TRUE(both.client.is_on_its_way(2));
    Request request;
    ASSERT_EQ(both.server.take(request), true);
    EXPECT_EQ(request.number, 2u);
    EXPECT_EQ(text(request.bytes), "question");
    EXPECT_EQ(both.server.take(request), false);
    EXPECT_EQ(both.server.held(), 1u);
    put(both.server.frame(2), "answer");
    EXPECT_EQ(both.server.answer(2, 6), false);
    EXPECT_EQ(both.server.held(), 0u);
    Reply reply;
    ASSERT_EQ(both.client.reap(reply), true);
    EXPECT_EQ(reply.number, 2u);
    EXPECT_EQ(reply.serial, 77u);
    EXPECT_TRUE(reply.answered);
    EXPECT_EQ(text(reply.bytes), "answer");
    EXPECT_FALSE(both.client.is_on_its_way(2));
    EXPECT_EQ(both.client.reap(reply), false);
}

TEST(Channel, ARequestWithoutAnAnswerGivesItsFrameBack) {
    Both both({1, 512});
    ASSERT_TRUE(both.client.submit(0, 0, 1));
    Request request;
    ASSERT_EQ(both.server.take(request), true);
    EXPECT_TRUE(request.bytes.empty());
    ASSERT_TRUE(both.server.release(0));
    Reply reply;
    ASSERT_EQ(both.client.reap(reply), true);
    EXPECT_FALSE(reply.answered);
    EXPECT_TRUE(both.client.submit(0, 1, 2)) << "it can be sent again";
}

TEST(Channel, SaysWhichShapesThereAre) {
    for (const Shape& shape : {Shape{1, 512}, Shape{1024, 131072}, Shape{3, 4096}}) {
        EXPECT_EQ(wrong_shape(shape), "");
        EXPECT_TRUE(ServerEnd::create(shape));
    }
    EXPECT_EQ(wrong_shape({0, 512}), "a channel has 1 to 1024 frames, not 0");
    EXPECT_EQ(wrong_shape({1025, 512}), "a channel has 1 to 1024 frames, not 1025");
    EXPECT_EQ(wrong_shape({1, 256}), "a frame has a power of two of bytes, 512 to 131072, not 256");
    EXPECT_EQ(wrong_shape({1, 262144}), "a frame has a power of two of bytes, 512 to 131072, not 262144");
    EXPECT_EQ(wrong_shape({1, 1000}), "a frame has a power of two of bytes, 512 to 131072, not 1000");
    EXPECT_EQ(ServerEnd::create({1, 1000}).error(), wrong_shape({1, 1000}));
}

TEST(Channel, HasAllFramesOnTheirWayAtOnce) {
    for (const std::uint32_t frames : {1u, 3u, 8u}) {
        Both both({frames, 512});
        for (std::uint32_t round = 0; round < 5; round++) {
            for (std::uint32_t i = 0; i < frames; i++) ASSERT_TRUE(both.client.submit(i, i, i));
            Request request;
            for (std::uint32_t i = 0; i < frames; i++) ASSERT_EQ(both.server.take(request), true);
            for (std::uint32_t i = frames; i-- > 0;) ASSERT_TRUE(both.server.answer(i, 1));
            Reply reply;
            for (std::uint32_t i = frames; i-- > 0;) {
                ASSERT_EQ(both.client.reap(reply), true);
                EXPECT_EQ(reply.number, i);
            }
        }
    }
}

// The frames do not touch the rings or each other, whatever is written into them.
TEST(Channel, FramesLieApart) {
    Both both({5, 512});
    for (std::uint32_t i = 0; i < 5; i++) std::memset(both.client.frame(i).data(), static_cast<int>(i + 1), 512);
    for (std::uint32_t i = 0; i < 5; i++) {
        EXPECT_EQ(both.server.frame(i).front(), i + 1);
        EXPECT_EQ(both.server.frame(i).back(), i + 1);
        EXPECT_EQ((both.server.frame(i).data() - both.server.region().base()) % 512, 0);
    }
    EXPECT_EQ(both.client.submit(4, 512, 0), false);
}

TEST(Channel, WhoeverSleepsIsRungForOnce) {
    Both both({4, 512});
    EXPECT_TRUE(both.server.fall_asleep());
    EXPECT_EQ(both.client.submit(0, 1, 0), true);
    EXPECT_EQ(both.client.submit(1, 1, 0), false) << "it is awake by then";
    EXPECT_TRUE(both.server.awake());
    EXPECT_FALSE(both.server.fall_asleep()) << "something has come";
    EXPECT_FALSE(both.server.awake());
    Request request;
    ASSERT_EQ(both.server.take(request), true);
    EXPECT_EQ(both.server.answer(request.number, 0), false);
    ASSERT_EQ(both.server.take(request), true);
    Reply reply;
    ASSERT_EQ(both.client.reap(reply), true);
    EXPECT_TRUE(both.client.fall_asleep());
    EXPECT_EQ(both.server.answer(request.number, 0), true);
    EXPECT_TRUE(both.client.awake());
}

TEST(Channel, RefusesWhatAnotherClientWouldSend) {
    const auto fault = [](auto change) {
        Both both({4, 1024});
        umem::Descriptor descriptor{};
        descriptor.kind = umem::Kind::message;
        descriptor.frame = both.name_of(1);
        descriptor.length = 10;
        change(both, descriptor);
        umem::Producer rogue = both.rogue();
        EXPECT_EQ(rogue.push(descriptor), true);
        Request request;
        const auto taken = both.server.take(request);
        EXPECT_EQ(both.server.held(), taken ? 1u : 0u);
        return taken ? "" : std::string(umem::name_of(taken.error()));
    };
    using D = umem::Descriptor;
    EXPECT_EQ(fault([](Both&, D&) {}), "");
    EXPECT_EQ(fault([](Both&, D& d) { d.offset = 1014; }), "");
    EXPECT_EQ(fault([](Both&, D& d) { d.kind = umem::Kind::send; }), "bad_kind");
    EXPECT_EQ(fault([](Both&, D& d) { d.frame++; }), "bad_frame") << "amid a frame";
    EXPECT_EQ(fault([](Both&, D& d) { d.frame = 0; }), "bad_frame") << "the rings";
    EXPECT_EQ(fault([](Both& b, D& d) { d.frame = b.name_of(3) + 2; }), "bad_frame") << "behind the last";
    EXPECT_EQ(fault([](Both&, D& d) { d.offset = 1015; }), "bad_frame") << "into the next frame";
    EXPECT_EQ(fault([](Both&, D& d) { d.length = UINT32_MAX; }), "bad_range");
}

TEST(Channel, AFrameIsNotTheClientsWhileTheServerHasIt) {
    Both both({2, 512});
    umem::Producer rogue = both.rogue();
    umem::Descriptor descriptor{};
    descriptor.kind = umem::Kind::message;
    descriptor.frame = both.name_of(1);
    for (int i = 0; i < 2; i++) ASSERT_EQ(rogue.push(descriptor), true);
    Request request;
    ASSERT_EQ(both.server.take(request), true);
    EXPECT_EQ(both.server.take(request).error(), umem::Fault::bad_frame);
    EXPECT_EQ(both.server.held(), 1u);
}

// Who sends again and again and never reads what comes back has no room for it one day.
TEST(Channel, AClientThatReadsNothingBackIsFound) {
    Both both({2, 512});
    umem::Producer rogue = both.rogue();
    umem::Descriptor descriptor{};
    descriptor.kind = umem::Kind::message;
    descriptor.frame = both.name_of(0);
    std::string found;
    for (int i = 0; i < 3 && found.empty(); i++) {
        ASSERT_EQ(rogue.push(descriptor), true);
        Request request;
        ASSERT_EQ(both.server.take(request), true);
        if (const auto given = both.server.release(0); !given) found = umem::name_of(given.error());
    }
    EXPECT_EQ(found, "bad_index");
    EXPECT_EQ(both.server.held(), 0u);
}

TEST(Channel, TheClientBelievesTheServerAsLittle) {
    Both both({2, 512});
    ASSERT_TRUE(both.client.submit(0, 1, 0));
    const std::size_t bytes = umem::ring_bytes(both.header().entries);
    umem::Producer rogue =
        *umem::Producer::attach({both.client.region().base() + sizeof(ChannelHeader) + bytes, bytes});
    umem::Descriptor descriptor{};
    descriptor.kind = umem::Kind::send;
    descriptor.frame = both.name_of(1);
    ASSERT_EQ(rogue.push(descriptor), true);
    Reply reply;
    EXPECT_EQ(both.client.reap(reply).error(), umem::Fault::bad_frame) << "it was not sent";
    descriptor.frame = both.name_of(0);
    descriptor.kind = umem::Kind::message;
    ASSERT_EQ(rogue.push(descriptor), true);
    EXPECT_EQ(both.client.reap(reply).error(), umem::Fault::bad_kind);
}

TEST(Channel, IsNotTakenFromARegionThatIsNone) {
    const auto refusal = [](auto change) {
        Both both({4, 512});
        change(both.header());
        const auto attached = ClientEnd::attach(both.server.region().fd());
        return attached ? "" : attached.error();
    };
    EXPECT_EQ(refusal([](ChannelHeader&) {}), "");
    EXPECT_EQ(refusal([](ChannelHeader& h) { h.magic++; }), "the server's region holds no channel");
    EXPECT_EQ(refusal([](ChannelHeader& h) { h.version = 2; }),
              "the server's channel is of version 2, this program reads version 1: use the same version of ChainIO on "
              "both sides");
    EXPECT_EQ(refusal([](ChannelHeader& h) { h.frames = 1024; }),
              "the server's region is too small for what it says that it holds");
    EXPECT_EQ(refusal([](ChannelHeader& h) { h.frame_bytes = 3; }),
              "the server's region is too small for what it says that it holds");
    EXPECT_EQ(refusal([](ChannelHeader& h) { h.frames = 2; }), "there is no descriptor ring in this memory")
        << "the second ring lies elsewhere then";
    const auto region = umem::Region::create(65536, false);
    ASSERT_TRUE(region);
    EXPECT_EQ(ClientEnd::attach(region->fd()).error(), "the server's region holds no channel");
}

bool is_readable(int fd) {
    pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&one, 1, 0) == 1;
}

TEST(Bell, RingsUntilItIsHushed) {
    const OwnFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    EXPECT_FALSE(hush_bell(bell.get()));
    ring_bell(bell.get());
    ring_bell(bell.get());
    EXPECT_TRUE(is_readable(bell.get()));
    EXPECT_TRUE(hush_bell(bell.get()));
    EXPECT_FALSE(is_readable(bell.get()));
    EXPECT_FALSE(hush_bell(bell.get()));
}

// Waits by the bell alone where nothing has come, as a process would.
template <class Side>
void wait_for(Side& side, int bell) {
    if (side.fall_asleep()) {
        pollfd one{.fd = bell, .events = POLLIN, .revents = 0};
        ASSERT_EQ(poll(&one, 1, 60'000), 1) << "nobody has rung within a minute";
    }
    if (side.awake()) hush_bell(bell);
}

// Two threads that sleep whenever they find nothing: a bell that is not rung would leave both asleep for ever, and
// bytes that come before what they belong to would differ.
TEST(Channel, NobodySleepsThroughWhatHasCome) {
    constexpr std::uint32_t kFrames = 5;
    const auto total = static_cast<std::uint32_t>(tests::soak_count(100'000, 2'000'000));
    Both both({kFrames, 512});
    const OwnFd server_bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        client_bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    std::thread server([&] {
        std::mt19937 random(7);
        std::deque<std::pair<std::uint32_t, std::uint32_t>> held;
        for (std::uint32_t answered = 0; answered < total;) {
            Request request;
            const auto taken = both.server.take(request);
            ASSERT_TRUE(taken);
            if (*taken) {
                std::uint32_t value = 0;
                std::memcpy(&value, request.bytes.data(), sizeof value);
                held.emplace_back(request.number, value);
            }
            // Some of them are kept for a while, as a chain's reads would.
            if (held.empty() || (*taken && random() % 3 == 0 && held.size() < kFrames)) {
                if (held.empty()) wait_for(both.server, server_bell.get());
                continue;
            }
            const auto [number, value] = held.front();
            held.pop_front();
            const std::uint32_t reply = value * 3;
            std::memcpy(both.server.frame(number).data(), &reply, sizeof reply);
            const auto wakes = both.server.answer(number, sizeof reply);
            ASSERT_TRUE(wakes);
            if (*wakes) ring_bell(client_bell.get());
            answered++;
        }
    });
    std::uint32_t sent = 0, got = 0;
    std::vector<std::uint32_t> free;
    for (std::uint32_t i = 0; i < kFrames; i++) free.push_back(i);
    while (got < total) {
        while (!free.empty() && sent < total) {
            const std::uint32_t number = free.back();
            free.pop_back();
            std::memcpy(both.client.frame(number).data(), &sent, sizeof sent);
            const auto wakes = both.client.submit(number, sizeof sent, sent);
            ASSERT_TRUE(wakes);
            if (*wakes) ring_bell(server_bell.get());
            sent++;
        }
        Reply reply;
        const auto reaped = both.client.reap(reply);
        ASSERT_TRUE(reaped);
        if (!*reaped) {
            wait_for(both.client, client_bell.get());
            continue;
        }
        std::uint32_t value = 0;
        std::memcpy(&value, reply.bytes.data(), sizeof value);
        ASSERT_EQ(value, reply.serial * 3);
        free.push_back(reply.number);
        got++;
    }
    server.join();
}

}  // namespace
}  // namespace chainio::ipc
