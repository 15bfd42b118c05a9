// The C functions over the client of a service over shared memory. Nothing is thrown across them.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "runtime/bindings/include/chainio-ring.h"
#include "runtime/ipc/client.h"

using chainio::ipc::Answered;
using chainio::ipc::Client;
using chainio::ipc::ClientOptions;
using chainio::ipc::Wrong;

struct chainio_ring {
    explicit chainio_ring(Client opened) : client(std::move(opened)), answered(client.frames()) {}
    Client client;
    std::vector<Answered> answered;
    const char* error = "no error";
};

namespace {

constexpr std::uint32_t kMostSpinning = 1'000'000;  // microseconds
constexpr std::uint32_t kMostOpening = 3'600'000;   // milliseconds

thread_local std::string ring_error = "no error";

int fail_ring(int error, std::string message) {
    ring_error = std::move(message);
    return -error;
}

int fail_ring(chainio_ring* ring, const Wrong& wrong) {
    ring->error = wrong.why;
    return -wrong.number;
}

// Who has no handle is told by chainio_ring_error(NULL), as of an open.
int no_ring() {
    try {
        return fail_ring(EINVAL, "ring must not be NULL");
    } catch (const std::exception&) {
        return -EINVAL;
    }
}

int read_ring_options(const chainio_ring_options* given, ClientOptions& options) {
    chainio_ring_options known{};
    if (given != nullptr) {
        if (given->size < sizeof(std::size_t) || given->size > 4096)
            return fail_ring(EINVAL, "options->size must be sizeof(struct chainio_ring_options)");
        std::memcpy(&known, given, std::min(given->size, sizeof known));
    }
    using chainio::ipc::kMostFrames;
    using chainio::umem::kMaxFrame;
    using chainio::umem::kUnit;
    if (known.in_flight > kMostFrames)
        return fail_ring(EINVAL, "options->in_flight is at most " + std::to_string(kMostFrames));
    if (known.longest > kMaxFrame)
        return fail_ring(EINVAL, "options->longest is at most " + std::to_string(kMaxFrame) + " bytes");
    if (known.spin_us > kMostSpinning)
        return fail_ring(EINVAL, "options->spin_us is at most " + std::to_string(kMostSpinning));
    if (known.open_ms > kMostOpening)
        return fail_ring(EINVAL, "options->open_ms is at most " + std::to_string(kMostOpening));
    if (known.in_flight != 0) options.shape.frames = known.in_flight;
    if (known.longest != 0) options.shape.frame_bytes = std::bit_ceil(std::max<std::uint32_t>(known.longest, kUnit));
    if (known.open_ms != 0) options.open_ms = known.open_ms;
    options.spin_us = known.spin_us;
    return 0;
}

// No frame has it where the pointer is none of a frame.
std::uint32_t frame_at(const chainio_ring* ring, const void* frame) {
    return ring->client.number_of(frame).value_or(UINT32_MAX);
}

int open_ring(const char* path, const char* service, const chainio_ring_options* given, chainio_ring** out) {
    if (path == nullptr) return fail_ring(EINVAL, "path must not be NULL");
    if (service == nullptr) return fail_ring(EINVAL, "service must not be NULL");
    if (out == nullptr) return fail_ring(EINVAL, "out must not be NULL");
    ClientOptions options;
    if (const int wrong = read_ring_options(given, options); wrong != 0) return wrong;
    auto client = Client::open(path, service, options);
    if (!client) return fail_ring(client.error().number, std::move(client.error().why));
    *out = std::make_unique<chainio_ring>(std::move(*client)).release();
    return 0;
}

}  // namespace

extern "C" {

int chainio_ring_open(const char* path, const char* service, const chainio_ring_options* options, chainio_ring** out) {
    if (out != nullptr) *out = nullptr;
    try {
        return open_ring(path, service, options, out);
    } catch (const std::bad_alloc&) {
        ring_error = "out of memory";
        return -ENOMEM;
    }
}

void chainio_ring_close(chainio_ring* ring) { delete ring; }

const char* chainio_ring_error(const chainio_ring* ring) { return ring == nullptr ? ring_error.c_str() : ring->error; }

size_t chainio_ring_longest(const chainio_ring* ring) { return ring == nullptr ? 0 : ring->client.longest(); }

uint32_t chainio_ring_in_flight(const chainio_ring* ring) { return ring == nullptr ? 0 : ring->client.in_flight(); }

void* chainio_ring_take(chainio_ring* ring) {
    if (ring == nullptr) {
        no_ring();
        return nullptr;
    }
    const auto number = ring->client.take();
    if (number) return ring->client.frame(*number);
    ring->error = "all frames are on their way or with the caller: reap and release some, or open with more in_flight";
    return nullptr;
}

int chainio_ring_submit(chainio_ring* ring, void* frame, size_t bytes, uint64_t user_data) {
    if (ring == nullptr) return no_ring();
    const auto submitted = ring->client.submit(frame_at(ring, frame), bytes, user_data);
    return submitted ? 0 : fail_ring(ring, submitted.error());
}

int chainio_ring_reap(chainio_ring* ring, chainio_ring_reply* replies, uint32_t most, int timeout_ms) {
    if (ring == nullptr) return no_ring();
    if (replies == nullptr && most != 0) return fail_ring(ring, {EINVAL, "replies must not be NULL"});
    const std::span answered(ring->answered.data(), std::min<std::size_t>(most, ring->answered.size()));
    const auto count = ring->client.reap(answered, timeout_ms);
    if (!count) return fail_ring(ring, count.error());
    for (unsigned i = 0; i < *count; i++) {
        const Answered& from = answered[i];
        replies[i] = {.user_data = from.user_data,
                      .bytes = from.answered ? from.bytes.data() : nullptr,
                      .length = from.answered ? from.bytes.size() : 0,
                      .frame = ring->client.frame(from.number),
                      .reserved = {}};
    }
    return static_cast<int>(*count);
}

int chainio_ring_release(chainio_ring* ring, void* frame) {
    if (ring == nullptr) return no_ring();
    const auto released = ring->client.release(frame_at(ring, frame));
    return released ? 0 : fail_ring(ring, released.error());
}

long chainio_ring_call(chainio_ring* ring, const void* request, size_t bytes, void* reply, size_t room,
                       int timeout_ms) {
    if (ring == nullptr) return no_ring();
    if (request == nullptr && bytes != 0) return fail_ring(ring, {EINVAL, "request must not be NULL"});
    if (reply == nullptr && room != 0) return fail_ring(ring, {EINVAL, "reply must not be NULL"});
    const auto length = ring->client.call({static_cast<const std::uint8_t*>(request), bytes},
                                          {static_cast<std::uint8_t*>(reply), room}, timeout_ms);
    return length ? static_cast<long>(*length) : fail_ring(ring, length.error());
}

int chainio_ring_fd(chainio_ring* ring) { return ring == nullptr ? no_ring() : ring->client.fd(); }

}  // extern "C"
