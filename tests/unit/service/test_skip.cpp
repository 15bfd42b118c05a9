// Bytes behind a request that are no requests: in the bytes of a connection, and in a datagram.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "runtime/service/connection.h"
#include "runtime/service/datagram.h"
#include "tests/unit/service/bytes.h"

namespace chainio::service {
namespace {

struct Held {
    std::array<std::uint8_t, 16> memory{};
    Input input{memory.data(), memory.size()};
    std::string text() const {
        const auto held = input.bytes();
        return {held.begin(), held.end()};
    }
    std::size_t add(std::string_view more) { return input.add(bytes(more)); }
};

TEST(Skip, TakesWhatIsThere) {
    Held made;
    made.add("set\ndata\nget\n");
    made.input.take(4);
    made.input.skip(5);
    EXPECT_EQ(made.text(), "get\n");
    EXPECT_EQ(made.input.skips(), 0u);
}

TEST(Skip, TakesWhatComesLaterWithoutMemoryForIt) {
    Held made;
    made.add("set\nda");
    made.input.take(4);
    made.input.skip(1000);
    EXPECT_EQ(made.input.held(), 0u);
    EXPECT_EQ(made.input.skips(), 998u);
    EXPECT_EQ(made.add(std::string(900, 'x')), 900u) << "more than there is room for";
    EXPECT_EQ(made.add(std::string(98, 'x') + "get\n"), 102u);
    EXPECT_EQ(made.text(), "get\n");
    EXPECT_EQ(made.add(std::string(100, 'y')), 12u) << "and no more than there is room for afterwards";
}

TEST(Skip, TakesWhatIsReceivedInItsPlace) {
    Held made;
    made.add("set\n");
    const auto room = made.input.lend();
    made.input.take(4);
    made.input.skip(5);
    const std::string came = "data\nget\n";
    std::copy(came.begin(), came.end(), room.begin());
    made.input.received(came.size());
    EXPECT_EQ(made.text(), "get\n");
    EXPECT_EQ(made.input.skips(), 0u);
    made.input.skip(100);
    made.input.clear();
    EXPECT_EQ(made.input.skips(), 0u) << "the place's next connection skips nothing";
}

TEST(Skip, HasTheTimeOfARequestForEach64KiB) {
    std::vector<std::uint8_t> in(kInput), out(kOutput);
    Connection connection(in.data(), out.data());
    const std::string piece(30000, 'x');
    EXPECT_FALSE(connection.time_begins()) << "nothing is skipped";
    connection.input.skip(100'000);
    EXPECT_TRUE(connection.time_begins());
    EXPECT_FALSE(connection.time_begins());
    connection.input.add(bytes(piece));
    EXPECT_FALSE(connection.time_begins());
    connection.input.add(bytes(piece));
    EXPECT_FALSE(connection.time_begins());
    connection.input.add(bytes(piece));
    EXPECT_TRUE(connection.time_begins()) << "64 KiB have come";
    EXPECT_FALSE(connection.time_begins());
    connection.input.add(bytes(piece));
    EXPECT_TRUE(connection.time_begins()) << "that of what is behind them";
    EXPECT_FALSE(connection.time_begins());
}

TEST(Skip, EndsWithTheDatagram) {
    std::array<std::uint8_t, 100> memory{};
    Datagram datagram(kLongestDatagram);
    datagram.rest = memory;
    datagram.request_length = 40;
    datagram.skip(10);
    EXPECT_EQ(datagram.request_length, 50u);
    datagram.skip(UINT64_MAX);
    EXPECT_EQ(datagram.request_length, 100u);
}

}  // namespace
}  // namespace chainio::service
