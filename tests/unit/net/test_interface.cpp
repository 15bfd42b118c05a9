#include <gtest/gtest.h>

#include <vector>

#include "runtime/net/interface.h"

namespace {

using chainio::net::Address;
using chainio::net::address_of;
using chainio::net::heard_at;

Address address(const char* text) { return address_of(text).value(); }

TEST(Interface, ASocketHearsAtTheAddressesOfWhatItIsBoundTo) {
    const Address four = address("192.0.2.7"), other_four = address("198.51.100.1"), six = address("2001:db8::7"),
                  link = address("fe80::1");
    const std::vector<Address> all = {four, six, other_four, link};
    EXPECT_EQ(heard_at(address("::"), all), all);
    EXPECT_EQ(heard_at(address("0.0.0.0"), all), (std::vector{four, other_four}));
    EXPECT_EQ(heard_at(address("::ffff:0.0.0.0"), all), (std::vector{four, other_four}));
    EXPECT_EQ(heard_at(address("::ffff:192.0.2.7"), all), std::vector{four});
    EXPECT_EQ(heard_at(six, all), std::vector{six});
    EXPECT_TRUE(heard_at(address("192.0.2.8"), all).empty()) << "an address that the interface does not have";
}

TEST(Interface, AnAddressIsReadInBothForms) {
    EXPECT_EQ(address_of("192.0.2.7"), address_of("::ffff:192.0.2.7"));
    EXPECT_EQ(address_of("0.0.0.0"), address_of("::ffff:0:0"));
    EXPECT_FALSE(address_of("localhost") || address_of("192.0.2") || address_of(""));
}

}  // namespace
