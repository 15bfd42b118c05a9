// Events of probes: what a program is about to do leads to what it will read.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <mutex>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

// Probes of nobody: events come from the test.
class FakeProbes final : public probe::Poller {
  public:
    ~FakeProbes() override { close(fd_); }
    unsigned poll(unsigned most, const std::function<void(const probe::Event&)>& take) override {
        unsigned count = 0;
        for (; count < most; count++) {
            std::vector<std::uint8_t> arguments;
            {
                const std::lock_guard lock(mutex_);
                if (events_.empty()) break;
                arguments = std::move(events_.front());
                events_.pop_front();
            }
            take({0, 1, arguments});
        }
        return count;
    }
    bool sleep() override {
        const std::lock_guard lock(mutex_);
        asleep_ = events_.empty();
        sleeps_ += asleep_;
        return asleep_;
    }
    int fd() const override { return fd_; }
    void want(std::uint16_t probe, bool wanted) override {
        const std::lock_guard lock(mutex_);
        EXPECT_EQ(probe, 0u);
        switched_off_ = switched_off_ || (wanted_ && !wanted);
        wanted_ = wanted;
    }
    bool switched_off() {
        const std::lock_guard lock(mutex_);
        return switched_off_;
    }
    bool wanted() {
        const std::lock_guard lock(mutex_);
        return wanted_;
    }
    // Of `probe hint = … (page: u64, name: cstr(max 40))`.
    void reached(std::uint64_t page, const std::string& name) {
        std::vector<std::uint8_t> arguments(16 + (name.size() + 7) / 8 * 8);
        const std::uint64_t length = name.size();
        std::memcpy(arguments.data(), &page, 8);
        std::memcpy(arguments.data() + 8, &length, 8);
        std::memcpy(arguments.data() + 16, name.data(), name.size());
        post(std::move(arguments));
    }
    void post(std::vector<std::uint8_t> arguments) {
        const std::lock_guard lock(mutex_);
        events_.push_back(std::move(arguments));
        const std::uint64_t one = 1;
        if (asleep_) EXPECT_EQ(write(fd_, &one, sizeof one), 8);
        asleep_ = false;
    }
    unsigned sleeps() {
        const std::lock_guard lock(mutex_);
        return sleeps_;
    }

  private:
    std::mutex mutex_;
    std::deque<std::vector<std::uint8_t>> events_;
    int fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool asleep_ = false, wanted_ = false, switched_off_ = false;
    unsigned sleeps_ = 0;
};

std::string spec_for(const Folder& folder) {
    return "app hinted { files data = \"*.dat\" { root \"" + folder.path() + "\" } }\n" +
           "probe hint = uprobe \"program:hint\" (page: u64, name: cstr(max 40))\n"
           "chain ahead on probe(hint) as p { when p.page < 1000 { prefetch data[p.name] at p.page * 4096 for 8192 } "
           "}\n";
}

TEST(Probes, LeadToWhatTheirArgumentsName) {
    const Folder folder;
    FakeProbes probes;
    const std::string one = folder.write("one.dat", std::string(64 * kPage, 'a'));
    const std::string two = folder.write("two.dat", std::string(64 * kPage, 'b'));
    auto server = server_of(spec_for(folder));
    server->listen_to(probes);
    Running running(std::move(server));
    drop_pages(one);
    drop_pages(two);
    ASSERT_TRUE(happens([&] { return probes.sleeps() > 0; }));
    probes.reached(30, "two.dat");
    ASSERT_TRUE(come(two, {{30, 2}}));
    EXPECT_EQ(in_memory_besides(two, 64, {{30, 2}}), 0u);
    EXPECT_EQ(pages_in_memory(one, 0, 64), 0u);
    probes.reached(5, "one.dat");
    probes.reached(1000, "one.dat");
    ASSERT_TRUE(happens([&] { return running.chain().events == 3; }));
    ASSERT_TRUE(come(one, {{5, 2}}));
    running.stop();
    EXPECT_EQ(in_memory_besides(one, 64, {{5, 2}}), 0u);
    EXPECT_EQ(running.chain().fetches, 2u);
    EXPECT_EQ(running.chain().failed, 0u);
}

TEST(Probes, ArgumentsThatAreNoneFailAndFetchNothing) {
    const Folder folder;
    FakeProbes probes;
    auto server = server_of(spec_for(folder));
    server->listen_to(probes);
    Running running(std::move(server));
    probes.post({1, 2, 3});
    std::vector<std::uint8_t> endless(16);
    std::memset(endless.data() + 8, 0xff, 8);
    probes.post(endless);
    probes.reached(0, std::string(41, 'x'));
    ASSERT_TRUE(happens([&] { return running.chain().events == 3; }));
    running.stop();
    EXPECT_EQ(running.chain().failed, 3u) << "the last is longer than the spec has it";
    EXPECT_EQ(running.chain().fetches, 0u);
}

// The program then pays for the trap alone.
TEST(Probes, OfAChainThatIsOffAreSwitchedOff) {
    const Folder folder;
    FakeProbes probes;
    folder.write("one.dat", std::string(64 * kPage, 'a'));  // in memory
    auto server = server_of(spec_for(folder));
    server->listen_to(probes);
    Running running(std::move(server));
    ASSERT_TRUE(happens([&] { return probes.wanted(); }));
    EXPECT_TRUE(happens([&] {
        probes.reached(0, "one.dat");
        return probes.switched_off();
    }));
    EXPECT_TRUE(happens([&] { return probes.wanted(); })) << "it is probed again";
}

// Where it cannot be attached, or nowhere any more.
TEST(Probes, ThatCannotBeReachedHaveTheirChainsOff) {
    const Folder folder;
    const auto server = server_of(spec_for(folder) +
                                  "probe other = uprobe \"program:other\" (page: u64, name: cstr(max 40))\n"
                                  "chain behind on probe(other) as p { prefetch data[p.name] at 0 for 4096 }\n");
    server->lacks(1);
    EXPECT_EQ(server->region().stats.chains[0].gate, shim::GateState::on);
    EXPECT_EQ(server->region().stats.chains[1].gate, shim::GateState::off);
}

// What comes between the last look and the end is not lost.
TEST(Probes, AreDrainedAtTheEnd) {
    const Folder folder;
    FakeProbes probes;
    auto server = server_of(spec_for(folder));
    server->listen_to(probes);
    for (int i = 0; i < 1000; i++) probes.reached(2000, "no.dat");
    ASSERT_TRUE(server->run([] { return true; }));
    EXPECT_EQ(server->region().stats.chains[0].events, 1000u);
}

}  // namespace
}  // namespace chainio::shadow::test
