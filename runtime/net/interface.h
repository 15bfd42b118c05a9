// What has to be known of a network interface before a program is attached to it.
#pragma once
#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

namespace chainio::net {

using Address = std::array<std::uint8_t, 16>;  // IPv4: ::ffff:a.b.c.d

struct Interface {
    std::string name;    // as it was asked for, which may be one of its further names (altname)
    std::string device;  // the name that the kernel lists it under
    std::string driver;
    unsigned index = 0, mtu = 0;
    unsigned queues = 1;   // that receive
    unsigned senders = 1;  // the first of them, which send as well: from another one the kernel takes nothing
    bool up = false;
    bool ethernet = true;  // its packets begin with such a header; those of tunnels do not
    bool loopback = false;
    std::array<std::uint8_t, 6> mac{};
    std::vector<Address> addresses;
    // That the machine has at other interfaces, but for those of a single link; and behind them the broadcast addresses
    // of its networks, from which nobody sends either.
    std::vector<Address> others;
};

// `unasked`: for the moment the kernel cannot be asked, so that there may be one.
struct Unfound {
    std::string message;
    bool unasked = false;
};
std::expected<Interface, Unfound> find_interface(const std::string& name);
// The number of one that is up, else 0.
inline unsigned up_as(const std::expected<Interface, Unfound>& found) { return found && found->up ? found->index : 0; }

// An address of a single link is said with its interface, by name or number, as fe80::1%eth0: several links may have
// it.
struct Linked {
    std::string address;  // without it
    unsigned link = 0;    // the interface's number; 0: none is named
};
std::expected<Linked, Unfound> linked_of(const std::string& text);
// An address as a person writes it, in numbers, and without an interface.
std::optional<Address> address_of(const std::string& text);
// Those at which a socket hears that is bound to `bound`: all of ::, the IPv4 ones of ::ffff:0.0.0.0.
std::vector<Address> heard_at(const Address& bound, std::vector<Address> addresses);

// Those that an interface has, and others as above; nothing where the kernel cannot be asked: errno
// says why.
struct Addresses {
    std::vector<Address> own, others;
};
std::optional<Addresses> addresses_of(unsigned index);

// An address of a single link, as each interface may have one by itself.
bool is_of_link(const Address& address);

// The bridge, bond or the like that an interface is a part of, and that has the addresses then; empty: it is of none,
// or the kernel cannot be asked.
std::string master_of(const Interface& interface);

// Whether its driver runs an XDP program on other interfaces, those that are its members. The kernel hands what such a
// program takes to no socket of this one: it would be lost.
bool runs_on_members(const Interface& interface);

// Whether no interface has this number and this device's name together any more; nothing where the kernel cannot be
// asked: a process without a descriptor to spare still has its interface.
std::optional<bool> is_gone(const Interface& interface);

// What its driver says of itself since Linux 6.3, as flags; an errno where the kernel cannot be asked.
inline constexpr std::uint64_t kBasicFeature = 1;     // NETDEV_XDP_ACT_BASIC
inline constexpr std::uint64_t kTransmitFeature = 4;  // NETDEV_XDP_ACT_NDO_XMIT
inline constexpr std::uint64_t kZeroCopyFeature = 8;  // NETDEV_XDP_ACT_XSK_ZEROCOPY
std::expected<std::uint64_t, int> driver_features(const Interface& interface);

// An XDP program that is attached already.
struct AttachedProgram {
    std::uint32_t id = 0;
    std::string name;
    bool generic = false;
};
std::expected<std::optional<AttachedProgram>, Unfound> attached_program(const Interface& interface);

}  // namespace chainio::net
