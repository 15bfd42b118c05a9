#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/net/interface.h"
#include "tests/support/in_child.h"
#include "tests/support/refused_call.h"

namespace {

using chainio::net::Address;
using chainio::net::address_of;
using chainio::net::heard_at;
using chainio::net::linked_of;

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

TEST(Interface, AnAddressOfALinkNamesItsInterface) {
    const auto plain = linked_of("fe80::1");
    ASSERT_TRUE(plain) << plain.error().message;
    EXPECT_EQ(plain->address, "fe80::1");
    EXPECT_EQ(plain->link, 0u);
    const auto by_name = linked_of("fe80::1%lo"), by_number = linked_of("FE80::1%1");
    ASSERT_TRUE(by_name && by_number);
    EXPECT_EQ(by_name->address, "fe80::1");
    EXPECT_EQ(by_name->link, by_number->link);
    EXPECT_EQ(by_name->link, 1u) << "each network namespace begins with lo";
    EXPECT_EQ(linked_of("127.0.0.1")->address, "127.0.0.1");
    for (const char* other : {"::1%lo", "127.0.0.1%lo", "2001:db8::7%lo", "%lo", "fe80%lo"})
        EXPECT_EQ(linked_of(other).error().message,
                  "'" + std::string(other) +
                      "' is no address; only those of a single link (fe80::1%eth0) name an "
                      "interface");
    for (const char* none : {"", "0", "1x", "-1", "no", "4294967295", "99999999999", "lo%1", "a-name-that-is-too-long"})
        EXPECT_EQ(linked_of("fe80::1%" + std::string(none)).error().message,
                  "'fe80::1%" + std::string(none) + "': there is no interface '" + none + "'; `ip link` lists them");
}

TEST(Interface, IsAskedAboutByASocketOfAnyKindThatASandboxLeaves) {
    for (const unsigned error : {EAFNOSUPPORT, EACCES, EPERM}) {
        const std::vector<unsigned> all = {AF_INET, AF_INET6, AF_UNIX};
        for (std::size_t refused = 1; refused <= all.size(); refused++) {
            const int found = chainio::tests::in_child([&] {
                for (std::size_t i = 0; i < refused; i++) chainio::tests::refuse_call(SYS_socket, error, all[i]);
                const auto linked = linked_of("fe80::1%lo");
                if (refused < all.size()) return linked && linked->link == 1 ? 0 : 1;
                const std::string why = std::string("'fe80::1%lo': cannot ask about the interface: ") + strerror(error);
                return !linked && linked.error().message == why && !linked.error().unasked ? 0 : 2;
            });
            EXPECT_EQ(found, 0) << refused << " refused with " << strerror(error);
        }
    }
}

}  // namespace
