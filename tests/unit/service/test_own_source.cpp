#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "runtime/service/own_source.h"

namespace chainio::service {
namespace {

template <class Name>
std::span<const std::uint8_t> bytes_of(const Name& name) {
    return {reinterpret_cast<const std::uint8_t*>(&name), sizeof name};
}

sockaddr_in6 six(const char* address, std::uint16_t port, unsigned link = 0) {
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(port);
    name.sin6_scope_id = link;
    EXPECT_EQ(inet_pton(AF_INET6, address, &name.sin6_addr), 1);
    return name;
}

sockaddr_in four(const char* address, std::uint16_t port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    EXPECT_EQ(inet_pton(AF_INET, address, &name.sin_addr), 1);
    return name;
}

TEST(OwnSource, IsReadFromNamesOfBothFamilies) {
    const auto of_six = source_of(bytes_of(six("fe80::1", 7001, 3)));
    ASSERT_TRUE(of_six);
    EXPECT_EQ(of_six->address, *net::address_of("fe80::1"));
    EXPECT_EQ(of_six->port, 7001);
    EXPECT_EQ(of_six->link, 3u);
    const auto of_four = source_of(bytes_of(four("10.9.0.1", 65535)));
    ASSERT_TRUE(of_four);
    EXPECT_EQ(of_four->address, *net::address_of("10.9.0.1"));
    EXPECT_EQ(of_four->port, 65535);
    EXPECT_FALSE(source_of({}));
    EXPECT_FALSE(source_of(bytes_of(six("::1", 1)).first(20)));
    EXPECT_FALSE(source_of(bytes_of(four("10.9.0.1", 1)).first(8)));
}

TEST(OwnSource, IsOneWhoseAddressTheMachineHas) {
    EXPECT_TRUE(is_own(*source_of(bytes_of(four("127.0.0.1", 7001)))));
    // For documentation: nobody has them.
    EXPECT_FALSE(is_own(*source_of(bytes_of(four("192.0.2.77", 7001)))));
    EXPECT_FALSE(is_own(*source_of(bytes_of(six("2001:db8::77", 7001)))));
}

}  // namespace
}  // namespace chainio::service
