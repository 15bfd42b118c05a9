#include <chainio.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "tests/support/in_child.h"
#include "tests/support/machine_file.h"
#include "tests/support/refused_call.h"
#include "tests/unit/api/handle.h"

extern "C" int chainio_header_outcomes(void);

namespace {

using chainio::tests::both_files;
using chainio::tests::data_file;
using chainio::tests::Handle;
using chainio::tests::machine_artifact;
using chainio::tests::submit_and_reap;
using chainio::tests::TempFile;

TEST(Api, OutcomeNumbersAreThoseOfTheSteps) {
    EXPECT_EQ(chainio_header_outcomes(), CIO_OK + CIO_UNSUPPORTED + CIO_USER);
    EXPECT_EQ(static_cast<int>(CHAINIO_SHORT_READ), static_cast<int>(CIO_SHORT_READ));
    EXPECT_EQ(static_cast<int>(CHAINIO_BAD_ARGUMENT), static_cast<int>(CIO_BAD_ARGUMENT));
}

TEST(Api, OpenRefusesWithAText) {
    chainio_handle* handle = nullptr;
    EXPECT_EQ(chainio_open("/nonexistent/x.o", nullptr, &handle), -ENOENT);
    EXPECT_STREQ(chainio_error(nullptr), "cannot read artifact '/nonexistent/x.o': No such file or directory");
    EXPECT_EQ(chainio_open_bytes("text", 4, nullptr, &handle), -EBADMSG);
    EXPECT_EQ(chainio_open(nullptr, nullptr, &handle), -EINVAL);
    const chainio_options unsized{};
    EXPECT_EQ(chainio_open("x", &unsized, &handle), -EINVAL);
    chainio_options unknown{};
    unknown.size = sizeof unknown;
    unknown.flags = CHAINIO_KERNEL_ENGINE | CHAINIO_NO_RING;
    EXPECT_EQ(chainio_open("x", &unknown, &handle), -EINVAL);
    EXPECT_NE(std::string(chainio_error(nullptr)).find("CHAINIO_NO_RING"), std::string::npos);
    unknown.flags = CHAINIO_AUTO_ENGINE | CHAINIO_INTERPRET;
    EXPECT_EQ(chainio_open("x", &unknown, &handle), -EINVAL);
    EXPECT_STREQ(chainio_error(nullptr),
                 "CHAINIO_AUTO_ENGINE goes with none of CHAINIO_INTERPRET, CHAINIO_NO_RING and CHAINIO_KERNEL_ENGINE");
    unknown.flags = CHAINIO_NO_RING;
    unknown.spin_us = 1;
    EXPECT_EQ(chainio_open("x", &unknown, &handle), -EINVAL);
    EXPECT_STREQ(chainio_error(nullptr), "options->spin_us goes not with CHAINIO_NO_RING: a pread sleeps at once");
    unknown.flags = 0;
    unknown.spin_us = 1'000'001;
    EXPECT_EQ(chainio_open("x", &unknown, &handle), -EINVAL);
    EXPECT_STREQ(chainio_error(nullptr), "options->spin_us is at most 1000000");
    unknown.flags = 1u << 30;
    EXPECT_EQ(chainio_open("x", &unknown, &handle), -EINVAL);
    EXPECT_EQ(handle, nullptr);
}

TEST(Api, SizesOutOfRangeAreWrongArguments) {
    const auto open = [](std::uint32_t in_flight, std::uint32_t max_files, std::uint64_t memory) {
        const auto& file = machine_artifact();
        const chainio_options options{sizeof options, in_flight, max_files, memory, CHAINIO_NO_RING, 0};
        chainio_handle* handle = nullptr;
        const int result = chainio_open_bytes(file.data(), file.size(), &options, &handle);
        chainio_close(handle);
        return result;
    };
    EXPECT_EQ(open(65'537, 0, 0), -EINVAL);
    EXPECT_STREQ(chainio_error(nullptr), "options->in_flight is at most 65536");
    EXPECT_EQ(open(0, 4'097, 0), -EINVAL);
    EXPECT_STREQ(chainio_error(nullptr), "options->max_files is at most 4096");
    EXPECT_EQ(open(0, 0, 262'143), -EINVAL);
    EXPECT_STREQ(chainio_error(nullptr), "options->memory is at least 262144 bytes, or 0: as in_flight asks");
    EXPECT_EQ(open(0, 4'096, 262'144), 0);
}

TEST(Api, DescribesChainsAndParameters) {
    Handle app;
    const int chain = chainio_find_chain(app.handle, "second");
    ASSERT_EQ(chain, 1);
    EXPECT_EQ(chainio_find_chain(app.handle, "secnd"), -ENOENT);
    EXPECT_STREQ(chainio_error(app.handle), "there is no call chain 'secnd'; did you mean 'second'?");
    chainio_chain_info info{};
    info.size = sizeof info;
    ASSERT_EQ(chainio_get_chain(app.handle, 1, &info), 0);
    EXPECT_STREQ(info.name, "second");
    EXPECT_EQ(info.params, 4u);
    EXPECT_EQ(info.result_kind, static_cast<std::uint32_t>(CHAINIO_SCALAR));
    chainio_param_info param{};
    param.size = sizeof param;
    ASSERT_EQ(chainio_get_param(app.handle, 1, 1, &param), 0);
    EXPECT_STREQ(param.file_class, "kept");
    ASSERT_EQ(chainio_get_param(app.handle, 1, 2, &param), 0);
    EXPECT_EQ(param.bits, 40u);
    EXPECT_EQ(chainio_get_param(app.handle, 1, 4, &param), -ENOENT);
    EXPECT_NE(std::string(chainio_describe(app.handle)).find("user engine: native steps"), std::string::npos);
}

// A program built with a shorter struct gets what it knows of, and not a byte more.
TEST(Api, OlderStructsAreFilledAsFarAsTheyGo) {
    Handle app;
    struct {
        chainio_chain_info info;
        std::uint8_t guard[16];
    } old{};
    std::memset(&old, 0xee, sizeof old);
    old.info.size = offsetof(chainio_chain_info, hops);
    ASSERT_EQ(chainio_get_chain(app.handle, 0, &old.info), 0);
    EXPECT_EQ(old.info.params, 4u);
    EXPECT_EQ(old.info.hops, 0xeeeeeeeeu);
    EXPECT_EQ(old.info.size, offsetof(chainio_chain_info, hops));
}

TEST(Api, RunsChainsAndCountsThem) {
    const TempFile file(data_file());
    Handle app;
    std::uint64_t a = 0, b = 0;
    ASSERT_EQ(chainio_file_open(app.handle, "plain", file.path().c_str(), 0, &a), 0) << chainio_error(app.handle);
    ASSERT_EQ(chainio_file_open(app.handle, "kept", file.path().c_str(), CHAINIO_FILE_BUFFERED, &b), 0);
    EXPECT_EQ(chainio_file_open(app.handle, "kep", file.path().c_str(), 0, &b), -EINVAL);
    EXPECT_STREQ(chainio_error(app.handle), "there is no file class 'kep'; did you mean 'kept'?");
    EXPECT_EQ(chainio_file_open(app.handle, "kept", file.path().c_str(), 3, &b), -EINVAL);
    EXPECT_EQ(chainio_file_open(app.handle, nullptr, file.path().c_str(), 0, &b), -EINVAL);
    EXPECT_STREQ(chainio_error(app.handle),
                 "the artifact has several file classes; give file_class, one of 'plain', 'kept'");

    chainio_arg args[4] = {{CHAINIO_FILE, 0, a, nullptr},
                           {CHAINIO_FILE, 0, b, nullptr},
                           {CHAINIO_SCALAR, 0, 0, nullptr},
                           {CHAINIO_BYTES, 3, 0, "abc"}};
    chainio_completion one{};
    ASSERT_EQ(chainio_call(app.handle, 0, args, 4, &one), 0) << chainio_error(app.handle);
    EXPECT_EQ(one.outcome, static_cast<std::uint32_t>(CHAINIO_OK));
    EXPECT_EQ(one.hops, 2u);
    EXPECT_NE(one.value, 0u);
    EXPECT_GT(one.ns, 0u);

    args[2].value = 128;
    for (std::uint64_t i = 0; i < 8; i++) ASSERT_EQ(chainio_submit(app.handle, 0, args, 4, 100 + i), 0);
    EXPECT_EQ(chainio_submit(app.handle, 0, args, 4, 1), -EAGAIN);
    EXPECT_EQ(chainio_call(app.handle, 0, args, 4, &one), -EBUSY);
    EXPECT_EQ(chainio_file_close(app.handle, a), -EBUSY);
    std::vector<chainio_completion> done(8);
    std::uint64_t seen = 0;
    for (unsigned ended = 0; ended < 8;) {
        const int count = chainio_reap(app.handle, done.data(), 8, 1);
        ASSERT_GT(count, 0) << chainio_error(app.handle);
        for (int i = 0; i < count; i++) {
            EXPECT_EQ(done[static_cast<std::size_t>(i)].outcome, static_cast<std::uint32_t>(CHAINIO_USER));
            seen |= std::uint64_t{1} << (done[static_cast<std::size_t>(i)].user_data - 100);
        }
        ended += static_cast<unsigned>(count);
    }
    EXPECT_EQ(seen, 0xffu);
    EXPECT_EQ(chainio_in_flight(app.handle), 0u);
    EXPECT_STREQ(chainio_outcome_name(app.handle, CHAINIO_USER), "own_word");
    EXPECT_EQ(chainio_count_outcome(app.handle, 0, CHAINIO_USER), 8u);
    EXPECT_EQ(chainio_count_outcome(app.handle, 0, CHAINIO_OK), 1u);
    EXPECT_GT(chainio_latency(app.handle, 0, 50), 0u);
    chainio_counters counters{};
    counters.size = sizeof counters;
    ASSERT_EQ(chainio_get_counters(app.handle, &counters), 0);
    EXPECT_GE(counters.syscalls, 2u);
    EXPECT_GE(counters.bytes_read, 64u * 10);
    EXPECT_EQ(chainio_file_close(app.handle, a), 0);
}

TEST(Api, CancelledChainsAreHandedOverAndCounted) {
    const TempFile file(data_file());
    for (const std::uint32_t flags : {0u, static_cast<std::uint32_t>(CHAINIO_NO_RING)}) {
        Handle app(8, flags);
        std::uint64_t a = 0, b = 0;
        ASSERT_EQ(chainio_file_open(app.handle, "plain", file.path().c_str(), 0, &a), 0);
        ASSERT_EQ(chainio_file_open(app.handle, "kept", file.path().c_str(), 0, &b), 0);
        const chainio_arg args[4] = {{CHAINIO_FILE, 0, a, nullptr},
                                     {CHAINIO_FILE, 0, b, nullptr},
                                     {CHAINIO_SCALAR, 0, 0, nullptr},
                                     {CHAINIO_BYTES, 0, 0, nullptr}};
        EXPECT_EQ(chainio_cancel(app.handle, 1), -ENOENT);
        EXPECT_STREQ(chainio_error(app.handle), "no chain with user_data 1 is running; it may have ended already");
        for (const std::uint64_t user_data : {1u, 2u, 1u, 3u}) {
            ASSERT_EQ(chainio_submit(app.handle, 0, args, 4, user_data), 0);
        }
        EXPECT_EQ(chainio_cancel(app.handle, 1), 2);
        EXPECT_EQ(chainio_cancel(app.handle, 1), -ENOENT);
        EXPECT_EQ(chainio_in_flight(app.handle), 4u);
        std::vector<chainio_completion> done(8);
        for (int ended = 0; ended < 4;) {
            const int count = chainio_reap(app.handle, done.data(), 8, 1);
            ASSERT_GT(count, 0);
            for (int i = 0; i < count; i++) {
                const auto& each = done[static_cast<std::size_t>(i)];
                const bool cancelled = each.user_data == 1;
                EXPECT_EQ(each.outcome, static_cast<std::uint32_t>(cancelled ? CHAINIO_CANCELLED : CHAINIO_OK));
                if (cancelled) EXPECT_EQ(each.length, 0u);
            }
            ended += count;
        }
        EXPECT_EQ(chainio_count_outcome(app.handle, 0, CHAINIO_CANCELLED), 2u);
        EXPECT_EQ(chainio_count_outcome(app.handle, 0, CHAINIO_OK), 2u);
        EXPECT_EQ(chainio_file_close(app.handle, a), 0) << "cancelled chains hold no file";
    }
}

// Whether the chains read what is in the file of that word, and no other one.
bool reads_word(chainio_handle* handle, const std::array<std::uint64_t, 2>& files, std::uint8_t word) {
    const TempFile same(data_file(word));
    const Handle alone(8, CHAINIO_NO_RING);
    std::uint64_t wanted = 0, sum = 0;
    const auto its_files = both_files(alone.handle, same.path());
    if (submit_and_reap(alone.handle, its_files, &wanted) != 2 || submit_and_reap(handle, files, &sum) != 2)
        return false;
    return sum == wanted;
}

// Also one that has an engine of its own: by the number of its ring the kernel would take the other engine's for it.
TEST(Api, RefusesAThreadThatDidNotReapFirst) {
    const TempFile file(data_file());
    const Handle app;
    const auto files = both_files(app.handle, file.path());
    ASSERT_EQ(submit_and_reap(app.handle, files), 2);
    for (const bool has_one : {false, true}) {
        std::thread([&] {
            const Handle own;
            if (has_one) ASSERT_EQ(submit_and_reap(own.handle, both_files(own.handle, file.path())), 2);
            EXPECT_EQ(submit_and_reap(app.handle, files), -EIO);
            EXPECT_STREQ(chainio_error(app.handle),
                         "io_uring_enter: File exists (an engine belongs to the thread that reaped first)");
        }).join();
    }
    chainio_completion done[4]{};
    EXPECT_EQ(chainio_reap(app.handle, done, 4, 4), 4) << "the first thread goes on";
}

// With spinning the ring reads for a call, too.
TEST(Api, ACallThatFailsLeavesNoChainInFlight) {
    const TempFile file(data_file());
    const auto& artifact = machine_artifact();
    const chainio_options options{sizeof options, 8, 0, 0, 0, 1};
    chainio_handle* handle = nullptr;
    ASSERT_EQ(chainio_open_bytes(artifact.data(), artifact.size(), &options, &handle), 0);
    const auto files = both_files(handle, file.path());
    const chainio_arg args[4] = {{CHAINIO_FILE, 0, files[0], nullptr},
                                 {CHAINIO_FILE, 0, files[1], nullptr},
                                 {CHAINIO_SCALAR, 0, 0, nullptr},
                                 {CHAINIO_BYTES, 0, 0, nullptr}};
    chainio_completion one{};
    ASSERT_EQ(chainio_call(handle, 0, args, 4, &one), 0);
    std::thread([&] {
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(chainio_call(handle, 0, args, 4, &one), -EIO);
            EXPECT_STREQ(chainio_error(handle),
                         "io_uring_enter: File exists (an engine belongs to the thread that reaped first)");
            EXPECT_EQ(chainio_in_flight(handle), 0u);
        }
    }).join();
    EXPECT_EQ(chainio_call(handle, 0, args, 4, &one), 0);
    EXPECT_EQ(one.outcome, static_cast<std::uint32_t>(CHAINIO_OK));
    chainio_close(handle);
}

// The memory for blocks is one in both processes: what one reads there the other would take for its own.
TEST(Api, AChildUsesNothingOfItsParent) {
    const TempFile file(data_file()), others(data_file(2));
    const Handle app;
    const auto files = both_files(app.handle, file.path());
    ASSERT_EQ(submit_and_reap(app.handle, files), 2);
    for (const unsigned in_flight : {0u, 1u}) {
        const chainio_arg args[4] = {{CHAINIO_FILE, 0, files[0], nullptr},
                                     {CHAINIO_FILE, 0, files[1], nullptr},
                                     {CHAINIO_SCALAR, 0, 0, nullptr},
                                     {CHAINIO_BYTES, 0, 0, nullptr}};
        for (unsigned i = 0; i < in_flight; i++) ASSERT_EQ(chainio_submit(app.handle, 0, args, 4, 7), 0);
        EXPECT_EQ(chainio::tests::in_child([&] {
                      chainio_completion one{};
                      std::uint64_t more = 0;
                      if (chainio_call(app.handle, 0, args, 4, &one) != -EPERM) return 1;
                      if (std::string_view(chainio_error(app.handle)) !=
                          "the handle was opened by the parent process, before fork(); open one in this process")
                          return 2;
                      if (chainio_submit(app.handle, 0, args, 4, 0) != -EPERM) return 3;
                      if (chainio_reap(app.handle, &one, 1, 1) != -EPERM) return 4;
                      if (chainio_cancel(app.handle, 7) != -EPERM) return 5;
                      if (chainio_file_close(app.handle, files[0]) != -EPERM) return 6;
                      if (chainio_file_open(app.handle, "plain", file.path().c_str(), 0, &more) != -EPERM) return 7;
                      const Handle own;
                      const auto own_files = both_files(own.handle, others.path());
                      if (!reads_word(own.handle, own_files, 2)) return 8;
                      chainio_close(app.handle);
                      return reads_word(own.handle, own_files, 2) ? 0 : 9;
                  }),
                  0);
    }
    chainio_completion done[1]{};
    ASSERT_EQ(chainio_reap(app.handle, done, 1, 1), 1) << "the parent goes on";
    EXPECT_EQ(done[0].outcome, static_cast<std::uint32_t>(CHAINIO_OK));
}

// What a child closes is its parent's all the same, also where nobody has used it before.
TEST(Api, AChildThatClosesTakesNothingFromItsParent) {
    const TempFile file(data_file());
    const Handle app;
    const auto files = both_files(app.handle, file.path());
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(chainio::tests::in_child([&] {
                      chainio_close(app.handle);
                      return 0;
                  }),
                  0);
        EXPECT_EQ(submit_and_reap(app.handle, files), 2);
    }
}

// A thread's rings have numbers of their own, from 0 on: what is done to one by its number must not meet another's.
TEST(Api, WhatAnotherThreadDoesToAHandleLeavesItsOwnAlone) {
    const TempFile file(data_file(1)), others(data_file(2));
    auto app = std::make_unique<Handle>();
    auto files = both_files(app->handle, file.path());
    ASSERT_TRUE(reads_word(app->handle, files, 1));
    std::thread([&] {
        const Handle own;
        const auto own_files = both_files(own.handle, others.path());
        ASSERT_TRUE(reads_word(own.handle, own_files, 2));
        for (const std::uint64_t each : files) EXPECT_EQ(chainio_file_close(app->handle, each), 0);
        EXPECT_TRUE(reads_word(own.handle, own_files, 2));
        files = both_files(app->handle, file.path());
        EXPECT_TRUE(reads_word(own.handle, own_files, 2));
    }).join();
    EXPECT_TRUE(reads_word(app->handle, files, 1)) << "what was opened elsewhere";
    chainio_fallback fallback{};
    fallback.size = sizeof fallback;
    ASSERT_EQ(chainio_get_fallback(app->handle, 0, &fallback), 0);
    EXPECT_STREQ(fallback.reason,
                 "a file could not be registered: File exists (an engine belongs to the thread that reaped first)");
    std::thread([&] {
        const Handle own;
        const auto own_files = both_files(own.handle, others.path());
        ASSERT_TRUE(reads_word(own.handle, own_files, 2));
        app.reset();
        for (int i = 0; i < 2; i++) EXPECT_TRUE(reads_word(own.handle, own_files, 2));
    }).join();
}

TEST(Api, RefusesArgumentsByNameAndInterpretsWhenAsked) {
    const TempFile file(data_file());
    Handle app(2, CHAINIO_INTERPRET | CHAINIO_NO_RING);
    EXPECT_NE(std::string(chainio_describe(app.handle)).find("interpreted steps"), std::string::npos);
    std::uint64_t a = 0, b = 0;
    ASSERT_EQ(chainio_file_open(app.handle, "plain", file.path().c_str(), 0, &a), 0);
    ASSERT_EQ(chainio_file_open(app.handle, "kept", file.path().c_str(), 0, &b), 0);
    chainio_arg args[4] = {{CHAINIO_FILE, 0, a, nullptr},
                           {CHAINIO_FILE, 0, b, nullptr},
                           {CHAINIO_SCALAR, 0, std::uint64_t{1} << 50, nullptr},
                           {CHAINIO_BYTES, 0, 0, nullptr}};
    chainio_completion one{};
    EXPECT_EQ(chainio_call(app.handle, 0, args, 4, &one), -EINVAL);
    EXPECT_STREQ(chainio_error(app.handle), "argument 'start' of chain 'first': the value does not fit u40");
    EXPECT_EQ(chainio_call(app.handle, 9, args, 4, &one), -ENOENT);
    args[2].value = 0;
    args[0].kind = 7;
    EXPECT_EQ(chainio_call(app.handle, 0, args, 4, &one), -EINVAL);
    args[0].kind = CHAINIO_FILE;
    EXPECT_EQ(chainio_call(app.handle, 0, args, 4, &one), 0);
    EXPECT_EQ(one.outcome, static_cast<std::uint32_t>(CHAINIO_OK));
}

// A wrong pointer or number of the caller ends in a refusal with its own text: neither in a signal, nor in another
// file, nor in what an earlier call said.
TEST(Api, RefusesWhatItCannotFollow) {
    const TempFile file(data_file());
    const Handle app(2);
    std::uint64_t a = 0, b = 0;
    ASSERT_EQ(chainio_file_open(app.handle, "plain", file.path().c_str(), 0, &a), 0);
    ASSERT_EQ(chainio_file_open(app.handle, "kept", file.path().c_str(), 0, &b), 0);
    chainio_arg args[4] = {{CHAINIO_FILE, 0, a, nullptr},
                           {CHAINIO_FILE, 0, b, nullptr},
                           {CHAINIO_SCALAR, 0, 0, nullptr},
                           {CHAINIO_BYTES, 3, 0, nullptr}};
    EXPECT_EQ(chainio_submit(app.handle, 0, args, 4, 1), -EINVAL);
    EXPECT_STREQ(chainio_error(app.handle),
                 "argument 'name' of chain 'first': it has a length, but its bytes are NULL");
    args[3].length = 0;
    args[1].value = b ^ std::uint64_t{1} << 16;
    EXPECT_EQ(chainio_submit(app.handle, 0, args, 4, 1), -EINVAL);
    EXPECT_TRUE(std::string_view(chainio_error(app.handle)).ends_with(": an open file is wanted"));
    args[1].value = b ^ std::uint64_t{1} << 63;
    EXPECT_EQ(chainio_submit(app.handle, 0, args, 4, 1), -EINVAL);
    EXPECT_STREQ(chainio_error(app.handle),
                 "argument 'b' of chain 'first': it is none of the files that were opened with this handle");
    EXPECT_EQ(chainio_file_close(app.handle, b ^ std::uint64_t{1} << 40), -EBADF);
    EXPECT_STREQ(chainio_error(app.handle), "no such file is open");

    constexpr const char* kUnsized = "the size of the struct to fill must be set to its sizeof";
    const auto refused = [&](int result, const char* text) {
        EXPECT_LT(result, 0);
        EXPECT_STREQ(chainio_error(app.handle), text);
        EXPECT_EQ(chainio_find_chain(app.handle, nullptr), -EINVAL);  // another text
    };
    chainio_chain_info chain{};
    chainio_param_info param{};
    chainio_counters counters{};
    chainio_fallback fallback{};
    refused(chainio_get_chain(app.handle, 0, &chain), kUnsized);
    refused(chainio_get_chain(app.handle, 0, nullptr), "the struct to fill must not be NULL");
    refused(chainio_get_param(app.handle, 0, 0, &param), kUnsized);
    refused(chainio_get_counters(app.handle, &counters), kUnsized);
    fallback.size = sizeof fallback;
    std::uint32_t count = 0;
    while (chainio_get_fallback(app.handle, count, &fallback) == 0) count++;
    const std::string number = std::to_string(count);
    refused(chainio_get_fallback(app.handle, count, &fallback),
            ("there is no fallback " + number + "; there are " + number).c_str());
}

// Two handles of a program, each with a file: neither takes the other's for its own, nor closes its own for it.
TEST(Api, TakesNoFileOfAnotherHandle) {
    const TempFile file(data_file()), other(data_file(1));
    const Handle app, second;
    const auto files = both_files(app.handle, file.path()), others = both_files(second.handle, other.path());
    EXPECT_EQ(submit_and_reap(app.handle, others), -EINVAL);
    EXPECT_TRUE(std::string_view(chainio_error(app.handle))
                    .ends_with(": it is none of the files that were opened with this handle"));
    EXPECT_EQ(chainio_file_close(app.handle, others[0]), -EBADF);
    EXPECT_EQ(submit_and_reap(app.handle, files), 2);
    EXPECT_EQ(submit_and_reap(second.handle, others), 2);
}

TEST(Api, TellsTheVersionThatWasBuilt) { EXPECT_STREQ(chainio_version(), CHAINIO_VERSION); }

TEST(Api, NamesWhatWentAnotherWay) {
    chainio_fallback fallback{};
    fallback.size = sizeof fallback;
    const Handle asked(8, CHAINIO_NO_RING);
    EXPECT_EQ(chainio_get_fallback(asked.handle, 0, &fallback), -ENOENT) << fallback.name;

    std::unique_ptr<Handle> without_ring;
    std::thread([&] {
        chainio::tests::refuse_call(SYS_io_uring_setup, EPERM);  // as where io_uring is switched off
        without_ring = std::make_unique<Handle>();
    }).join();
    chainio_handle* handle = without_ring->handle;
    ASSERT_EQ(chainio_get_fallback(handle, 0, &fallback), 0);
    EXPECT_STREQ(fallback.name, "no-ring");
    EXPECT_TRUE(std::string_view(fallback.reason).ends_with("; blocks are read by pread, one at a time"))
        << fallback.reason;
    EXPECT_EQ(fallback.count, 1u);
    EXPECT_EQ(fallback.size, sizeof fallback);
    EXPECT_EQ(chainio_get_fallback(handle, 1, &fallback), -ENOENT);

    EXPECT_EQ(chainio_get_fallback(handle, 0, nullptr), -EINVAL);
    chainio_fallback older{offsetof(chainio_fallback, count), nullptr, nullptr, 77};
    ASSERT_EQ(chainio_get_fallback(handle, 0, &older), 0);
    EXPECT_STREQ(older.name, "no-ring");
    EXPECT_EQ(older.count, 77u);
}

}  // namespace
