// What the parts of bench_xdp share.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/net/port.h"

namespace chainio::bench {

struct Options {
    net::PortOptions port;
    std::string file, peer, peer_mac, own;  // own, peer: address:port
    bool worker = false;
    double seconds = 1;
    unsigned outstanding = 1, bytes = 64;
};

// Whether SIGTERM or SIGINT came.
bool stopped();
void stop_on_signals();

inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Looks a while before it sleeps: waking an idle processor takes longer than an answer does.
class Patience {
  public:
    void worked() { empty_ = 0; }
    bool over() { return ++empty_ > 2000; }

  private:
    unsigned empty_ = 0;
};

// Each returns the exit code and prints one line of JSON at its end.
int serve(const Options& options);      // answers over AF_XDP
int ping_xdp(const Options& options);   // asks over AF_XDP
int serve_udp(const Options& options);  // answers over recvmmsg and sendmmsg
int ping_udp(const Options& options);   // asks over them

// What a request holds behind its first byte, and every answer has to hold again.
void write_payload(std::uint8_t* payload, std::size_t bytes, std::uint64_t serial);
bool payload_is_right(const std::uint8_t* payload, std::size_t bytes, std::size_t expected);
int print_pings(std::uint64_t answers, std::uint64_t wrong, double seconds, const std::vector<float>& times);

}  // namespace chainio::bench
