// What the tests of the C interface begin with: a handle, a file, and chains over it.
#pragma once
#include <chainio.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/machine_file.h"

namespace chainio::tests {

struct Handle {
    chainio_handle* handle = nullptr;
    explicit Handle(std::uint32_t in_flight = 8, std::uint32_t flags = 0) {
        const chainio_options options{sizeof options, in_flight, 0, 0, flags, 0};
        const auto& file = machine_artifact();
        EXPECT_EQ(chainio_open_bytes(file.data(), file.size(), &options, &handle), 0) << chainio_error(nullptr);
    }
    ~Handle() { chainio_close(handle); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
};

// Cell 0 leads to cell 1 and 2, whose sum is the result; `word` is in it.
inline std::vector<std::uint8_t> data_file(std::uint8_t word = 0) {
    std::vector<std::uint8_t> bytes(64 * 3);
    bytes[0] = engine::test::kCarryOn;
    bytes[1] = 1;
    const std::uint32_t next = 64;
    const std::uint16_t length = 64;
    std::memcpy(bytes.data() + 16, &next, 4);
    std::memcpy(bytes.data() + 20, &length, 2);
    bytes[64] = engine::test::kReturnSum;
    bytes[72] = word;
    bytes[128] = engine::test::kUserReason;
    return bytes;
}

inline std::array<std::uint64_t, 2> both_files(chainio_handle* handle, const std::string& path) {
    std::array<std::uint64_t, 2> files{};
    EXPECT_EQ(chainio_file_open(handle, "plain", path.c_str(), CHAINIO_FILE_DIRECT, &files[0]), 0);
    EXPECT_EQ(chainio_file_open(handle, "kept", path.c_str(), CHAINIO_FILE_DIRECT, &files[1]), 0);
    return files;
}

// Two chains, so that the ring reads for them; `sum` is what their last steps gave.
inline int submit_and_reap(chainio_handle* handle, const std::array<std::uint64_t, 2>& files,
                           std::uint64_t* sum = nullptr) {
    const chainio_arg args[4] = {{CHAINIO_FILE, 0, files[0], nullptr},
                                 {CHAINIO_FILE, 0, files[1], nullptr},
                                 {CHAINIO_SCALAR, 0, 0, nullptr},
                                 {CHAINIO_BYTES, 0, 0, nullptr}};
    for (int i = 0; i < 2; i++)
        if (const int result = chainio_submit(handle, 0, args, 4, 0); result != 0) return result;
    chainio_completion done[2]{};
    const int count = chainio_reap(handle, done, 2, 2);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(done[i].outcome, static_cast<std::uint32_t>(CHAINIO_OK))
            << chainio_outcome_name(handle, done[i].outcome);
    if (sum != nullptr) *sum = done[0].value + done[1].value;
    return count;
}

}  // namespace chainio::tests
