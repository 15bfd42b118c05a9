// Chains that ask too late, since the server did not get the processor in time: programs had by then read what was
// asked for, and had waited for it.
#include "runtime/shadow/overtaken.h"
#include "tests/unit/shadow/asking.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr std::uint32_t kNamed = 40;  // by the first page: each second one

std::string pointers() {
    std::string bytes((2 * kNamed + 2) * std::size_t{kPage}, 'x');
    const auto put = [&](std::size_t at, std::uint32_t value) {
        for (unsigned i = 0; i < 4; i++) bytes[at + i] = static_cast<char>(value >> 8 * i);
    };
    put(0, kNamed);
    for (std::uint32_t i = 1; i <= kNamed; i++) put(4 * std::size_t{i}, 2 * i);
    return bytes;
}

// What stands in the ring when the server gets the processor: the page that names all others, and reads of these. All
// are in memory.
void run_behind(std::uint32_t took_ns, const std::function<void(Running&)>& look) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", pointers());
    const InMemory kept(path, 0, 2 * kNamed + 2);
    auto server = server_of(kPointers);
    const tests::MappedRegion region(server->region_path());
    Poster poster(*region.get(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    for (std::uint32_t i = 1; i <= kNamed; i++) ASSERT_TRUE(poster.read(0, path, 2 * i * kPage, kPage, took_ns));
    Running running(std::move(server));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    look(running);
}

TEST(Overtaken, AChainIsNotSwitchedOffForWhatTheProgramHasWaitedForMeanwhile) {
    run_behind(100'000, [](Running& running) {
        EXPECT_TRUE(happens([&] { return running.chain().cached == kNamed; })) << running.chain().cached;
        running.stop();
        EXPECT_EQ(running.chain().gate_changes, 0u);
    });
}

TEST(Overtaken, AChainIsSwitchedOffForWhatTheProgramHasReadFromMemory) {
    run_behind(500, [](Running& running) {
        EXPECT_TRUE(happens([&] { return running.chain().gate_changes > 0; }));
        running.stop();
        EXPECT_EQ(running.chain().cached, kNamed);
        const auto notes = running.server().report().notes;
        EXPECT_EQ(std::ranges::count(notes,
                                     "chain 'follow' was switched off once, because what it asked for was in "
                                     "memory already"),
                  1);
    });
}

TEST_F(Asking, WhatTheProgramHasWaitedForSinceCameTooLate) {
    begin(16, true);
    ShadowFile& f = file("a.ptr", 128);
    const InMemory kept(f.path, 0, 128);
    // So many must have been in memory until the chain goes off.
    constexpr std::uint64_t kLeast = 16;
    const auto goes_off = [&] { return score_->would_be_of_no_use(now_ns()); };
    ahead_->program_waited(f.key, 2 * kPage, kPage);
    for (std::uint64_t i = 1; i < kLeast + 2; i++) ask(f, 2 * i);
    ahead_->program_waited(f.key, 10 * kPage + 100, 1);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().cached, kLeast + 1);
    EXPECT_TRUE(goes_off()) << "it has waited for page 2 before that was asked for, and for page 10 since";
    ahead_->program_waited(f.key + 1, 0, 128 * kPage);
    EXPECT_TRUE(goes_off()) << "which is another file";
    ahead_->program_waited(f.key, 12 * kPage, kPage);
    EXPECT_FALSE(goes_off()) << "which is heard of behind the look";
    ask(f, 100);
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(goes_off());
    ahead_->program_waited(f.key, 12 * kPage, kPage);
    EXPECT_TRUE(goes_off()) << "each counts once";
    EXPECT_EQ(stats().cached, kLeast + 2);
}

// Of a walk the last block counts, to which it was done.
TEST_F(Asking, AWalkToWhatTheProgramHasWaitedForSinceCameTooLate) {
    begin(16, true);
    ShadowFile& f = file("a.ptr", 128);
    const InMemory kept(f.path, 0, 128);
    constexpr std::uint64_t kLeast = 16;
    const auto goes_off = [&] { return score_->would_be_of_no_use(now_ns()); };
    ahead_->program_waited(f.key, 2 * kPage, kPage);
    for (std::uint64_t i = 1; i < kLeast + 2; i++) ahead_->ask_walk(walk(f, 2 * i));
    ahead_->program_waited(f.key, 10 * kPage + 100, 1);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().cached, kLeast + 1);
    EXPECT_TRUE(goes_off()) << "it has waited for page 2 before that was asked for, and for page 10 since";
    ahead_->program_waited(f.key + 1, 0, 128 * kPage);
    EXPECT_TRUE(goes_off()) << "which is another file";
    ahead_->program_waited(f.key, 12 * kPage, kPage);
    EXPECT_FALSE(goes_off()) << "which is heard of behind the walk";
    EXPECT_EQ(stats().cached, kLeast + 1);
}

TEST(Overtaken, RemembersTheLatest) {
    Overtaken overtaken;
    unsigned told = 0;
    const auto tell = [&](std::uint32_t chain) { told += chain == 7; };
    for (std::uint64_t i = 0; i <= Overtaken::kLatest; i++) EXPECT_FALSE(overtaken.found(7, 1, i * kPage, kPage, 0));
    overtaken.waited(1, 0, kPage, tell);
    EXPECT_EQ(told, 0u);
    overtaken.waited(1, kPage, kPage, tell);
    EXPECT_EQ(told, 1u);
    for (std::uint64_t i = 0; i < Overtaken::kLatest - 1; i++) overtaken.waited(2, i * kPage, kPage, tell);
    EXPECT_TRUE(overtaken.found(7, 1, kPage, kPage, 0));
    EXPECT_FALSE(overtaken.found(7, 1, kPage, kPage, 2));
    overtaken.waited(3, 0, kPage, tell);
    EXPECT_FALSE(overtaken.found(7, 1, kPage, kPage, 0)) << "so many have waited since";
}

}  // namespace
}  // namespace chainio::shadow::test
