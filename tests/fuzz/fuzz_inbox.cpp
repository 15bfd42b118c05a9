// Any bytes as a ring of events: never a crash, every payload within its event, and the ring is empty afterwards. The
// first four bytes say how far the producer has got and where the server stands.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "runtime/shadow/inbox.h"

namespace {

class Checked final : public chainio::shadow::MessageSink {
  public:
    void on_message(const chainio::shadow::Message& message) override {
        const auto& event = message.event;
        if (event.kind == chainio::shim::EventKind::skip || event.bytes < sizeof event) std::abort();
        if (message.payload.size() > event.bytes - sizeof event) std::abort();
        for (const std::uint8_t byte : message.payload) sum_ += byte;
    }
    void on_process(std::uint32_t) override {}

  private:
    std::uint64_t sum_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace chainio;
    if (size < 4) return 0;
    static const auto region = std::make_unique<shim::Region>();
    shim::Ring& ring = region->rings[0];
    std::uint16_t start = 0, length = 0;
    std::memcpy(&start, data, 2);
    std::memcpy(&length, data + 2, 2);
    data += 4, size -= 4;
    region->holders[0].owner = 1;
    region->used_rings[0] = 1;
    region->holders[0].process = 1;
    ring.head = 0;
    shadow::Inbox inbox(*region, 3, 2);
    Checked sink;
    // Bring the server to where the input begins, so that the end of the ring is met as well.
    const std::uint32_t begin = start / 8 * 8;
    std::memset(ring.data, 0, sizeof ring.data);
    ring.tail = begin;
    inbox.drain(sink, UINT32_MAX, true);
    for (std::size_t i = 0; i < size; i++) ring.data[(begin + i) % shim::kRingBytes] = data[i];
    ring.tail = begin + length;
    inbox.drain(sink, UINT32_MAX, true);
    if (inbox.pending(true) || ring.head != begin + length) std::abort();
    return 0;
}
