#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "runtime/umem/descriptor_ring.h"
#include "tests/support/in_child.h"
#include "tests/support/soak.h"

namespace chainio::umem {
namespace {

constexpr std::uint32_t kRegion = 256 << 10;
constexpr Limits kLimits{.region_bytes = kRegion, .classes = 4};

// A ring in a frame of a region, as two processes have it.
struct Shared {
    Slab slab{*Region::create(kRegion, false)};
    std::span<std::uint8_t> memory;

    explicit Shared(std::uint32_t entries) {
        const Frame frame = slab.allocate(static_cast<std::uint32_t>(ring_bytes(entries)), 1);
        memory = {slab.data(frame), slab.frame_bytes(frame)};
        EXPECT_TRUE(make_ring(memory, entries));
    }
    RingHeader& header() { return *reinterpret_cast<RingHeader*>(memory.data()); }
    Descriptor& entry(std::uint32_t index) { return reinterpret_cast<Descriptor*>(&header() + 1)[index]; }
    Producer producer() { return *Producer::attach(memory); }
    Consumer consumer() { return *Consumer::attach(memory, kLimits); }
};

Descriptor numbered(std::uint32_t serial) {
    return {.kind = Kind::message,
            .class_index = static_cast<std::uint8_t>(serial % 4),
            .step = static_cast<std::uint16_t>(serial * 3),
            .frame = serial % (kRegion / kUnit),
            .offset = serial % 17,
            .length = serial % 450,
            .target = serial * 5,
            .chain = serial * 7,
            .serial = serial,
            .depends_on = serial / 2};
}

bool same(const Descriptor& a, const Descriptor& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// The bytes that docs/protocol.md names.
TEST(Descriptor, LiesInMemoryAsTheProtocolSays) {
    const Descriptor descriptor{.kind = Kind::send,
                                .class_index = 2,
                                .step = 0x0403,
                                .frame = 0x08070605,
                                .offset = 0x0c0b0a09,
                                .length = 0x100f0e0d,
                                .target = 0x14131211,
                                .chain = 0x18171615,
                                .serial = 0x1c1b1a19,
                                .depends_on = 0x201f1e1d};
    std::array<std::uint8_t, sizeof descriptor> bytes{};
    std::memcpy(bytes.data(), &descriptor, sizeof descriptor);
    EXPECT_EQ(bytes[0], 3);
    EXPECT_EQ(bytes[1], 2);
    for (std::uint8_t at = 2; at < 32; at++) EXPECT_EQ(bytes[at], at + 1);
}

TEST(Descriptor, IsRefusedWhenItLeadsOutOfTheRegion) {
    const Descriptor good = numbered(9);
    EXPECT_TRUE(check(good, kLimits));
    const auto fault = [&](auto change) {
        Descriptor bad = good;
        change(bad);
        const auto checked = check(bad, kLimits);
        return checked ? std::string("none") : std::string(name_of(checked.error()));
    };
    EXPECT_EQ(fault([](Descriptor& d) { d.kind = static_cast<Kind>(0); }), "bad_kind");
    EXPECT_EQ(fault([](Descriptor& d) { d.kind = static_cast<Kind>(6); }), "bad_kind");
    EXPECT_EQ(fault([](Descriptor& d) { d.class_index = 4; }), "bad_class");
    EXPECT_EQ(fault([](Descriptor& d) { d.frame = kRegion / kUnit; }), "bad_frame");
    EXPECT_EQ(fault([](Descriptor& d) { d.frame = kNoFrame; }), "bad_frame");
    EXPECT_EQ(fault([](Descriptor& d) { d.length = kMaxFrame + 1; }), "bad_range");
    EXPECT_EQ(fault([](Descriptor& d) { d.offset = UINT32_MAX, d.length = UINT32_MAX; }), "bad_range");
    EXPECT_EQ(fault([](Descriptor& d) { d.frame = kRegion / kUnit - 1, d.offset = 0, d.length = 513; }), "bad_range");
    EXPECT_EQ(fault([](Descriptor& d) { d.frame = kRegion / kUnit - 1, d.offset = 0, d.length = 512; }), "none");
    EXPECT_EQ(fault([](Descriptor& d) { d.depends_on = d.serial; }), "bad_dependency");
    EXPECT_EQ(fault([](Descriptor& d) { d.depends_on = d.serial = 0; }), "none") << "it depends on nothing";
}

TEST(DescriptorRing, IsMadeAndFoundOnlyWhereItFits) {
    alignas(64) std::array<std::uint8_t, 4096> memory{};
    for (std::uint32_t entries : {0u, 1u, 3u, 4096u}) EXPECT_FALSE(make_ring(memory, entries)) << entries;
    EXPECT_FALSE(make_ring(std::span(memory).subspan(8), 16));
    EXPECT_FALSE(make_ring(memory, 128));
    const auto none = Producer::attach(memory);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error(), "there is no descriptor ring in this memory");
    ASSERT_TRUE(make_ring(memory, 64));
    EXPECT_FALSE(Consumer::attach(std::span(memory).first(ring_bytes(64) - 1), kLimits));
    EXPECT_FALSE(Consumer::attach(std::span(memory).first(100), kLimits));
    auto& header = *reinterpret_cast<RingHeader*>(memory.data());
    for (std::uint32_t entries : {0u, 63u, 128u, 0x80000000u}) {
        header.entries = entries;
        EXPECT_FALSE(Consumer::attach(memory, kLimits)) << entries;
    }
    header.entries = 64;
    header.entry_bytes += 8;
    EXPECT_FALSE(Consumer::attach(memory, kLimits)) << "of descriptors as a later version may have them";
    header.entry_bytes -= 8;
    header.version = 9;
    const auto other = Producer::attach(memory);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error(),
              "the peer's descriptor ring is of version 9, this program reads version 1: use the same version of "
              "ChainIO on both sides");
}

// A ring by the offsets and numbers of docs/protocol.md alone, with nothing of the headers' names.
struct ByHand {
    alignas(64) std::array<std::uint8_t, 192 + 8 * 32> bytes{};

    explicit ByHand(std::uint32_t tail, std::uint32_t head) {
        put(0, std::uint32_t{0x676e7263});
        put(4, std::uint16_t{1});
        put(6, std::uint16_t{32});
        put(8, std::uint32_t{8});
        put(64, tail);
        put(128, head);
    }
    template <typename T>
    void put(std::size_t at, T value) {
        std::memcpy(bytes.data() + at, &value, sizeof value);
    }
    template <typename T>
    T get(std::size_t at) const {
        T value;
        std::memcpy(&value, bytes.data() + at, sizeof value);
        return value;
    }
    void put_entry(std::size_t at, std::uint8_t kind) {
        put(at, kind);
        put(at + 1, std::uint8_t{3});
        put(at + 2, std::uint16_t{0x1234});
        for (std::uint32_t word = 4; word < 32; word += 4) put(at + word, word * kind);
    }
};

TEST(DescriptorRing, IsReadWhereItWasWrittenByTheProtocolsOffsets) {
    ByHand ring(2, 0xfffffffd);
    const std::array kinds = {Kind::read, Kind::receive, Kind::send, Kind::message, Kind::release};
    for (std::uint8_t kind = 1; kind <= 5; kind++) ring.put_entry(192 + 32 * ((0xfffffffd + kind - 1) % 8), kind);
    auto consumer = Consumer::attach(ring.bytes, kLimits);
    ASSERT_TRUE(consumer) << consumer.error();
    for (std::uint32_t kind = 1; kind <= 5; kind++) {
        Descriptor out{};
        ASSERT_TRUE(consumer->pop(out).value_or(false)) << kind;
        EXPECT_EQ(out.kind, kinds[kind - 1]);
        EXPECT_EQ(out.class_index, 3);
        EXPECT_EQ(out.step, 0x1234);
        EXPECT_EQ((std::array{out.frame, out.offset, out.length, out.target, out.chain, out.serial, out.depends_on}),
                  (std::array{4 * kind, 8 * kind, 12 * kind, 16 * kind, 20 * kind, 24 * kind, 28 * kind}));
        EXPECT_EQ(ring.get<std::uint32_t>(128), 0xfffffffd + kind);
    }
    Descriptor none{};
    EXPECT_FALSE(consumer->pop(none).value_or(true));
    EXPECT_EQ(ring.get<std::uint32_t>(64), 2u);
}

TEST(DescriptorRing, IsWrittenWhereTheProtocolSays) {
    ByHand ring(0xffffffff, 0xfffffff8), want(0, 0xfffffff8);
    auto producer = Producer::attach(ring.bytes);
    ASSERT_TRUE(producer) << producer.error();
    const Descriptor descriptor{.kind = Kind::send,
                                .class_index = 3,
                                .step = 0x1234,
                                .frame = 12,
                                .offset = 24,
                                .length = 36,
                                .target = 48,
                                .chain = 60,
                                .serial = 72,
                                .depends_on = 84};
    ASSERT_TRUE(producer->push(descriptor).value_or(false));
    want.put_entry(192 + 32 * 7, 3);
    EXPECT_EQ(ring.bytes, want.bytes);
    EXPECT_FALSE(producer->push(descriptor).value_or(true)) << "it is full";
    EXPECT_EQ(ring.bytes, want.bytes);
    ASSERT_TRUE(make_ring(ring.bytes, 8));
    EXPECT_EQ(ring.bytes, ByHand(0, 0).bytes);
}

// Against a queue, a million operations, in rings whose indexes pass 2^32 on the way.
TEST(DescriptorRing, MillionOperationsAgreeWithAQueue) {
    std::mt19937_64 random(tests::soak_seed());
    for (std::uint32_t entries : {2u, 64u, 2048u}) {
        Shared shared(entries);
        shared.header().head = shared.header().tail = 0xfffff000u;
        Producer producer = shared.producer();
        Consumer consumer = shared.consumer();
        std::deque<Descriptor> model;
        std::uint32_t serial = 0;
        for (std::uint64_t turn = 0; turn < tests::soak_count(1'000'000, 50'000'000); turn++) {
            // Stretches that fill the ring and stretches that empty it.
            const bool push = random() % 8 < (turn / 4096 % 2 == 0 ? 5u : 3u);
            if (push) {
                const Descriptor descriptor = numbered(++serial);
                const auto pushed = producer.push(descriptor);
                ASSERT_TRUE(pushed) << name_of(pushed.error());
                ASSERT_EQ(*pushed, model.size() < entries) << "turn " << turn << ", seed " << tests::soak_seed();
                if (*pushed) model.push_back(descriptor);
                continue;
            }
            Descriptor out{};
            const auto popped = consumer.pop(out);
            ASSERT_TRUE(popped) << name_of(popped.error());
            ASSERT_EQ(*popped, !model.empty()) << "turn " << turn << ", seed " << tests::soak_seed();
            if (!*popped) continue;
            ASSERT_TRUE(same(out, model.front())) << "turn " << turn << ", seed " << tests::soak_seed();
            model.pop_front();
        }
    }
}

// Pushes descriptors whose frames hold the serial; whoever gets one must see it.
void produce(Producer producer, std::uint8_t* base, std::uint32_t count, Frame first_frame, std::uint32_t frames) {
    for (std::uint32_t serial = 1; serial <= count;) {
        const Frame frame = first_frame + serial % frames;
        std::memcpy(base + std::size_t{frame} * kUnit, &serial, sizeof serial);
        const Descriptor descriptor{.kind = Kind::message,
                                    .class_index = 0,
                                    .step = 0,
                                    .frame = frame,
                                    .offset = 0,
                                    .length = sizeof serial,
                                    .target = 0,
                                    .chain = 0,
                                    .serial = serial,
                                    .depends_on = 0};
        const auto pushed = producer.push(descriptor);
        if (!pushed) return;
        *pushed ? static_cast<void>(serial++) : static_cast<void>(sched_yield());
    }
}

// How many descriptors came in order, with the bytes that belong to them.
std::uint32_t consume(Consumer consumer, const std::uint8_t* base, std::uint32_t count) {
    for (std::uint32_t expected = 1; expected <= count;) {
        Descriptor out{};
        const auto popped = consumer.pop(out);
        if (!popped) return expected - 1;
        if (!*popped) {
            sched_yield();
            continue;
        }
        std::uint32_t serial = 0;
        std::memcpy(&serial, base + std::size_t{out.frame} * kUnit, sizeof serial);
        if (out.serial != expected || serial != expected) return expected - 1;
        expected++;
    }
    return count;
}

constexpr std::uint32_t kEntries = 64;
// A frame is written again only once the ring has gone round, with room for the descriptor that the consumer holds.
constexpr std::uint32_t kFrames = kEntries + 2;

TEST(DescriptorRing, OneThreadHandsFramesToAnother) {
    Shared shared(kEntries);
    std::uint8_t* base = shared.slab.region().base();
    const auto count = static_cast<std::uint32_t>(tests::soak_count(200'000, 20'000'000));
    std::thread other([&] { produce(shared.producer(), base, count, 256, kFrames); });
    const std::uint32_t right = consume(shared.consumer(), base, count);
    other.join();
    EXPECT_EQ(right, count);
}

TEST(DescriptorRing, OneProcessHandsFramesToAnotherThatMapsTheRegionItself) {
    Shared shared(kEntries);
    const auto at = static_cast<std::size_t>(shared.memory.data() - shared.slab.region().base());
    const auto count = static_cast<std::uint32_t>(tests::soak_count(200'000, 20'000'000));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        // The parent's mapping goes, so that only the memfd can lead to the frames.
        auto region = Region::attach(shared.slab.region().fd());
        if (!region || region->base() == shared.slab.region().base()) _exit(1);
        munmap(shared.slab.region().base(), shared.slab.region().size());
        auto producer = Producer::attach({region->base() + at, ring_bytes(kEntries)});
        if (!producer) _exit(2);
        produce(*producer, region->base(), count, 256, kFrames);
        _exit(0);
    }
    EXPECT_EQ(consume(shared.consumer(), shared.slab.region().base(), count), count);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(DescriptorRing, WhatAPeerWritesThereIsAnErrorAndNoCrash) {
    for (std::uint32_t wrong : {kEntries + 1, 0x7fffffffu, 0x80000000u, UINT32_MAX}) {
        Shared shared(kEntries);
        Producer producer = shared.producer();
        Consumer consumer = shared.consumer();
        shared.header().tail = wrong;
        Descriptor out{};
        const auto popped = consumer.pop(out);
        ASSERT_FALSE(popped) << wrong;
        EXPECT_EQ(popped.error(), Fault::bad_index);
        shared.header().tail = 0;
        for (std::uint32_t i = 0; i < kEntries; i++) ASSERT_TRUE(*producer.push(numbered(i + 1)));
        shared.header().head = wrong;
        const auto pushed = producer.push(numbered(1));
        ASSERT_FALSE(pushed) << wrong;
        EXPECT_EQ(pushed.error(), Fault::bad_index);
    }
    // A bad descriptor is taken out, and the good one behind it still comes.
    Shared shared(kEntries);
    Producer producer = shared.producer();
    Consumer consumer = shared.consumer();
    Descriptor bad = numbered(1);
    bad.frame = kNoFrame;
    ASSERT_TRUE(*producer.push(bad));
    ASSERT_TRUE(*producer.push(numbered(2)));
    Descriptor out{};
    const auto refused = consumer.pop(out);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), Fault::bad_frame);
    ASSERT_TRUE(*consumer.pop(out));
    EXPECT_TRUE(same(out, numbered(2)));
    // The header's other fields are not read again.
    shared.header().entries = UINT32_MAX;
    shared.header().magic = 0;
    ASSERT_TRUE(*producer.push(numbered(3)));
    ASSERT_TRUE(*consumer.pop(out));
    EXPECT_EQ(consumer.entries(), kEntries);
}

// Random bytes all over the ring: each pop is a descriptor within the region, none, or a Fault.
TEST(DescriptorRing, RandomBytesLeadNowhere) {
    std::mt19937_64 random(tests::soak_seed());
    Shared shared(kEntries);
    Consumer consumer = shared.consumer();
    std::uint64_t taken = 0;
    for (std::uint64_t turn = 0; turn < tests::soak_count(10'000, 1'000'000); turn++) {
        for (std::uint32_t i = 0; i < kEntries; i++) {
            Descriptor& entry = shared.entry(i);
            std::uint64_t words[4] = {random(), random(), random(), random()};
            std::memcpy(&entry, words, sizeof entry);
            if (random() % 2 == 0) entry.kind = static_cast<Kind>(random() % 7), entry.class_index = random() % 5;
            if (random() % 2 == 0) entry.frame %= 600, entry.offset %= 600, entry.length %= kMaxFrame;
        }
        shared.header().tail = shared.header().head + static_cast<std::uint32_t>(random() % (kEntries + 2));
        for (std::uint32_t i = 0; i <= kEntries; i++) {
            Descriptor out{};
            const auto popped = consumer.pop(out);
            if (!popped && popped.error() == Fault::bad_index) break;
            if (!popped) continue;
            if (!*popped) break;
            taken++;
            ASSERT_LE(std::uint64_t{out.frame} * kUnit + out.offset + out.length, kRegion);
        }
        if (turn % 64 == 63) consumer = shared.consumer();
    }
    EXPECT_GT(taken, 1000u);
}

TEST(Region, IsMappedByItsDescriptorAndRefusedWhenItCouldShrink) {
    auto region = Region::create(1 << 20, true);
    ASSERT_TRUE(region) << region.error();
    auto other = Region::attach(region->fd());
    ASSERT_TRUE(other) << other.error();
    EXPECT_EQ(other->size(), region->size());
    EXPECT_EQ(other->huge(), region->huge());
    region->base()[region->size() - 1] = 42;
    EXPECT_EQ(other->base()[region->size() - 1], 42);
    EXPECT_EQ(other->base()[region->size() + 7], 0);
    EXPECT_NE(ftruncate(other->fd(), 4096), 0);

    const int plain = memfd_create("no region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(ftruncate(plain, 1 << 20), 0);
    const auto refused = Region::attach(plain);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), "the shared region is no memfd of fixed size: its maker could take it away");
    ASSERT_EQ(fcntl(plain, F_ADD_SEALS, F_SEAL_GROW), 0);
    EXPECT_FALSE(Region::attach(plain)) << "it may still shrink";
    ASSERT_EQ(fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_TRUE(Region::attach(plain));
    close(plain);
    EXPECT_FALSE(Region::attach(STDIN_FILENO));
    const auto closed = Region::attach(-1);
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error(), "cannot use the shared region: Bad file descriptor");
}

// A file that grows further than it may ends the process.
TEST(Region, IsRefusedWhereFilesMayNotBeAsLarge) {
    const int code = tests::in_child([] {
        const rlimit limit{1 << 20, 1 << 20};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
        const auto refused = Region::create(4 << 20, true);
        if (refused) return 2;
        const char* wanted =
            "files may not be as large as the block memory, 4096 KiB (ulimit -f): raise the limit, or take less";
        return refused.error() == wanted && Region::create(512 << 10, false) ? 0 : 3;
    });
    EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace chainio::umem
