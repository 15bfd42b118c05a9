// Datagrams by AF_XDP. The headers of a request are the same each time, so that they are written once.
#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/net/port.h"
#include "tests/bench/kv/wire.h"
#include "tests/bench/open_port.h"

namespace chainio::bench_kv {
namespace {

constexpr umem::Owner kAsking = 1;
constexpr std::size_t kHeaders = net::kEthernet + net::kIpv4 + net::kUdp, kAtOnce = 64;
constexpr std::uint16_t kOwnPort = 7000;
constexpr std::size_t kRegion = std::size_t{32} << 20;

class Datagrams final : public Wire {
  public:
    explicit Datagrams(umem::Region region) : slab_(std::move(region)) {}

    bool open(const Load& load) {
        const net::PortOptions wanted{.interface = load.interface, .ports = {kOwnPort}};
        auto opened = bench::open_port(wanted, slab_, fallbacks_);
        if (!opened) {
            std::fprintf(stderr, "bench_kv load: %s\n", opened.error().message.c_str());
            return false;
        }
        port_ = std::move(*opened);
        reply_ = kHeaders + kFrame + 64 + load.items.value_bytes + kTailBytes;
        return write_headers(load);
    }

    bool send(std::uint32_t, const Request& request) override {
        const umem::Frame frame = slab_.allocate(net::kChunk, kAsking);
        if (frame == umem::kNoFrame) return false;
        std::uint8_t* to = slab_.data(frame);
        std::ranges::copy(headers_, to);
        std::ranges::copy(request.frame, to + kHeaders);
        std::ranges::copy(request.text, to + kHeaders + request.frame.size());
        const std::size_t size = request.frame.size() + request.text.size();
        net::turn_around({to, kHeaders}, false, static_cast<std::uint16_t>(size), request.sum);
        // A trailer behind the datagram, to all servers alike: the driver of a NIC has room for the reply where the
        // request came, as it receives into whole pages, and that of a veth pair as much as was sent.
        const auto length = static_cast<std::uint32_t>(std::max(kHeaders + size, reply_));
        if (port_->transmit(frame, length, 0, kAsking)) return true;
        slab_.release(frame, kAsking);
        return false;
    }

    bool turn(const Take& take) override {
        std::array<umem::Descriptor, kAtOnce> batch;
        const std::size_t count = port_->receive(batch);
        for (std::size_t i = 0; i < count; i++) {
            taken(batch[i], take);
            port_->release(batch[i]);
        }
        port_->flush();
        return true;
    }

    bool loses() const override { return true; }

  private:
    // Those of a request from the peer, which turn_around() makes ours.
    bool write_headers(const Load& load) {
        in_addr own{}, peer{};
        std::array<std::uint8_t, 6> mac;
        const int read = std::sscanf(load.peer_mac.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2],
                                     &mac[3], &mac[4], &mac[5]);
        if (inet_pton(AF_INET, load.own.c_str(), &own) != 1 || inet_pton(AF_INET, load.address.c_str(), &peer) != 1 ||
            read != static_cast<int>(mac.size())) {
            std::fprintf(stderr, "bench_kv load: an address is not well-formed\n");
            return false;
        }
        std::uint8_t* to = headers_.data();
        std::ranges::copy(port_->interface().mac, to);
        std::ranges::copy(mac, to + 6);
        to[12] = 0x08;
        std::memcpy(to + 26, &peer, sizeof peer);
        std::memcpy(to + 30, &own, sizeof own);
        const std::array<std::uint16_t, 2> ports{htons(load.port), htons(kOwnPort)};
        std::memcpy(to + 34, ports.data(), sizeof ports);
        return true;
    }

    // In one stretch: what came in several frames is put together.
    void taken(const umem::Descriptor& reply, const Take& take) {
        net::Parts parts;
        const std::size_t count = port_->parts(reply, parts);
        if (count == 0 || reply.length < kFrame) return;
        std::span<const std::uint8_t> whole = parts[0];
        std::array<std::uint8_t, kFrame + 64 + kMostValue + 64> together;
        if (count > 1) {
            std::size_t length = 0;
            for (std::size_t i = 0; i < count; i++) {
                const std::size_t here = std::min(parts[i].size(), together.size() - length);
                std::copy_n(parts[i].begin(), here, together.begin() + static_cast<std::ptrdiff_t>(length));
                length += here;
            }
            whole = {together.data(), length};
        }
        const std::span text(reinterpret_cast<const char*>(whole.data()), whole.size());
        take(id_of(text), text.subspan(kFrame));
    }

    metrics::Fallbacks fallbacks_;
    std::size_t reply_ = 0;  // bytes of the longest, its headers included
    umem::Slab slab_;
    std::unique_ptr<net::Port> port_;
    std::array<std::uint8_t, kHeaders> headers_{};
};

}  // namespace

std::unique_ptr<Wire> open_xdp(const Load& load) {
    auto region = umem::Region::create(kRegion, true);
    if (!region) {
        std::fprintf(stderr, "bench_kv load: %s\n", region.error().c_str());
        return nullptr;
    }
    auto wire = std::make_unique<Datagrams>(std::move(*region));
    if (!wire->open(load)) return nullptr;
    return wire;
}

}  // namespace chainio::bench_kv
