// Reading programs: a good one wholly, damaged ones without harm.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "runtime/probe/elf_view.h"
#include "runtime/probe/libraries.h"

namespace chainio::probe {
namespace {

std::vector<std::uint8_t> bytes_of(const char* path) {
    auto file = MappedFile::open(path);
    EXPECT_TRUE(file) << (file ? "" : file.error());
    return file ? std::vector<std::uint8_t>(file->bytes().begin(), file->bytes().end()) : std::vector<std::uint8_t>{};
}

// All that can be asked, so that a sanitizer sees it.
std::size_t ask_everything(std::span<const std::uint8_t> bytes) {
    auto elf = ElfView::read(bytes);
    if (!elf) {
        EXPECT_FALSE(elf.error().empty());
        return 0;
    }
    std::size_t sum = elf->interpreter().size() + elf->runpath().size() + elf->notes_base().value_or(0);
    for (std::string_view needed : elf->needed()) sum += needed.size();
    for (const UsdtNote& note : elf->notes())
        sum += note.provider.size() + note.name.size() + note.arguments.size() +
               elf->offset_of(note.address, true).value_or(0);
    for (const Symbol& symbol : elf->functions()) {
        sum += symbol.name.size() + symbol.version.size();
        if (const auto offset = elf->offset_of(symbol.address, true)) sum += elf->bytes_at(*offset, 16).size();
    }
    return sum;
}

TEST(Elf, NotesOfAProgram) {
    const auto bytes = bytes_of(CHAINIO_PROBED);
    auto elf = ElfView::read(bytes);
    ASSERT_TRUE(elf) << elf.error();
    EXPECT_EQ(elf->machine(), EM_X86_64);
    EXPECT_TRUE(elf->interpreter().contains("ld-linux"));
    ASSERT_FALSE(elf->needed().empty());
    EXPECT_TRUE(std::ranges::count(elf->needed(), std::string_view("libc.so.6")) > 0);
    const auto notes = elf->notes();
    ASSERT_EQ(notes.size(), 5u);
    EXPECT_EQ(notes[0].provider, "probed");
    EXPECT_EQ(notes[0].name, "fire");
    EXPECT_TRUE(notes[0].arguments.starts_with("-4@$-5 8@%rbx "));
    EXPECT_NE(notes[0].semaphore, 0u);
    EXPECT_EQ(notes[1].semaphore, 0u);
    EXPECT_EQ(elf->notes_base(), notes[0].base);
    const auto offset = elf->offset_of(notes[0].address, true);
    ASSERT_TRUE(offset);
    EXPECT_EQ(elf->bytes_at(*offset, 1)[0], 0x90);
    EXPECT_FALSE(elf->offset_of(notes[0].semaphore, true));
}

TEST(Elf, FunctionsAndTheirVersions) {
    const auto program = bytes_of(CHAINIO_PROBED);
    const auto functions = ElfView::read(program)->functions();
    EXPECT_TRUE(std::ranges::count(functions, std::string_view("eight"), &Symbol::name) > 0);
    EXPECT_FALSE(std::ranges::count(functions, std::string_view("puts"), &Symbol::name) > 0);  // only used, not defined
    auto libraries = Libraries::of(CHAINIO_PROBED);
    ASSERT_TRUE(libraries) << libraries.error();
    auto libc = libraries->find("libc.so.6");
    ASSERT_TRUE(libc) << libc.error();
    const auto bytes = bytes_of(libc->path.c_str());
    // memcpy has had two versions since 2.14, the newer one is the default.
    std::vector<std::pair<std::string, bool>> versions;
    const auto elf = ElfView::read(bytes);
    for (const Symbol& symbol : elf->functions())
        if (symbol.name == "memcpy") versions.emplace_back(symbol.version, symbol.hidden);
    std::ranges::sort(versions);
    ASSERT_EQ(versions.size(), 2u);
    EXPECT_EQ(versions[0], (std::pair<std::string, bool>("GLIBC_2.14", false)));
    EXPECT_EQ(versions[1], (std::pair<std::string, bool>("GLIBC_2.2.5", true)));
}

TEST(Elf, RefusesWhatIsNoProgram) {
    const auto refused = [](std::vector<std::uint8_t> bytes) { return ElfView::read(bytes).error(); };
    auto good = bytes_of(CHAINIO_PROBED);
    EXPECT_EQ(refused({}), "it is not an ELF file");
    EXPECT_EQ(refused({'#', '!', '/', 'b', 'i', 'n'}), "it is not an ELF file");
    auto narrow = good;
    narrow[EI_CLASS] = ELFCLASS32;
    EXPECT_EQ(refused(narrow), "it is not a 64-bit little-endian ELF file");
    auto object = good;
    object[offsetof(Elf64_Ehdr, e_type)] = ET_REL;
    EXPECT_EQ(refused(object), "it is neither a program nor a shared library");
    good.resize(20);
    EXPECT_EQ(refused(good), "it is not a 64-bit little-endian ELF file");
}

TEST(Elf, CutAnywhere) {
    const auto good = bytes_of(CHAINIO_PROBED);
    EXPECT_GT(ask_everything(good), 1000u);
    for (std::size_t size = 0; size < good.size(); size += size < 4096 ? 1 : 97) {
        const std::vector<std::uint8_t> cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
        ask_everything(cut);
    }
}

TEST(Elf, ChangedAnywhere) {
    const auto good = bytes_of(CHAINIO_PROBED);
    Elf64_Ehdr head;
    std::memcpy(&head, good.data(), sizeof head);
    std::mt19937 random(5);
    for (int round = 0; round < 3000; round++) {
        auto bad = good;
        // Mostly where the structure is: the headers and the tables that they lead to.
        for (int i = 0; i < 1 + round % 8; i++) {
            const std::size_t sections = head.e_shnum * sizeof(Elf64_Shdr);
            const std::size_t at = random() % 3 == 0   ? random() % 1024
                                   : random() % 2 == 0 ? head.e_shoff + random() % sections
                                                       : random() % bad.size();
            bad[at] = random() % 4 == 0 ? 0xff : static_cast<std::uint8_t>(random());
        }
        ask_everything(bad);
    }
}

TEST(LoaderCache, OfThisMachineAndDamaged) {
    const auto good = bytes_of("/etc/ld.so.cache");
    const auto all = read_loader_cache(good);
    EXPECT_TRUE(std::ranges::count(all, "libc.so.6", &Library::name) > 0);
    for (std::size_t size = 0; size < good.size(); size += 61) {
        const std::vector<std::uint8_t> cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_LE(read_loader_cache(cut).size(), all.size());
    }
    auto endless = good;
    std::memset(endless.data() + 20, 0xff, 8);
    EXPECT_LE(read_loader_cache(endless).size(), 65536u);
}

}  // namespace
}  // namespace chainio::probe
