// Where probes go in real files, and what is said when they cannot.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/probe/sites.h"

namespace chainio::probe {
namespace {

ir::Probe probe(std::string kind, std::string site, std::size_t arguments = 0) {
    ir::Probe out{"p", std::move(kind), std::move(site), {}};
    for (std::size_t k = 0; k < arguments; k++) out.args.push_back({fmt::format("a{}", k), 64, false, false, 0});
    return out;
}

const Libraries& probed() {
    static const auto libraries = Libraries::of(CHAINIO_PROBED);
    EXPECT_TRUE(libraries) << libraries.error();
    return *libraries;
}

std::vector<Site> found(const ir::Probe& p) {
    auto sites = find_sites(p, probed());
    EXPECT_TRUE(sites) << p.site << ": " << (sites ? "" : sites.error());
    return sites.value_or(std::vector<Site>{});
}

std::string refusal(const ir::Probe& p) {
    auto sites = find_sites(p, probed());
    EXPECT_FALSE(sites) << p.site;
    return sites ? "" : sites.error();
}

const std::string kProgram = std::filesystem::canonical(CHAINIO_PROBED);

TEST(Sites, Usdt) {
    const auto fire = found(probe("usdt", "probed:fire", 8));
    ASSERT_EQ(fire.size(), 1u);
    EXPECT_EQ(fire[0].file, kProgram);
    EXPECT_EQ(fire[0].cost, Cost::emulated);
    EXPECT_NE(fire[0].semaphore, 0u);
    EXPECT_EQ(fire[0].arguments.args[6].index, 1);  // r14
    const auto twice = found(probe("usdt", "probed:twice", 1));
    ASSERT_EQ(twice.size(), 2u);
    EXPECT_EQ(twice[0].cost, Cost::emulated);
    EXPECT_EQ(twice[1].cost, Cost::stepped);
    EXPECT_EQ(twice[0].semaphore, 0u);
    EXPECT_EQ(found(probe("usdt", "probed:probed:twice")).size(), 2u);
    // An argument that cannot be read matters only when it is asked for.
    EXPECT_EQ(found(probe("usdt", "probed:real")).size(), 1u);
}

TEST(Sites, Functions) {
    EXPECT_EQ(found(probe("uprobe", "probed:fast"))[0].cost, Cost::nop5);
    EXPECT_EQ(found(probe("uprobe", "probed:pushed"))[0].cost, Cost::emulated);
    EXPECT_EQ(found(probe("uprobe", "probed:stepped"))[0].cost, Cost::stepped);
    EXPECT_EQ(found(probe("uprobe", "probed:marked"))[0].cost, Cost::emulated);
    EXPECT_EQ(found(probe("uprobe", kProgram + ":fast"))[0].file, kProgram);
    const auto in_libc = found(probe("uprobe", "libc.so:fopen"));
    EXPECT_TRUE(in_libc[0].file.contains("libc.so.6"));
    EXPECT_EQ(in_libc[0].offset, found(probe("uprobe", "libc.so.6:fopen"))[0].offset);
}

TEST(Sites, SystemCalls) {
    const auto site = found(probe("syscall", "openat", 3));
    EXPECT_EQ(site[0].cost, Cost::system_call);
    EXPECT_EQ(site[0].offset, 257u);
    EXPECT_EQ(system_call_name(site[0].offset), "openat");
    EXPECT_EQ(system_call_name(1'000'000), "");
    EXPECT_EQ(refusal(probe("syscall", "opeant")), "there is no system call `opeant`, did you mean `openat`?");
}

TEST(Sites, SayWhatThereIs) {
    EXPECT_EQ(refusal(probe("usdt", "probed:fir")),
              "provider `probed` has no probe `fir`, did you mean `fire`?; it has fire, real, trap, twice");
    EXPECT_EQ(refusal(probe("usdt", "prubed:fire")),
              "there is no provider `prubed`, did you mean `probed`?; probed and its libraries have probed");
    EXPECT_EQ(refusal(probe("usdt", "probed:twice", 2)),
              fmt::format("{}: it has 1 argument (\"8@%rbx\"), and the spec declares 2", kProgram));
    EXPECT_EQ(refusal(probe("usdt", "probed:real", 1)),
              fmt::format("{}: argument `a0`: its description \"8f@%xmm0\" is a floating-point number; a probe hands "
                          "over integers and "
                          "strings",
                          kProgram));
    EXPECT_TRUE(refusal(probe("usdt", "probed:trap"))
                    .ends_with("the kernel does not probe the instruction there; choose another function"));
    EXPECT_TRUE(refusal(probe("uprobe", "probed:locked"))
                    .ends_with("the kernel does not probe the instruction there; choose another function"));
    EXPECT_EQ(refusal(probe("uprobe", "probed:eigth")),
              fmt::format("{} has no function `eigth`, did you mean `eight`?", kProgram));
    EXPECT_EQ(refusal(probe("uprobe", "libcc.so.6:read")),
              "there is no library `libcc.so.6`, did you mean `libc.so.6`?; the program consists of probed, libc.so.6, "
              "ld-linux-x86-64.so.2; what it loads later from a folder of its own is named by a path");
    EXPECT_EQ(refusal(probe("uprobe", "/no/such.so:read")), "there is no file /no/such.so");
}

TEST(Sites, VersionsOfAFunction) {
    auto libc = probed().find("libc.so.6");
    ASSERT_TRUE(libc);
    EXPECT_EQ(refusal(probe("uprobe", "libc.so.6:memcpy")),
              fmt::format("`memcpy` of {} is chosen when the program starts (IFUNC); name the function that is chosen",
                          libc->path));
    EXPECT_EQ(
        refusal(probe("uprobe", "libc.so.6:fopen@GLIBC_9")),
        fmt::format("{} has `fopen` in other versions: GLIBC_2.2.5; write \"LIBRARY:fopen@VERSION\"", libc->path));
    EXPECT_EQ(found(probe("uprobe", "libc.so.6:fopen@GLIBC_2.2.5")).size(), 1u);
}

TEST(Libraries, ScriptsAndMissingPrograms) {
    char folder[] = "/tmp/chainio-probe.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const std::string script = std::string(folder) + "/script", loose = std::string(folder) + "/loose";
    std::ofstream(script) << "#! " << CHAINIO_PROBED << " -x\nbody\n";
    std::ofstream(loose) << "#!/no/such/interpreter\n";
    auto of = Libraries::of(script);
    ASSERT_TRUE(of) << of.error();
    EXPECT_EQ(of->program().path, kProgram);
    EXPECT_EQ(Libraries::of(loose).error(),
              fmt::format("cannot find /no/such/interpreter, which runs the script {}", loose));
    EXPECT_EQ(Libraries::of("/no/such/program").error(), "cannot find the program /no/such/program");
    const std::string name = kProgram.substr(kProgram.rfind('/') + 1), before = std::getenv("PATH");
    setenv("PATH", kProgram.substr(0, kProgram.rfind('/')).c_str(), 1);
    for (const char* words : {"", "-S ", "-S", "--split-string=", "-S -i -u HOME A=b ", "-S -C / --ignore-signal "}) {
        std::ofstream(script, std::ios::trunc) << "#!/usr/bin/env " << words << name << " -x\nbody\n";
        of = Libraries::of(script);
        ASSERT_TRUE(of) << of.error();
        EXPECT_EQ(of->program().path, kProgram) << words;
    }
    setenv("PATH", before.c_str(), 1);
    std::ofstream(script, std::ios::trunc) << "no program at all";
    EXPECT_EQ(Libraries::of(script).error(), fmt::format("cannot probe {}: it is not an ELF file", script));
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace chainio::probe
