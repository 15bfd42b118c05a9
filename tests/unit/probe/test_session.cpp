// Attaching to a real program: the exact arguments arrive, of the run's processes only, and nothing stays.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "compiler/backends/backends.h"
#include "runtime/probe/privileges.h"
#include "runtime/probe/session.h"
#include "tests/support/in_child.h"
#include "tests/unit/passes/spec.h"

namespace chainio::probe {
namespace {

struct Built {
    ir::Artifact artifact;
    std::vector<std::uint8_t> bytes;
};

Built build(const std::string& declarations, const std::string& probe_names) {
    std::string text = "files data = \"*.dat\" { root \"/srv\" }\n" + declarations;
    std::string_view rest = probe_names;
    for (int i = 0; !rest.empty(); i++) {
        const auto end = std::min(rest.find(' '), rest.size());
        text += fmt::format("chain c{} on probe({}) as p {{ prefetch data[\"x.dat\"] }}\n", i, rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    Built out;
    out.artifact.module = passes::test::lowered(text);
    out.artifact.layout = ir::layout_of(out.artifact.module);
    auto built = backends::build_artifact(out.artifact, {});
    EXPECT_TRUE(built) << built.error();
    if (built) out.bytes = std::move(*built);
    return out;
}

// The probed program; each line that it gets is answered with "done".
class Program {
  public:
    Program() {
        int in[2], out[2];
        if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) std::abort();
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        char name[] = CHAINIO_PROBED;
        char* arguments[] = {name, nullptr};
        EXPECT_EQ(posix_spawn(&pid_, name, &actions, nullptr, arguments, environ), 0);
        posix_spawn_file_actions_destroy(&actions);
        close(in[0]);
        close(out[1]);
        to_ = in[1];
        from_ = fdopen(out[0], "r");
        answer();
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program() {
        close(to_);
        fclose(from_);
        waitpid(pid_, nullptr, 0);
    }
    // What it printed before it was done.
    std::string say(const std::string& line) {
        const std::string text = line + "\n";
        EXPECT_EQ(write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
        return answer();
    }
    pid_t pid() const { return pid_; }

  private:
    std::string answer() {
        std::string all;
        char line[256];
        while (fgets(line, sizeof line, from_) != nullptr && std::strcmp(line, "done\n") != 0) all += line;
        return all;
    }
    pid_t pid_ = -1;
    int to_ = -1;
    FILE* from_ = nullptr;
};

struct Got {
    unsigned probe;
    std::uint32_t process;
    std::vector<std::uint8_t> arguments;
    std::uint64_t word(std::size_t at) const {
        std::uint64_t out = 0;
        EXPECT_LE(at + 8, arguments.size());
        if (at + 8 <= arguments.size()) std::memcpy(&out, arguments.data() + at, 8);
        return out;
    }
    std::int64_t integer(std::size_t at) const { return static_cast<std::int64_t>(word(at)); }
    // The string whose length is at `at`.
    std::string text(std::size_t at) const {
        const std::size_t length = word(at);
        EXPECT_LE(at + 8 + length, arguments.size());
        if (at + 8 + length > arguments.size()) return "";
        return {reinterpret_cast<const char*>(arguments.data()) + at + 8, length};
    }
};

std::vector<Got> drain(Session& session, unsigned most = 1000) {
    std::vector<Got> out;
    session.poll(most, [&](const Event& event) {
        out.push_back({event.probe, event.process, {event.arguments.begin(), event.arguments.end()}});
    });
    return out;
}

#define ATTACH_OR_SKIP(session, built)                                                               \
    if (const std::string missing = missing_privileges(); !missing.empty()) GTEST_SKIP() << missing; \
    auto session = Session::attach((built).bytes, (built).artifact.module, CHAINIO_PROBED);          \
    for (const auto& refused : session->refused()) ADD_FAILURE() << refused.probe << ": " << refused.why

TEST(Session, ExactArgumentsOfAUsdt) {
    const Built built = build(
        "probe fire = usdt \"probed:fire\" (a: i32, b: u64, c: i32, d: u8, e: cstr(max 9), f: i64, g: i64, h: u16)\n",
        "fire");
    ATTACH_OR_SKIP(session, built);
    Program program;
    EXPECT_EQ(program.say("semaphore"), "1\n");  // the program sees that somebody listens
    EXPECT_TRUE(drain(*session).empty());
    for (const std::string& text :
         {std::string("hello"), std::string(""), std::string("exactly 9"), std::string("longer than that")}) {
        program.say("fire " + text);
        const auto got = drain(*session);
        ASSERT_EQ(got.size(), 1u) << text;
        EXPECT_EQ(got[0].probe, 0u);
        EXPECT_EQ(got[0].process, static_cast<std::uint32_t>(program.pid()));
        EXPECT_EQ(got[0].integer(0), -5);
        EXPECT_EQ(got[0].integer(8), -2);
        EXPECT_EQ(got[0].integer(16), -2);
        EXPECT_EQ(got[0].integer(24), 0xfe);
        const std::string expected = text.substr(0, 9);
        EXPECT_EQ(got[0].text(32), expected);
        const std::size_t behind = 40 + (expected.size() + 7) / 8 * 8;
        EXPECT_EQ(got[0].integer(behind), -22);                                   // table[1]
        EXPECT_EQ(got[0].integer(behind + 8), -22);                               // table[2 - 1]
        EXPECT_EQ(got[0].integer(behind + 16), static_cast<std::uint16_t>(-22));  // two bytes of table[1]
        EXPECT_EQ(got[0].arguments.size(), behind + 24);
    }
}

TEST(Session, EveryPlaceOfAUsdtAndTheArgumentsOfACall) {
    const Built built = build(
        "probe twice = usdt \"probed:twice\" (v: u64)\n"
        "probe eight = uprobe \"probed:eight\" (a: u64, b: i64, c: i8, d: u64, e: u64, f: u64, g: u64, h: cstr(max "
        "100))\n",
        "twice eight");
    ATTACH_OR_SKIP(session, built);
    EXPECT_EQ(session->attached().size(), 3u);
    EXPECT_FALSE(session->attached()[0].slow);
    EXPECT_TRUE(session->attached()[1].slow);
    EXPECT_TRUE(session->attached()[1].cost.contains("9 to 16 us"));
    Program program;
    program.say("twice");
    program.say("eight on the stack");
    const auto got = drain(*session);
    ASSERT_EQ(got.size(), 3u);
    EXPECT_EQ(got[0].integer(0), 7);
    EXPECT_EQ(got[1].integer(0), 8);
    EXPECT_EQ(got[2].probe, 1u);
    for (std::size_t k = 0; k < 7; k++)
        EXPECT_EQ(got[2].integer(8 * k), k == 1 ? -2 : static_cast<std::int64_t>(k + 1));
    EXPECT_EQ(got[2].text(56), "on the stack");
}

TEST(Session, ALibraryAndASystemCall) {
    const Built built = build(
        "probe write = uprobe \"libc.so.6:puts\" (text: cstr(max 20))\n"
        "probe opened = syscall \"openat\" (dir: i32, path: cstr(max 60), flags: u32)\n",
        "write opened");
    ATTACH_OR_SKIP(session, built);
    Program program;
    drain(*session);
    program.say("open /no/such/file");
    bool opened = false;
    int puts = 0;
    for (const Got& got : drain(*session)) {
        EXPECT_EQ(got.process, static_cast<std::uint32_t>(program.pid()));
        if (got.probe == 0) puts += got.text(0) == "done";
        if (got.probe == 1)
            opened |= got.integer(0) == AT_FDCWD && got.text(8) == "/no/such/file" && got.word(32) == O_CLOEXEC;
    }
    EXPECT_TRUE(opened);
    EXPECT_EQ(puts, 1);
}

// The number of a 32-bit system call means another one: 257 is openat, and remap_file_pages there.
TEST(Session, A32BitSystemCallIsNotTheOneOfItsNumber) {
    const Built built = build("probe opened = syscall \"openat\" (dir: i32)\n", "opened");
    ATTACH_OR_SKIP(session, built);
    constexpr int kNarrow = -4711, kWide = -4712;
    const pid_t child = fork();
    if (child == 0) {
        long done = SYS_openat;
        asm volatile("int $0x80" : "+a"(done) : "b"(0), "c"(0), "d"(0), "S"(0), "D"(kNarrow) : "memory");
        syscall(SYS_openat, kWide, "relative", O_RDONLY);
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) GTEST_SKIP() << "the kernel has no 32-bit system calls";
    std::vector<std::int64_t> folders;
    for (const Got& got : drain(*session)) folders.push_back(got.integer(0));
    EXPECT_TRUE(std::ranges::count(folders, kWide) != 0);
    EXPECT_FALSE(std::ranges::count(folders, kNarrow) != 0);
}

TEST(Session, FollowsDaemonsAndNobodyElse) {
    const Built built = build("probe fire = usdt \"probed:fire\" (a: i32, b: u64)\n", "fire");
    // A process that is not of the run: started before there was one, by this one.
    Program stranger;
    ATTACH_OR_SKIP(session, built);
    stranger.say("fire x");
    EXPECT_TRUE(drain(*session).empty());
    Program program;
    program.say("fork x");
    const auto got = drain(*session);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_NE(got[0].process, static_cast<std::uint32_t>(program.pid()));
    EXPECT_EQ(got[0].word(8), got[0].process);  // it said who it is
}

TEST(Session, WhoDoesNotCountIsNotHeardAndNeitherIsWhatItStartsThen) {
    const Built built = build(
        "probe fire = usdt \"probed:fire\" (a: i32, b: u64)\nprobe opened = syscall \"openat\" (dir: i32, path: "
        "cstr(max "
        "60))\n",
        "fire opened");
    ATTACH_OR_SKIP(session, built);
    const auto looked_for = [&](std::string_view path) {
        (void)::open(std::string(path).c_str(), O_RDONLY);
        return std::ranges::any_of(drain(*session),
                                   [&](const Got& got) { return got.probe == 1 && got.text(8) == path; });
    };
    EXPECT_TRUE(looked_for("/no/such/before"));
    session->count_this_process(false);
    EXPECT_FALSE(looked_for("/no/such/file"));
    Program server;
    session->count_this_process(true);
    Program program;
    session->count_this_process(false);
    EXPECT_FALSE(looked_for("/no/such/behind"));
    server.say("fire x");
    EXPECT_TRUE(drain(*session).empty());
    program.say("fire x");
    EXPECT_EQ(drain(*session).size(), 1u);
}

TEST(Session, MemoryThatIsNotThereIsCountedAndNotMadeUp) {
    const Built built = build(
        "probe eight = uprobe \"probed:eight\" (a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: cstr(max "
        "8))\n",
        "eight");
    ATTACH_OR_SKIP(session, built);
    Program program;
    program.say("absent");
    program.say("eight here");
    const auto got = drain(*session);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].text(56), "here");
    EXPECT_EQ(session->counts(0).unreadable, 1u);
    EXPECT_EQ(session->counts(0).taken, 1u);
}

TEST(Session, SwitchedOffAtItsSource) {
    const Built built = build("probe fast = uprobe \"probed:fast\" ()\n", "fast");
    ATTACH_OR_SKIP(session, built);
    Program program;
    session->want(0, false);
    program.say("many 5");
    EXPECT_TRUE(drain(*session).empty());
    session->want(0, true);
    program.say("many 5");
    EXPECT_EQ(drain(*session, 3).size(), 3u);
    EXPECT_EQ(drain(*session, 3).size(), 2u);
}

TEST(Session, WakesASleepingReaderOnce) {
    const Built built = build("probe fast = uprobe \"probed:fast\" ()\n", "fast");
    ATTACH_OR_SKIP(session, built);
    Program program;
    pollfd ready{session->fd(), POLLIN, 0};
    program.say("many 1");
    EXPECT_FALSE(session->sleep());  // there is one already
    EXPECT_EQ(drain(*session).size(), 1u);
    EXPECT_TRUE(session->sleep());
    EXPECT_EQ(poll(&ready, 1, 0), 0);
    program.say("many 1");
    EXPECT_EQ(poll(&ready, 1, -1), 1);
    EXPECT_EQ(drain(*session).size(), 1u);
}

TEST(Session, AFullRingLosesEventsAndSaysSo) {
    const Built built = build(
        "probe eight = uprobe \"probed:eight\" (a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: cstr(max "
        "4000))\nprobe fast = uprobe \"probed:fast\" ()\n",
        "eight fast");
    ATTACH_OR_SKIP(session, built);
    Program program;
    program.say("many 100000");
    const Counts counts = session->counts(1);
    EXPECT_EQ(counts.taken + counts.lost, 100000u);
    EXPECT_GT(counts.lost, 0u);
    EXPECT_EQ(drain(*session, 1000000).size(), counts.taken);
    program.say("eight again");
    EXPECT_EQ(drain(*session).size(), 1u);
}

TEST(Session, ChainsWhoseProbesCannotBeAreNamedAndTheRestGoesOn) {
    const Built built = build(
        "probe fast = uprobe \"probed:fast\" ()\nprobe none = uprobe \"probed:fats\" ()\nprobe unused = uprobe "
        "\"nowhere:x\" ()\n",
        "fast none");
    if (const std::string missing = missing_privileges(); !missing.empty()) GTEST_SKIP() << missing;
    auto session = Session::attach(built.bytes, built.artifact.module, CHAINIO_PROBED);
    ASSERT_EQ(session->refused().size(), 1u);
    EXPECT_EQ(session->refused()[0].probe, 1u);
    EXPECT_TRUE(session->refused()[0].why.contains("did you mean `fast`?"));
    Program program;
    program.say("many 2");
    EXPECT_EQ(drain(*session).size(), 2u);
}

// The second reads the instruction where the first has put its breakpoint.
TEST(Session, TwoRunsProbeTheSamePlace) {
    const Built built = build("probe stepped = uprobe \"probed:stepped\" ()\n", "stepped");
    ATTACH_OR_SKIP(first, built);
    ATTACH_OR_SKIP(second, built);
    EXPECT_EQ(second->attached()[0].cost, first->attached()[0].cost);
    Program program;
    program.say("many 2");
    EXPECT_EQ(drain(*first).size(), 2u);
    EXPECT_EQ(drain(*second).size(), 2u);
}

std::size_t open_files() {
    std::size_t count = 0;
    DIR* folder = opendir("/proc/self/fd");
    while (readdir(folder) != nullptr) count++;
    closedir(folder);
    return count;
}

TEST(Session, NothingIsLeftOpen) {
    const Built built =
        build("probe fast = uprobe \"probed:fast\" ()\nprobe opened = syscall \"openat\" (dir: i32)\n", "fast opened");
    if (const std::string missing = missing_privileges(); !missing.empty()) GTEST_SKIP() << missing;
    const std::size_t before = open_files();
    {
        auto session = Session::attach(built.bytes, built.artifact.module, CHAINIO_PROBED);
        EXPECT_GT(open_files(), before);
    }
    EXPECT_EQ(open_files(), before);
}

// The kernel has no descriptor left for just that: one more is allowed each time, and it is done last.
TEST(Session, ASystemCallThatItCannotBeAttachedToIsNamed) {
    const Built built = build("probe opened = syscall \"openat\" (dir: i32)\n", "opened");
    ATTACH_OR_SKIP(session, built);  // and finds out what the kernel knows, for which it takes descriptors too
    EXPECT_EQ(tests::in_child([&] {
                  rlimit limit{};
                  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
                  for (limit.rlim_cur = 3; limit.rlim_cur < 1000; limit.rlim_cur++) {
                      if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
                      const auto late = Session::attach(built.bytes, built.artifact.module, CHAINIO_PROBED);
                      if (late->refused().empty()) return 3;
                      constexpr std::string_view kWanted =
                          "the kernel does not attach it to system call openat: Too many open files";
                      if (late->refused()[0].why.starts_with(kWanted)) return 0;
                  }
                  return 4;
              }),
              0);
}

TEST(Privileges, DroppedOnesAreNamedAndDoNotComeBack) {
    if (const std::string missing = missing_privileges(); !missing.empty()) GTEST_SKIP() << missing;
    const Built built = build("probe fast = uprobe \"probed:fast\" ()\n", "fast");
    EXPECT_EQ(tests::in_child([&] {
                  // What is attached before stays readable without the privilege; nothing can be attached after.
                  auto early = Session::attach(built.bytes, built.artifact.module, CHAINIO_PROBED);
                  if (!early->refused().empty() || !drop_privileges()) return 1;
                  if (missing_privileges() !=
                      "attaching probes needs CAP_BPF and CAP_PERFMON; run as root, or once: setcap "
                      "cap_bpf,cap_perfmon+ep on chainio-run")
                      return 2;
                  auto late = Session::attach(built.bytes, built.artifact.module, CHAINIO_PROBED);
                  if (late->refused().size() != 1 || late->refused()[0].why != missing_privileges()) return 3;
                  Program program;
                  program.say("many 3");
                  if (drain(*early).size() != 3) return 4;
                  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
                  __user_cap_data_struct data[2]{};
                  data[1].effective = data[1].permitted = 1U << (CAP_BPF - 32);
                  return syscall(SYS_capset, &head, data) == 0 ? 5 : 0;
              }),
              0);
}

}  // namespace
}  // namespace chainio::probe
