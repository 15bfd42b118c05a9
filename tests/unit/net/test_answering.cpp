// The XDP program as the kernel runs it (BPF_PROG_TEST_RUN), while its replies are written by another thread.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>
#include <linux/if_link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "runtime/net/clock.h"
#include "runtime/net/packet.h"
#include "runtime/net/replies.h"
#include "runtime/net/taken.h"

extern "C" const std::uint8_t chainio_xdp_object[], chainio_xdp_object_end[];

namespace chainio::net {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kHeaders = kEthernet + kIpv4 + kUdp, kHeadersV6 = kEthernet + kIpv6 + kUdp;
constexpr std::uint64_t kKeptFor = 3'600'000'000'000;
constexpr std::uint16_t kPort = 9000;

// The program and its maps, attached to nothing.
class Loaded {
  public:
    explicit Loaded(KeptService service = {kPort, 8, kKeptFor, {0, 0}, {1, 0, 256 + 0xab}})
        : table({std::move(service)}) {
        const auto size = static_cast<std::size_t>(chainio_xdp_object_end - chainio_xdp_object);
        object_ = bpf_object__open_mem(chainio_xdp_object, size, nullptr);
        cio_xdp_constants constants{};
        std::ranges::copy(kOwnMac, constants.own_mac);
        constants.ordered = CIO_XDP_ORDERED;
        constants.seed = kSeed;
        bpf_map__set_initial_value(bpf_object__find_map_by_name(object_, ".rodata"), &constants, sizeof constants);
        bpf_map__set_max_entries(bpf_object__find_map_by_name(object_, "kept_sets"), table.sets());
        bpf_map__set_max_entries(bpf_object__find_map_by_name(object_, "kept_places"), table.sets() * CIO_KEPT_WAYS);
    }
    Loaded(const Loaded&) = delete;
    Loaded& operator=(const Loaded&) = delete;
    ~Loaded() {
        for (const auto& [at, size] : mapped_) munmap(at, size);
        bpf_object__close(object_);
    }
    // 0 or the error's number.
    int load() {
        if (const int failed = bpf_object__load(object_); failed != 0) return -failed;
        table.use({.sets = share<cio_kept_set>("kept_sets", table.sets()),
                   .places = share<cio_kept_place>("kept_places", table.sets() * CIO_KEPT_WAYS),
                   .epochs = share<cio_kept_epoch>("kept_epochs", 64)},
                  kSeed);
        const std::uint32_t first = 0;
        const cio_kept_service service = table.service_at(kPort);
        const std::uint16_t ports[] = {kPort};
        const Address addresses[] = {kOwnV4, kOwnV6}, others[] = {kOtherV4, kOtherV6};
        const bool put =
            bpf_map_update_elem(map("services"), &first, &service, BPF_ANY) == 0 &&
            bpf_map_update_elem(map("taken"), &first, taken(ports, addresses, others).get(), BPF_ANY) == 0 &&
            answer(CIO_XDP_BY_TX);
        return put ? 0 : errno;
    }
    bool answer(cio_xdp_answering how) {
        const std::uint32_t first = 0;
        const cio_xdp_settings settings{.longest_frame = 1514, .answering = how};
        return bpf_map_update_elem(map(".bss"), &first, &settings, BPF_ANY) == 0;
    }
    // The verdict; `packet` becomes what the program makes of it.
    std::uint32_t run(Bytes& packet) {
        std::array<std::uint8_t, 4096> out;
        bpf_test_run_opts options{};
        options.sz = sizeof options;
        options.data_in = packet.data();
        options.data_size_in = static_cast<__u32>(packet.size());
        options.data_out = out.data();
        options.data_size_out = out.size();
        const int program = bpf_program__fd(bpf_object__find_program_by_name(object_, "chainio_take"));
        EXPECT_EQ(bpf_prog_test_run_opts(program, &options), 0);
        packet.assign(out.begin(), out.begin() + options.data_size_out);
        return options.retval;
    }

    static constexpr std::array<std::uint8_t, 6> kOwnMac{2, 0, 0, 0, 0, 2};
    static constexpr Address kOwnV4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
    static constexpr Address kOwnV6{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    static constexpr Address kOtherV4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 3};
    static constexpr Address kOtherV6{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3};
    ReplyTable table;

  private:
    static constexpr std::uint64_t kSeed = 4711;
    int map(const char* name) const { return bpf_object__find_map_fd_by_name(object_, name); }
    template <class T>
    std::span<T> share(const char* name, std::size_t count) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t size = (count * sizeof(T) + page - 1) / page * page;
        void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, map(name), 0);
        if (at == MAP_FAILED) throw std::bad_alloc();
        mapped_.emplace_back(at, size);
        return {static_cast<T*>(at), count};
    }

    bpf_object* object_ = nullptr;
    std::vector<std::pair<void*, std::size_t>> mapped_;
};

const Bytes kRequest{1, 2, 'a', 's', 'k'};

// Of a version: its length and each of its bytes say which.
Bytes reply_of(std::uint8_t version) {
    Bytes reply(40 + version % 8 * std::size_t{170}, version);
    reply[0] = 2, reply[1] = 1, reply[2] = 0xab;
    return reply;
}

bool keep(ReplyTable& table, std::uint8_t version) {
    const Bytes reply = reply_of(version);
    const std::span<const std::uint8_t> part[] = {reply};
    return table.keep(0, table.epoch(0), now_ns(), kRequest, part);
}

// A request from 10.0.0.1 to 10.0.0.2, or from fd00::1 to fd00::2, with a trailer where the driver would have room.
Bytes request_packet(const Bytes& request = kRequest, bool v6 = false) {
    const std::size_t addresses = v6 ? 8 : 12, size = v6 ? 16 : 4, headers = v6 ? kHeadersV6 : kHeaders;
    Bytes packet(700, 0xee);
    // Those of a reply, to be turned around.
    std::fill_n(packet.begin(), headers, 0);
    std::ranges::copy(Loaded::kOwnMac, packet.begin());
    std::ranges::copy(Loaded::kOwnMac, packet.begin() + 6);
    packet[11] = 1;
    packet[12] = v6 ? 0x86 : 0x08, packet[13] = v6 ? 0xdd : 0x00;
    const auto to = std::span(v6 ? Loaded::kOwnV6 : Loaded::kOwnV4).last(size);
    std::ranges::copy(to, packet.begin() + kEthernet + static_cast<std::ptrdiff_t>(addresses));
    std::ranges::copy(to, packet.begin() + kEthernet + static_cast<std::ptrdiff_t>(addresses + size));
    packet[kEthernet + addresses + 2 * size - 1] = 1;
    const std::array<std::uint8_t, 4> ports{kPort >> 8, kPort & 0xff, 0x30, 0x39};
    std::ranges::copy(ports, packet.begin() + static_cast<std::ptrdiff_t>(headers - kUdp));
    std::ranges::copy(request, packet.begin() + static_cast<std::ptrdiff_t>(headers));
    turn_around({packet.data(), headers}, v6, static_cast<std::uint16_t>(request.size()), sum_of(request));
    std::ranges::copy(Loaded::kOwnMac, packet.begin());
    return packet;
}

// The payload of a well-formed datagram, whose sums are right.
Bytes payload_of(const Bytes& packet) {
    const auto headers = parse(packet, packet.size());
    if (!headers) return {};
    const std::span ip = std::span(packet).subspan(kEthernet, headers->bytes - kEthernet - kUdp);
    const std::span udp = std::span(packet).subspan(headers->bytes - kUdp);
    const auto length = static_cast<std::uint16_t>(udp[4] << 8 | udp[5]);
    EXPECT_EQ(udp.size(), length) << "no trailer";
    if (!headers->v6) EXPECT_EQ(sum_of(ip), 0xffff);
    const std::array<std::uint8_t, 4> rest{0, 17, udp[4], udp[5]};
    const std::uint16_t of_addresses = sum_of(ip.subspan(headers->v6 ? 8 : 12));
    EXPECT_EQ(sum_with(sum_with(sum_of(udp), 0, of_addresses), 0, sum_of(rest)), 0xffff);
    return {udp.begin() + kUdp, udp.end()};
}

#define LOAD_OR_SKIP(loaded)                                  \
    if (const int failed = (loaded).load(); failed == EPERM)  \
        GTEST_SKIP() << "this process may not load programs"; \
    else                                                      \
        ASSERT_EQ(failed, 0) << std::strerror(failed)

TEST(Answering, SendsWhatIsKept) {
    Loaded loaded;
    LOAD_OR_SKIP(loaded);
    const Bytes request = request_packet();
    for (const int version : {0, 1, 5, 7}) {
        Bytes packet = request;
        EXPECT_EQ(loaded.run(packet), XDP_PASS);
        EXPECT_EQ(packet, request) << "untouched";
        ASSERT_TRUE(keep(loaded.table, static_cast<std::uint8_t>(version)));
        EXPECT_EQ(loaded.run(packet), XDP_TX);
        EXPECT_EQ(payload_of(packet), reply_of(static_cast<std::uint8_t>(version)));
        loaded.table.forget();
    }
}

TEST(Answering, SendsWhatIsKeptOverIpv6) {
    Loaded loaded;
    LOAD_OR_SKIP(loaded);
    ASSERT_TRUE(keep(loaded.table, 5));
    Bytes packet = request_packet(kRequest, true);
    EXPECT_EQ(loaded.run(packet), XDP_TX);
    EXPECT_EQ(payload_of(packet), reply_of(5));
}

TEST(Answering, SendsBackAsItIsTold) {
    Loaded loaded;
    LOAD_OR_SKIP(loaded);
    ASSERT_TRUE(keep(loaded.table, 5));
    for (const bool v6 : {false, true}) {
        Bytes packet = request_packet(kRequest, v6);
        ASSERT_TRUE(loaded.answer(CIO_XDP_BY_REDIRECT));
        EXPECT_EQ(loaded.run(packet), XDP_REDIRECT);
        EXPECT_EQ(payload_of(packet), reply_of(5));
        ASSERT_TRUE(loaded.answer(CIO_XDP_SILENT));
        const Bytes request = request_packet(kRequest, v6);
        packet = request;
        EXPECT_EQ(loaded.run(packet), XDP_PASS);
        EXPECT_EQ(packet, request) << "untouched";
    }
}

// Whatever of the request a reply begins with, however short either is, and with nothing behind the request as well.
TEST(Answering, RepeatsWhatIsTheRequests) {
    std::mt19937 random(20261122);
    for (int round = 0; round < 100; round++) {
        KeptService service{kPort, 8, kKeptFor, {}, std::vector<std::uint16_t>(random() % (CIO_KEPT_HEAD + 1))};
        Bytes request(1 + random() % (round % 3 == 0 ? 20 : CIO_KEPT_REQUEST));
        const auto begin = static_cast<std::uint16_t>(std::min<std::size_t>(request.size(), CIO_KEPT_FIXED));
        for (auto& byte : request) byte = static_cast<std::uint8_t>(random());
        for (std::size_t i = 0; i < service.head.size(); i++) {
            // Now and then as many as follow one another.
            const bool goes_on = i != 0 && random() % 3 != 0 && service.head[i - 1] + 1 < begin;
            service.head[i] = static_cast<std::uint16_t>(
                goes_on ? service.head[i - 1] + 1 : (random() % 2 ? 256 + random() % 256 : random() % begin));
        }
        Bytes reply(std::max<std::size_t>(1, service.head.size() + random() % 20), 'r');
        for (std::size_t i = 0; i < service.head.size(); i++)
            reply[i] = service.head[i] < 64 ? request[service.head[i]] : static_cast<std::uint8_t>(service.head[i]);
        Loaded loaded(service);
        LOAD_OR_SKIP(loaded);
        const std::span<const std::uint8_t> part[] = {reply};
        ASSERT_TRUE(loaded.table.keep(0, loaded.table.epoch(0), now_ns(), request, part));
        Bytes packet = request_packet(request, round % 2 == 0);
        if (random() % 2 == 0) packet.resize(parse(packet, packet.size())->bytes + request.size());
        EXPECT_EQ(loaded.run(packet), XDP_TX);
        EXPECT_EQ(payload_of(packet), reply) << "round " << round;
        // Another request is not answered, wherever it differs.
        Bytes other = request;
        other[random() % other.size()] ^= 1;
        packet = request_packet(other, round % 2 == 0);
        EXPECT_EQ(loaded.run(packet), XDP_PASS) << "round " << round;
    }
}

constexpr std::size_t kHeaderSum = kEthernet + 10;

void write_header_sum(Bytes& packet) {
    packet[kHeaderSum] = packet[kHeaderSum + 1] = 0;
    const auto sum = static_cast<std::uint16_t>(~sum_of({packet.data() + kEthernet, kIpv4}));
    packet[kHeaderSum] = static_cast<std::uint8_t>(sum >> 8);
    packet[kHeaderSum + 1] = static_cast<std::uint8_t>(sum);
}

TEST(Answering, TakesNothingThatIsNotItsOwn) {
    Loaded loaded;
    LOAD_OR_SKIP(loaded);
    ASSERT_TRUE(keep(loaded.table, 5));
    for (const bool v6 : {false, true}) {
        const Bytes right = request_packet(kRequest, v6);
        const std::size_t headers = v6 ? kHeadersV6 : kHeaders;
        const auto refused = [&](std::size_t at, std::uint8_t value) {
            Bytes packet = right;
            packet[at] = value;
            if (!v6 && at != kHeaderSum) write_header_sum(packet);
            const Bytes before = packet;
            EXPECT_EQ(loaded.run(packet), XDP_PASS) << "byte " << at << ", over IPv" << (v6 ? 6 : 4);
            EXPECT_EQ(packet, before) << "untouched";
        };
        for (std::size_t i = 0; i < 6; i++) refused(i, 0x77);                            // another's MAC address
        for (std::size_t i = 12; i < 14; i++) refused(i, 0x77);                          // another protocol
        for (std::size_t i = headers - kUdp - (v6 ? 16 : 4); i < headers - kUdp; i++) {  // address
            refused(i, 0x77);
        }
        for (std::size_t i = headers - kUdp + 2; i < headers - kUdp + 6; i++) refused(i, 0x77);  // port, length
        refused(kEthernet, v6 ? 0x45 : 0x46);
        refused(kEthernet + (v6 ? 6 : 9), 6);   // TCP
        if (!v6) refused(kEthernet + 6, 0x20);  // a fragment
        if (!v6) refused(kHeaderSum, static_cast<std::uint8_t>(right[kHeaderSum] + 1));
        refused(kEthernet + (v6 ? 8 : 12), v6 ? 0xff : 224);  // from multicast
        const std::size_t source_end = headers - kUdp - (v6 ? 17 : 5);
        refused(source_end, 2);  // from where it is sent to
        refused(source_end, 3);  // from another address of the machine
        Bytes packet = right;
        packet[source_end] = 4;
        if (!v6) write_header_sum(packet);
        EXPECT_EQ(loaded.run(packet), XDP_TX) << "from somebody else";
    }
}

TEST(Taken, FindsEveryPortAndAddressAndNoOther) {
    std::mt19937 random(20261122);
    const auto some = [&] {
        Address address{};
        if (random() % 2 == 0) address[10] = address[11] = 0xff;
        for (std::size_t i = address[10] == 0xff ? 12 : 0; i < 16; i++)
            address[i] = static_cast<std::uint8_t>(random());
        return address;
    };
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{CIO_XDP_ADDRESSES}}) {
        std::vector<Address> addresses(count), others(count);
        std::ranges::generate(addresses, some);
        std::ranges::generate(others, some);
        if (count > 1) addresses[1] = others[0] = addresses[0];  // an interface may have one twice, as may two
        const std::vector<std::uint16_t> ports{11211, 53, 65535, 256};
        const auto made = taken(ports, addresses, others);
        const auto whose = [&](const Address& address) -> std::uint64_t {
            std::array<std::uint64_t, 2> half;
            std::memcpy(half.data(), address.data(), sizeof half);
            const cio_xdp_address& slot = made->address[cio_xdp_slot(made->seed, half[0], half[1])];
            return slot.half[0] == half[0] && slot.half[1] == half[1] ? slot.whose : CIO_XDP_FOREIGN;
        };
        for (const Address& each : addresses) EXPECT_EQ(whose(each), CIO_XDP_TAKEN) << count;
        for (const Address& each : std::span(others).subspan(count > 1 ? 1 : 0))
            EXPECT_EQ(whose(each), CIO_XDP_OTHER) << count;
        EXPECT_EQ(whose(Address{}), CIO_XDP_FOREIGN);
        for (int i = 0; i < 1000; i++) EXPECT_EQ(whose(some()), CIO_XDP_FOREIGN);
        std::size_t declared = 0;
        for (unsigned port = 0; port < 65536; port++) declared += made->service[port] != 0 ? 1 : 0;
        EXPECT_EQ(declared, ports.size());
        for (std::size_t i = 0; i < ports.size(); i++) EXPECT_EQ(made->service[htobe16(ports[i])], i + 1);
    }
}

TEST(Taken, HasRoomForSomeOfTheMachinesOtherAddresses) {
    std::vector<Address> others(CIO_XDP_OTHERS + 3000);
    for (std::size_t i = 0; i < others.size(); i++)
        others[i] = {0xfd, 0, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)};
    const auto made = taken({}, {}, others);
    EXPECT_EQ(std::ranges::count(made->address, CIO_XDP_OTHER, &cio_xdp_address::whose), CIO_XDP_OTHERS);
}

TEST(Answering, NeverMixesRepliesAndNeverSpoilsARequest) {
    Loaded loaded;
    LOAD_OR_SKIP(loaded);
    std::atomic<bool> stop = false, begun = false;
    std::thread writer([&] {
        for (std::uint8_t version = 0; !stop; version++) {
            loaded.table.forget();
            keep(loaded.table, version);
            begun = true;
            // As long as a run takes, so that it can be there at a run's begin and another one at its end.
            for (const std::uint64_t until = now_ns() + 1000; now_ns() < until;) {}
        }
    });
    while (!begun) std::this_thread::yield();
    const Bytes request = request_packet();
    unsigned sent = 0, left = 0;
    const auto goes_on = [&, end = now_ns() + 60'000'000'000](unsigned round) {
        return round < 100'000 || ((sent == 0 || left == 0) && now_ns() < end);  // until the writer was run as well
    };
    for (unsigned round = 0; goes_on(round) && !HasFailure(); round++) {
        Bytes packet = request;
        if (loaded.run(packet) == XDP_TX) {
            const Bytes payload = payload_of(packet);
            ASSERT_GT(payload.size(), 3U);
            EXPECT_EQ(payload, reply_of(payload[3]));
            sent++;
        } else {
            packet.resize(kHeaders + kRequest.size());
            EXPECT_TRUE(std::equal(packet.begin(), packet.end(), request.begin())) << "the request as it came";
            left++;
        }
    }
    stop = true;
    writer.join();
    EXPECT_GT(sent, 0U);
    EXPECT_GT(left, 0U);
}

}  // namespace
}  // namespace chainio::net
