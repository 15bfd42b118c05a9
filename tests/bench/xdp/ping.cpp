// Asks over AF_XDP: a number of requests is always outstanding, each answer is verified and sent back as the next
// request.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/bench/open_port.h"
#include "tests/bench/xdp/bench_xdp.h"

namespace chainio::bench {
namespace {

constexpr umem::Owner kAsking = 1;

struct End {
    in_addr address{};
    std::uint16_t port = 0;
};

End end_of(const std::string& text) {
    End end;
    const std::size_t colon = text.find(':');
    if (colon != std::string::npos && inet_pton(AF_INET, text.substr(0, colon).c_str(), &end.address) == 1)
        end.port = static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1)));
    return end;
}

// The headers are written as those of a request from the peer, and turned around.
std::uint32_t write_request(std::uint8_t* frame, const net::Interface& interface, const Options& options,
                            std::uint64_t serial) {
    const End own = end_of(options.own), peer = end_of(options.peer);
    constexpr std::size_t kHeaders = net::kEthernet + net::kIpv4 + net::kUdp;
    std::memset(frame, 0, kHeaders);
    std::copy(interface.mac.begin(), interface.mac.end(), frame);
    std::sscanf(options.peer_mac.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", frame + 6, frame + 7, frame + 8, frame + 9,
                frame + 10, frame + 11);
    frame[12] = 0x08;
    std::memcpy(frame + 26, &peer.address, 4);
    std::memcpy(frame + 30, &own.address, 4);
    const std::uint16_t ports[2] = {htons(peer.port), htons(own.port)};
    std::memcpy(frame + 34, ports, 4);
    write_payload(frame + kHeaders, options.bytes, serial);
    net::turn_around({frame, kHeaders}, false, static_cast<std::uint16_t>(options.bytes),
                     net::sum_of({frame + kHeaders, options.bytes}));
    return static_cast<std::uint32_t>(kHeaders + options.bytes);
}

}  // namespace

int ping_xdp(const Options& options) {
    auto region = umem::Region::create(std::size_t{32} << 20, true);
    if (!region) return 3;
    umem::Slab slab(std::move(*region));
    metrics::Fallbacks fallbacks;
    auto opened = open_port(options.port, slab, fallbacks);
    if (!opened) {
        fmt::print(stderr, "bench_xdp: {}\n", opened.error().message);
        return 3;
    }
    net::Port& port = **opened;
    fmt::print(stderr, "{}\n", port.describe());
    const double start = now();
    std::vector<double> asked(options.outstanding);
    for (unsigned i = 0; i < options.outstanding; i++) {
        const umem::Frame frame = slab.allocate(net::kChunk, kAsking);
        const std::uint32_t length = write_request(slab.data(frame), port.interface(), options, i);
        asked[i] = now();
        if (!port.transmit(frame, length, i % port.queues(), kAsking)) return 3;
    }
    port.flush();
    std::vector<float> times;
    times.reserve(std::size_t{1} << 22);
    std::vector<umem::Descriptor> batch(64);
    std::uint64_t answers = 0, wrong = 0;
    double at = start, last = start;
    Patience patience;
    while ((at = now()) - start < options.seconds && at - last < 2 && !stopped()) {
        const std::size_t count = port.receive(batch);
        for (std::size_t i = 0; i < count; i++) {
            std::uint8_t* payload = slab.data(batch[i].frame) + batch[i].offset;
            if (!payload_is_right(payload, batch[i].length, options.bytes)) {
                wrong++;
                port.release(batch[i]);
                continue;
            }
            std::uint64_t serial = 0;
            std::memcpy(&serial, payload + 1, sizeof serial);
            double& since = asked[serial % options.outstanding];
            if (times.size() < times.capacity()) times.push_back(static_cast<float>(at - since));
            write_payload(payload, options.bytes, serial + options.outstanding);
            since = at;
            answers++;
            last = at;
            if (!port.answer(batch[i], options.bytes)) port.release(batch[i]);
        }
        port.flush();
        if (count != 0) {
            patience.worked();
        } else if (patience.over()) {
            port.wait(20);
        }
    }
    const double seconds = at - start;
    opened->reset();
    const int code = print_pings(answers, wrong, seconds, times);
    return slab.accounting().in_use == 0 ? code : 1;
}

}  // namespace chainio::bench
