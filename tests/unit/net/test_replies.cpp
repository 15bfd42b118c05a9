#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/net/clock.h"
#include "runtime/net/program.h"
#include "runtime/net/replies.h"
#include "tests/support/properties.h"

namespace chainio::net {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::uint64_t kHour = 3'600'000'000'000;

// The arrays that are the program's maps otherwise.
struct Table {
    explicit Table(std::vector<KeptService> services) : table(std::move(services)), sets(table.sets()) {
        places.resize(sets.size() * CIO_KEPT_WAYS);
        epochs.resize(64);
        table.use({.sets = sets, .places = places, .epochs = epochs}, 4711);
    }
    bool keep(const Bytes& request, const Bytes& reply, std::size_t service = 0, std::uint64_t asked = now_ns()) {
        const std::span<const std::uint8_t> parts[] = {std::span(reply).first(reply.size() / 2 + 1),
                                                       std::span(reply).subspan(reply.size() / 2 + 1)};
        return table.keep(service, table.epoch(service), asked, request, parts);
    }
    // What the program would send, its begin as zeros.
    const cio_kept_place* find(const Bytes& request, std::uint32_t service = 0) const {
        Bytes masked(CIO_KEPT_REQUEST);
        std::ranges::copy(request, masked.begin());
        for (std::size_t i = 0; i < CIO_KEPT_FIXED; i++) masked[i] &= table.service(service).compared[i];
        for (std::size_t i = 0; i < places.size(); i++) {
            const cio_kept_place& place = places[i];
            if (sets[i / CIO_KEPT_WAYS].tag[i % CIO_KEPT_WAYS] == 0 || place.service != service) continue;
            if (place.request_length != request.size() || !std::ranges::equal(place.request, masked)) continue;
            const bool fresh = place.epoch == epochs[service].now && place.expires_ns > now_ns();
            return fresh && place.version % 2 == 0 ? &place : nullptr;
        }
        return nullptr;
    }
    Bytes reply(const Bytes& request, std::uint32_t service = 0) const {
        const cio_kept_place* place = find(request, service);
        return place == nullptr ? Bytes{} : Bytes(place->reply, place->reply + place->reply_length);
    }

    ReplyTable table;
    std::vector<cio_kept_set> sets;
    std::vector<cio_kept_place> places;
    std::vector<cio_kept_epoch> epochs;
};

KeptService plain(std::uint32_t entries, std::uint64_t ttl = kHour) { return {9000, entries, ttl, {}, {}}; }

// The program has no more epochs, which are written to as soon as it is loaded.
TEST(Replies, OfMorePortsThanTheProgramHasPlacesForAreRefused) {
    const auto lo = find_interface("lo");
    ASSERT_TRUE(lo) << lo.error().message;
    const std::vector<KeptService> services(CIO_XDP_SERVICES + 1, plain(16));
    const auto attached = Program::attach(*lo, Attach::generic, false, ReplyTable(services));
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().why, Refusal::Why::unsupported);
    EXPECT_EQ(attached.error().message,
              "at most 64 declared ports and 64 addresses of an interface can be taken, and there are more");
}

// Half as many as there are places, whatever the bytes are in which their requests differ.
TEST(Replies, OfRequestsThatAreAlikeAreKept) {
    for (std::size_t at = 0; at < 24; at++) {
        Table table({plain(1024)});
        Bytes request(24, 'k');
        unsigned there = 0;
        const auto number = [&](unsigned i) {
            request[at] = static_cast<std::uint8_t>(i);
            request[at == 23 ? 0 : at + 1] = static_cast<std::uint8_t>(i >> 8);
        };
        for (unsigned i = 0; i < 512; i++) {
            number(i);
            ASSERT_TRUE(table.keep(request, {1, 2, 3}));
        }
        for (unsigned i = 0; i < 512; i++) {
            number(i);
            there += table.find(request) != nullptr ? 1 : 0;
        }
        EXPECT_GT(there, 505U) << "bytes " << at << " and " << at + 1;
    }
}

TEST(Replies, AreKeptUnderTheWholeRequest) {
    Table table({plain(64)});
    EXPECT_TRUE(table.keep({1, 2, 3}, {7, 8, 9}));
    EXPECT_EQ(table.reply({1, 2, 3}), (Bytes{7, 8, 9}));
    EXPECT_EQ(table.find({1, 2, 3})->sum, 7 + (8 << 8) + 9) << "as words of the machine";
    for (const Bytes& other : {Bytes{1, 2}, Bytes{1, 2, 4}, Bytes{1, 2, 3, 0}}) EXPECT_EQ(table.find(other), nullptr);
    EXPECT_FALSE(table.keep({1, 2, 3}, {7, 8, 9})) << "it is there";
    EXPECT_EQ(table.table.kept(0), 1U);
}

TEST(Replies, OfServicesLieApart) {
    Table table({plain(8), {9001, 0, kHour, {}, {}}, {9002, 24, kHour, {}, {}}});
    EXPECT_EQ(table.table.sets(), 1U + 4U);
    EXPECT_TRUE(table.keep({5}, {1}, 0));
    EXPECT_TRUE(table.keep({5}, {2}, 2));
    EXPECT_FALSE(table.keep({5}, {3}, 1)) << "it keeps none";
    EXPECT_EQ(table.reply({5}, 0), Bytes{1});
    EXPECT_EQ(table.reply({5}, 2), Bytes{2});
    EXPECT_EQ(table.table.service_at(9002).first_set, 1U);
    EXPECT_EQ(table.table.service_at(9002).number, 2U);
    EXPECT_EQ(table.table.service_at(9999).sets, 0U);
}

TEST(Replies, WithoutWhatIsTheRequestsOwn) {
    Table table({{9000, 8, kHour, {0, 0, 1, 1}, {1, 0, 256 + 0xab}}});
    EXPECT_TRUE(table.keep({10, 11, 1, 1, 50}, {11, 10, 0xab, 99}));
    EXPECT_EQ(table.reply({20, 21, 1, 1, 50}), (Bytes{0, 0, 0, 99})) << "whatever stands where nobody looks";
    EXPECT_EQ(table.find({10, 11, 2, 1, 50}), nullptr);
    EXPECT_FALSE(table.keep({10, 11, 3, 1, 50}, {10, 11, 0xab, 99})) << "the driver would write another begin";
    EXPECT_FALSE(table.keep({10, 11, 3, 1, 50}, {11, 10, 0xaa, 99}));
    EXPECT_FALSE(table.keep({10}, {0, 10, 0xab, 99})) << "the request has no such byte";
}

TEST(Replies, AreNotKeptLateOrTooLong) {
    Table table({plain(8)});
    const Bytes request(CIO_KEPT_REQUEST, 1), reply(CIO_KEPT_REPLY, 2);
    EXPECT_FALSE(table.keep(Bytes(CIO_KEPT_REQUEST + 1, 1), {1}));
    EXPECT_FALSE(table.keep({}, {1}));
    EXPECT_FALSE(table.keep({1}, Bytes(CIO_KEPT_REPLY + 1, 2)));
    EXPECT_TRUE(table.keep(request, reply));
    EXPECT_EQ(table.reply(request), reply);

    const std::uint64_t before = table.table.epoch(0);
    table.table.forget();
    EXPECT_EQ(table.find(request), nullptr);
    const Bytes late{9};
    const std::span<const std::uint8_t> part[] = {late};
    EXPECT_FALSE(table.table.keep(0, before, now_ns(), request, part)) << "what was read before it was forgotten";
    EXPECT_EQ(table.find(request), nullptr);
    EXPECT_TRUE(table.keep(request, {3}));
    EXPECT_EQ(table.reply(request), Bytes{3});
    table.table.stop();
    EXPECT_EQ(table.table.epoch(0), 0U);
    EXPECT_EQ(table.find(request), nullptr);
    EXPECT_FALSE(table.keep(request, {4}));
    table.table.forget();
    EXPECT_EQ(table.table.epoch(0), 0U) << "for good";
}

TEST(Replies, ExpireFromWhenTheyWereAskedForOn) {
    Table table({plain(8, 1000)});
    EXPECT_TRUE(table.keep({1}, {1}, 0, now_ns() + kHour));
    EXPECT_EQ(table.reply({1}), Bytes{1});
    EXPECT_TRUE(table.keep({2}, {1}, 0, now_ns() - 2000));
    EXPECT_EQ(table.find({2}), nullptr);
    EXPECT_TRUE(table.keep({2}, {2}, 0, now_ns() + kHour)) << "in the place of what was too old";
    EXPECT_EQ(table.reply({2}), Bytes{2});
}

TEST(Replies, GiveWayToWhatIsAskedForMore) {
    Table table({plain(8)});
    for (std::uint8_t i = 0; i < 8; i++) EXPECT_TRUE(table.keep({i}, {i}));
    for (std::uint8_t i = 0; i < 8; i++) ASSERT_EQ(table.reply({i}), Bytes{i}) << "eight in eight places";
    // The clock may have gone on between any two of them.
    const auto alike = [&] { std::ranges::fill(table.sets[0].used, table.sets[0].used[0]); };
    alike();
    // As the program marks what it was asked for; number 5 was not asked for the longest.
    const auto at = static_cast<std::size_t>(table.find({5}) - table.places.data());
    table.sets[0].used[at] -= 10;
    EXPECT_TRUE(table.keep({100}, {100}));
    EXPECT_EQ(table.find({5}), nullptr);
    for (const std::uint8_t i : Bytes{0, 1, 2, 3, 4, 6, 7, 100}) EXPECT_EQ(table.reply({i}), Bytes{i});
    alike();
    EXPECT_TRUE(table.keep({102}, {102}));
    EXPECT_EQ(table.reply({100}), Bytes{100}) << "what was just kept was asked for just now";
    alike();
    EXPECT_TRUE(table.keep({0}, {0})) << "the first one of those alike went";
    // One that expires goes before those.
    const auto old = static_cast<std::size_t>(table.find({3}) - table.places.data());
    table.places[old].expires_ns = 0;
    EXPECT_TRUE(table.keep({101}, {101}));
    for (const std::uint8_t i : Bytes{0, 1, 2, 4, 6, 7, 100, 101}) EXPECT_EQ(table.reply({i}), Bytes{i});
}

TEST(Replies, AreTheLastOnesThatWereKeptOrNone) {
    EXPECT_TRUE(rc::check([] {
        Table table({plain(16), {9001, 32, kHour, {0, 1}, {}}});
        std::map<std::pair<std::uint32_t, Bytes>, Bytes> model;
        for (int round = 0; round < 300; round++) {
            const auto service = *rc::gen::inRange(0u, 2u);
            const Bytes request{service == 0 ? std::uint8_t{1} : *rc::gen::arbitrary<std::uint8_t>(),
                                static_cast<std::uint8_t>(*rc::gen::inRange(0, 60))};
            const Bytes key{service == 0 ? request[0] : std::uint8_t{0}, request[1]};
            if (*rc::gen::inRange(0, 40) == 0) {
                table.table.forget();
                model.clear();
            }
            const Bytes reply =
                *rc::gen::container<Bytes>(*rc::gen::inRange<std::size_t>(1, 40), rc::gen::arbitrary<std::uint8_t>());
            if (table.keep(request, reply, service)) model[{service, key}] = reply;
            const Bytes there = table.reply(request, service);
            RC_ASSERT(there == (model.count({service, key}) != 0 ? model[{service, key}] : Bytes{}));
        }
    }));
}

}  // namespace
}  // namespace chainio::net
