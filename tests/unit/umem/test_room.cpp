#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/umem/room.h"

namespace {

using chainio::umem::Room;
using chainio::umem::room_for_process;
namespace fs = std::filesystem;

// A machine of 512 MiB free whose /proc and cgroups are files of the test's.
class RoomForProcess : public testing::Test {
  protected:
    void SetUp() override {
        root_ = testing::TempDir() + "room" + std::to_string(getpid());
        put("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 393216 kB\nSwapFree: 131072 kB\n");
    }
    void TearDown() override { fs::remove_all(root_); }

    void put(const std::string& path, const std::string& text) {
        fs::create_directories(fs::path(root_ + path).parent_path());
        std::ofstream(root_ + path) << text;
    }
    // A group's limit and use, in the words of Linux's second version.
    void group(const std::string& path, const std::string& limit, const std::string& usage, const std::string& stat) {
        put("/sys/fs/cgroup" + path + "/memory.max", limit + "\n");
        put("/sys/fs/cgroup" + path + "/memory.current", usage + "\n");
        put("/sys/fs/cgroup" + path + "/memory.stat", stat);
    }
    void in_unified(const std::string& path, const std::string& begin = "/") {
        put("/proc/self/cgroup", "1:name=systemd:/elsewhere\n0::" + path + "\n");
        put("/proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n30 23 0:26 " + begin +
                                        " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    }
    std::string of(const std::string& mib, const std::string& path) const {
        return "the " + mib + " MiB of '" + root_ + "/sys/fs/cgroup" + path +
               "' (a container's limit, or MemoryMax= of a systemd unit)";
    }
    static std::string mib(std::size_t count) { return std::to_string(count << 20); }

    std::string root_;
};

TEST_F(RoomForProcess, IsTheMachinesWithoutCgroups) {
    const Room room = room_for_process(root_);
    const auto all =
        static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    EXPECT_EQ(room.machine.bytes, all);
    EXPECT_EQ(room.all.bytes, all);
    EXPECT_EQ(room.all.of, "this machine's " + std::to_string(all >> 20) + " MiB");
    EXPECT_EQ(room.left.bytes, std::size_t{512} << 20) << "others' memory may go to where there is swap";
    EXPECT_EQ(room.left.of, room.all.of);
    EXPECT_EQ(room.unread, "");
}

// As where /proc shows processes alone.
TEST_F(RoomForProcess, SaysThatTheMachinesRestIsNotKnown) {
    fs::remove(root_ + "/proc/meminfo");
    const std::string unread = "'" + root_ +
                               "/proc/meminfo' does not say what is left of this machine's memory (ProcSubset=pid of a "
                               "systemd unit hides it), so that more than that is not refused";
    EXPECT_EQ(room_for_process(root_).left.bytes, SIZE_MAX);
    EXPECT_EQ(room_for_process(root_).unread, unread);
    in_unified("/kv");
    group("/kv", mib(60), mib(50), "");
    EXPECT_EQ(room_for_process(root_).left.bytes, std::size_t{10} << 20);
    EXPECT_EQ(room_for_process(root_).unread, unread) << "a group above may have more left than the machine";
}

TEST_F(RoomForProcess, KnowsThatNothingIsLeft) {
    put("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 0 kB\n");
    EXPECT_EQ(room_for_process(root_).left.bytes, 0u);
    EXPECT_EQ(room_for_process(root_).unread, "");
}

TEST_F(RoomForProcess, IsTheLeastOfAllGroupsAbove) {
    in_unified("/system.slice/kv.service");
    group("/system.slice", mib(60), mib(50), "anon 1\ninactive_file 1048576\nactive_file 2097152\nshmem 9\n");
    group("/system.slice/kv.service", mib(40), mib(10), "");
    const Room room = room_for_process(root_);
    EXPECT_EQ(room.all.bytes, std::size_t{40} << 20);
    EXPECT_EQ(room.all.of, of("40", "/system.slice/kv.service/memory.max"));
    EXPECT_EQ(room.left.bytes, std::size_t{13} << 20) << "what is kept of files is let go of";
    EXPECT_EQ(room.left.of, of("60", "/system.slice/memory.max"));
    EXPECT_GT(room.machine.bytes, room.all.bytes);
}

TEST_F(RoomForProcess, HasNothingLeftOfAGroupThatIsAboveItsLimit) {
    in_unified("/kv");
    group("/kv", mib(40), mib(50), "");
    EXPECT_EQ(room_for_process(root_).left.bytes, 0u);
}

TEST_F(RoomForProcess, IsTheMachinesInGroupsWithoutALimit) {
    in_unified("/kv");
    group("/kv", "max", mib(50), "");
    EXPECT_EQ(room_for_process(root_).all.bytes, room_for_process(root_).machine.bytes);
    EXPECT_EQ(room_for_process(root_).left.bytes, std::size_t{512} << 20);
}

// A container that sees only its own part of the tree, under the names of the whole one.
TEST_F(RoomForProcess, IsThatOfAContainer) {
    in_unified("/docker/7f/kv", "/docker/7f");
    group("", mib(60), mib(10), "");
    group("/kv", mib(40), mib(10), "");
    EXPECT_EQ(room_for_process(root_).all.of, of("40", "/kv/memory.max"));
    fs::remove(root_ + "/sys/fs/cgroup/kv/memory.max");
    EXPECT_EQ(room_for_process(root_).all.of, of("60", "/memory.max"));
    in_unified("/elsewhere", "/docker/7f");
    EXPECT_EQ(room_for_process(root_).all.of, of("60", "/memory.max"));
}

TEST_F(RoomForProcess, IsThatOfTheFirstVersionToo) {
    put("/proc/self/cgroup", "5:cpu,cpuacct:/other\n4:hugetlb,memory:/kv\n0::/other\n");
    put("/proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,hugetlb,memory\n");
    const std::string group = "/sys/fs/cgroup/memory/kv/memory";
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", mib(100) + "\n");
    put(group + ".limit_in_bytes", mib(40) + "\n");
    put(group + ".usage_in_bytes", mib(30) + "\n");
    put(group + ".stat", "inactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 2097152\n");
    const Room room = room_for_process(root_);
    EXPECT_EQ(room.all.bytes, std::size_t{40} << 20);
    EXPECT_EQ(room.all.of, of("40", "/memory/kv/memory.limit_in_bytes"));
    EXPECT_EQ(room.left.bytes, std::size_t{13} << 20);
}

}  // namespace
