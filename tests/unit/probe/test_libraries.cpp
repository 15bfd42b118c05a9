// Which files a program is made of: those that the dynamic loader would take.
#include "runtime/probe/libraries.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "runtime/probe/loader_paths.h"

namespace chainio::probe {
namespace {
namespace fs = std::filesystem;

// A file of which only the dynamic section says something.
struct Described {
    std::string needed = {}, runpath = {}, rpath = {}, interpreter = {};
};

std::string file_of(const Described& one) {
    constexpr std::size_t kSegments = 3, kRows = 6;
    const std::size_t at = sizeof(Elf64_Ehdr) + kSegments * sizeof(Elf64_Phdr),
                      names_at = at + kRows * sizeof(Elf64_Dyn);
    std::string names(1, '\0');
    std::vector<Elf64_Dyn> rows;
    for (const auto& [tag, text] : {std::pair<Elf64_Sxword, std::string>{DT_NEEDED, one.needed},
                                    {DT_RUNPATH, one.runpath},
                                    {DT_RPATH, one.rpath}}) {
        if (text.empty()) continue;
        rows.push_back({tag, {names.size()}});
        names += text + '\0';
    }
    const std::size_t interpreter_at = names_at + names.size();
    rows.push_back({DT_STRTAB, {names_at}});
    rows.push_back({DT_STRSZ, {names.size()}});
    rows.resize(kRows);
    const std::size_t size = interpreter_at + one.interpreter.size() + 1;
    const Elf64_Phdr segments[kSegments] = {
        {PT_LOAD, PF_R, 0, 0, 0, size, size, 4096},
        {PT_DYNAMIC, PF_R, at, at, at, kRows * sizeof(Elf64_Dyn), kRows * sizeof(Elf64_Dyn), 8},
        {one.interpreter.empty() ? Elf64_Word{PT_NULL} : Elf64_Word{PT_INTERP}, PF_R, interpreter_at, interpreter_at,
         interpreter_at, one.interpreter.size() + 1, one.interpreter.size() + 1, 1}};
    Elf64_Ehdr head{};
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_type = ET_DYN;
    head.e_machine = EM_X86_64;
    head.e_phoff = sizeof head;
    head.e_phentsize = sizeof(Elf64_Phdr);
    head.e_phnum = kSegments;
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
    bytes.append(reinterpret_cast<const char*>(segments), sizeof segments);
    bytes.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(Elf64_Dyn));
    return bytes + names + one.interpreter + '\0';
}

class LibrariesTest : public testing::Test {
  protected:
    LibrariesTest() {
        char folder[] = "/tmp/chainio-probe.XXXXXX";
        EXPECT_NE(mkdtemp(folder), nullptr);
        folder_ = fs::canonical(folder);
        unsetenv("LD_LIBRARY_PATH");
    }
    ~LibrariesTest() override {
        unsetenv("LD_LIBRARY_PATH");
        fs::remove_all(folder_);
    }
    void make(const std::string& name, const Described& what = {}) const {
        fs::create_directories((folder_ / name).parent_path());
        std::ofstream(folder_ / name, std::ios::binary) << file_of(what);
    }
    // What the program is made of, beneath the folder.
    std::vector<std::string> parts() const {
        const auto all = Libraries::of((folder_ / "program").string());
        EXPECT_TRUE(all) << all.error();
        std::vector<std::string> out;
        for (const Library& one : all->parts()) out.push_back(fs::relative(one.path, folder_));
        return out;
    }
    using Paths = std::vector<std::string>;
    fs::path folder_;
};

TEST_F(LibrariesTest, TheUsersFoldersComeBeforeRunpathAndBehindRpath) {
    make("program", {.needed = "libx.so.1", .runpath = "$ORIGIN/own"});
    for (const char* folder : {"own/libx.so.1", "users/libx.so.1"}) make(folder);
    EXPECT_EQ(parts(), (Paths{"program", "own/libx.so.1"}));
    setenv("LD_LIBRARY_PATH", (folder_ / "users").c_str(), 1);
    EXPECT_EQ(parts(), (Paths{"program", "users/libx.so.1"}));
    make("program", {.needed = "libx.so.1", .rpath = "${ORIGIN}/own"});
    EXPECT_EQ(parts(), (Paths{"program", "own/libx.so.1"}));
    make("program", {.needed = "libx.so.1", .runpath = "$ORIGIN/none", .rpath = "$ORIGIN/own"});
    EXPECT_EQ(parts(), (Paths{"program", "users/libx.so.1"})) << "beside a RUNPATH it does not count";
}

TEST_F(LibrariesTest, RpathOfTheProgramCountsForWhatItsLibrariesNeed) {
    make("own/libx.so.1", {.needed = "libchainio-y.so"});
    make("own/libchainio-y.so");
    make("program", {.needed = "libx.so.1", .rpath = "$ORIGIN/own"});
    EXPECT_EQ(parts(), (Paths{"program", "own/libx.so.1", "own/libchainio-y.so"}));
    make("program", {.needed = "libx.so.1", .runpath = "$ORIGIN/own"});
    EXPECT_EQ(parts(), (Paths{"program", "own/libx.so.1"}));
    make("program", {.needed = "libx.so.1", .rpath = "$ORIGIN/own"});
    make("own/libx.so.1", {.needed = "libchainio-y.so", .runpath = "$ORIGIN/none"});
    EXPECT_EQ(parts(), (Paths{"program", "own/libx.so.1"})) << "a library with a RUNPATH has only that";
}

TEST_F(LibrariesTest, BuildsForTheProcessorComeFirst) {
    make("program", {.needed = "libx.so.1", .runpath = "$ORIGIN/own"});
    make("own/libx.so.1");
    make("own/glibc-hwcaps/none/libx.so.1");
    EXPECT_EQ(parts(), (Paths{"program", "own/libx.so.1"}));
    if (processor_folders().empty()) GTEST_SKIP() << "no builds are for this processor alone";
    for (auto at = processor_folders().rbegin(); at != processor_folders().rend(); ++at) {
        const std::string name = "own/glibc-hwcaps/" + *at + "/libx.so.1";
        make(name);
        EXPECT_EQ(parts(), (Paths{"program", name}));
    }
}

TEST_F(LibrariesTest, WhatStandsForFoldersOfTheSystemIsReplaced) {
    make("loaders/lib/own-linux/ld.so");
    make("program", {.needed = "libx.so.1",
                     .runpath = "$ORIGIN/$LIB:$ORIGIN/${PLATFORM}:$ORIGIN/$NONE",
                     .interpreter = (folder_ / "loaders/lib/own-linux/ld.so").string()});
    const std::string lib = folder_.string().substr(1) + "/loaders/lib/own-linux/libx.so.1";
    const auto* platform = reinterpret_cast<const char*>(getauxval(AT_PLATFORM));
    make("$NONE/libx.so.1");
    EXPECT_EQ(parts(), (Paths{"program", "$NONE/libx.so.1"}));
    if (platform != nullptr) {
        make(std::string(platform) + "/libx.so.1");
        EXPECT_EQ(parts(), (Paths{"program", std::string(platform) + "/libx.so.1"}));
    }
    make(lib);
    EXPECT_EQ(parts(), (Paths{"program", lib}));
}

TEST_F(LibrariesTest, ALibraryIsWhereItWasFoundThoughThatIsALink) {
    make("program", {.needed = "libx.so.1", .runpath = "$ORIGIN/links"});
    make("real/libx.so.1", {.needed = "libchainio-y.so", .runpath = "$ORIGIN"});
    for (const char* name : {"real/libchainio-y.so", "links/libchainio-y.so"}) make(name);
    fs::create_symlink("../real/libx.so.1", folder_ / "links/libx.so.1");
    EXPECT_EQ(parts(), (Paths{"program", "real/libx.so.1", "links/libchainio-y.so"}));
}

TEST_F(LibrariesTest, WhatIsThereUnderANameIsNotLookedForAgain) {
    make("program", {.needed = "libx.so.1", .runpath = "$ORIGIN/own"});
    make("own/libx.so.1", {.needed = "libx.so.1", .runpath = "$ORIGIN/other"});
    make("own/other/libx.so.1");
    EXPECT_EQ(parts(), (Paths{"program", "own/libx.so.1"}));
}

}  // namespace
}  // namespace chainio::probe
