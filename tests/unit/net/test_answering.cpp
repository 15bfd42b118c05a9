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
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/net/packet.h"
#include "runtime/net/replies.h"

extern "C" const std::uint8_t chainio_xdp_object[], chainio_xdp_object_end[];

namespace chainio::net {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kHeaders = kEthernet + kIpv4 + kUdp;
constexpr std::uint64_t kHour = 3'600'000'000'000;
constexpr std::uint16_t kPort = 9000;

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// The program and its maps, attached to nothing.
class Loaded {
  public:
    Loaded() : table({{kPort, 8, kHour, {0, 0}, {1, 0, 256 + 0xab}}}) {
        const auto size = static_cast<std::size_t>(chainio_xdp_object_end - chainio_xdp_object);
        object_ = bpf_object__open_mem(chainio_xdp_object, size, nullptr);
        cio_xdp_constants constants{};
        std::ranges::copy(kOwnMac, constants.own_mac);
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
        const std::uint16_t port = htobe16(kPort);
        const cio_kept_service service = table.service_at(kPort);
        const cio_xdp_settings settings{.longest_frame = 1514, .answering = 1};
        const std::array<std::uint8_t, 16> address{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
        const std::uint8_t yes = 1;
        const bool put = bpf_map_update_elem(map("ports"), &port, &service, BPF_ANY) == 0 &&
                         bpf_map_update_elem(map("addresses"), address.data(), &yes, BPF_ANY) == 0 &&
                         bpf_map_update_elem(map(".bss"), &first, &settings, BPF_ANY) == 0;
        return put ? 0 : errno;
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

// The request from 10.0.0.1 to 10.0.0.2, with a trailer where the driver would have room.
Bytes request_packet() {
    Bytes packet(700, 0xee);
    const std::array<std::uint8_t, kHeaders> reply_headers{2,          0,
                                                           0,          0,
                                                           0,          2,
                                                           2,          0,
                                                           0,          0,
                                                           0,          1,
                                                           8,          0,  // to be turned around
                                                           0x45,       0,
                                                           0,          0,
                                                           0,          0,
                                                           0,          0,
                                                           64,         17,
                                                           0,          0,
                                                           10,         0,
                                                           0,          2,
                                                           10,         0,
                                                           0,          1,  //
                                                           kPort >> 8, kPort & 0xff,
                                                           0x30,       0x39};
    std::ranges::copy(reply_headers, packet.begin());
    std::ranges::copy(kRequest, packet.begin() + kHeaders);
    turn_around({packet.data(), kHeaders}, false, static_cast<std::uint16_t>(kRequest.size()), sum_of(kRequest));
    std::ranges::copy(Loaded::kOwnMac, packet.begin());
    return packet;
}

// The payload of a well-formed datagram, whose sums are right.
Bytes payload_of(const Bytes& packet) {
    const auto headers = parse(packet, packet.size());
    if (!headers) return {};
    const std::span ip(packet.data() + kEthernet, kIpv4);
    const std::span udp(packet.data() + kEthernet + kIpv4, packet.size() - kEthernet - kIpv4);
    const auto length = static_cast<std::uint16_t>(udp[4] << 8 | udp[5]);
    EXPECT_EQ(packet.size(), kEthernet + kIpv4 + length) << "no trailer";
    EXPECT_EQ(sum_of(ip), 0xffff);
    const std::array<std::uint8_t, 4> rest{0, 17, udp[4], udp[5]};
    EXPECT_EQ(sum_with(sum_with(sum_of(udp), 0, sum_of(ip.subspan(12))), 0, sum_of(rest)), 0xffff);
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

TEST(Answering, NeverMixesRepliesAndNeverSpoilsARequest) {
    Loaded loaded;
    LOAD_OR_SKIP(loaded);
    std::atomic<bool> stop = false;
    std::thread writer([&] {
        for (std::uint8_t version = 0; !stop; version++) {
            loaded.table.forget();
            keep(loaded.table, version);
            // As long as a run takes, so that it can be there at a run's begin and another one at its end.
            for (const std::uint64_t until = now_ns() + 1000; now_ns() < until;) {}
        }
    });
    const Bytes request = request_packet();
    unsigned sent = 0, left = 0;
    for (int round = 0; round < 100'000 && !HasFailure(); round++) {
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
