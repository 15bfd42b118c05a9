// What the tests of the C library begin with: a handle, and requests that are texts.
#pragma once
#include <chainio-ring.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/ring_server.h"

namespace chainio::tests {

struct Ring {
    chainio_ring* ring = nullptr;
    explicit Ring(const RingServer& server, std::uint32_t in_flight = 4, std::uint32_t longest = 512,
                  std::uint32_t spin_us = 0) {
        const chainio_ring_options options{sizeof options, in_flight, longest, spin_us, 0};
        EXPECT_EQ(chainio_ring_open(server.path().c_str(), "store", &options, &ring), 0) << chainio_ring_error(nullptr);
    }
    ~Ring() { chainio_ring_close(ring); }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    void submit(std::string_view text, std::uint64_t user_data) {
        void* frame = chainio_ring_take(ring);
        ASSERT_NE(frame, nullptr) << error();
        std::memcpy(frame, text.data(), text.size());
        ASSERT_EQ(chainio_ring_submit(ring, frame, text.size(), user_data), 0) << error();
    }
    int reap(chainio_ring_reply& reply, int timeout_ms = kRingPatience) {
        return chainio_ring_reap(ring, &reply, 1, timeout_ms);
    }
    // Of the next reply: USER_DATA:TEXT, whose frame is given back; or the error's number.
    std::string next(int timeout_ms = kRingPatience) {
        chainio_ring_reply reply{};
        const int count = reap(reply, timeout_ms);
        if (count != 1) return std::to_string(count);
        const std::string text(static_cast<const char*>(reply.bytes), reply.length);
        EXPECT_EQ(chainio_ring_release(ring, reply.frame), 0) << error();
        return std::to_string(reply.user_data) + ":" + text;
    }
    // The reply, or the error's number.
    std::string call(std::string_view text, int timeout_ms = kRingPatience) {
        std::string room(512, 0);
        const long length = chainio_ring_call(ring, text.data(), text.size(), room.data(), room.size(), timeout_ms);
        return length < 0 ? std::to_string(length) : room.substr(0, static_cast<std::size_t>(length));
    }
    std::string error() const { return chainio_ring_error(ring); }
};

// Answers each request with itself in brackets.
inline void echo(Guest& guest) {
    while (const auto request = guest.take()) guest.answer(request->number, "[" + text_of(*request) + "]");
}

}  // namespace chainio::tests
