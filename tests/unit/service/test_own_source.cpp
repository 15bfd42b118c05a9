#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/service/own_source.h"
#include "tests/support/in_child.h"
#include "tests/support/refused_call.h"

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
    EXPECT_EQ(is_own(*source_of(bytes_of(four("127.0.0.1", 7001)))), true);
    // For documentation: nobody has them.
    EXPECT_EQ(is_own(*source_of(bytes_of(four("192.0.2.77", 7001)))), false);
    EXPECT_EQ(is_own(*source_of(bytes_of(six("2001:db8::77", 7001)))), false);
}

// A network of the process's own, whose one interface is up, and in which sockets of IPv6 are of that alone.
bool enter_network_of_ipv6_only() {
    if (unshare(CLONE_NEWNET) != 0) return false;
    const int setting = open("/proc/sys/net/ipv6/bindv6only", O_WRONLY | O_CLOEXEC);
    const int asked = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    const bool is_set = setting >= 0 && write(setting, "1", 1) == 1 && ioctl(asked, SIOCSIFFLAGS, &loopback) == 0;
    close(setting);
    close(asked);
    return is_set;
}

TEST(OwnSource, IsOneOfIPv4WhereSocketsOfIPv6AreOfThatAlone) {
    const int found = tests::in_child([] {
        if (!enter_network_of_ipv6_only()) return 77;
        return is_own(*source_of(bytes_of(four("127.0.0.1", 7001)))) == true ? 0 : 1;
    });
    if (found == 77) GTEST_SKIP() << "this process may not have a network of its own";
    EXPECT_EQ(found, 0);
}

TEST(OwnSource, IsOneOfIPv4WhereThereAreNoSocketsOfIPv6) {
    const int found = tests::in_child([] {
        tests::refuse_call(__NR_socket, EAFNOSUPPORT, AF_INET6);  // as with a kernel that has no IPv6
        const auto own = is_own(*source_of(bytes_of(four("127.0.0.1", 7001))));
        const auto six_own = is_own(*source_of(bytes_of(six("::1", 7001))));
        return own == true && !six_own && six_own.error() == EAFNOSUPPORT ? 0 : 1;
    });
    EXPECT_EQ(found, 0);
}

TEST(OwnSource, IsNotKnownWithoutADescriptor) {
    const int found = tests::in_child([] {
        const rlimit none{0, 0};
        if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
        const auto own = is_own(*source_of(bytes_of(four("192.0.2.77", 7001))));
        return !own && own.error() == EMFILE ? 0 : 2;
    });
    EXPECT_EQ(found, 0);
}

}  // namespace
}  // namespace chainio::service
