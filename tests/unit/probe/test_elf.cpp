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

// What is wrong with a file is all in its first bytes; what else is damaged is not seen, and leads to nothing.
std::string expected_error(std::span<const std::uint8_t> bytes) {
    Elf64_Ehdr head{};
    std::copy_n(bytes.begin(), std::min(bytes.size(), sizeof head), reinterpret_cast<std::uint8_t*>(&head));
    if (bytes.size() < SELFMAG || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return "it is not an ELF file";
    if (bytes.size() < sizeof head || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB)
        return "it is not a 64-bit little-endian ELF file";
    return head.e_type == ET_EXEC || head.e_type == ET_DYN ? "" : "it is neither a program nor a shared library";
}

// Asks all that can be asked, and holds each answer to the file: it is a part of it, of no more than there is room for.
class Asker {
  public:
    explicit Asker(std::span<const std::uint8_t> file) : file_(file) {}

    // The bytes of all answers; 0 when the file is refused.
    std::size_t ask() {
        const auto elf = ElfView::read(file_);
        EXPECT_EQ(elf ? "" : elf.error(), expected_error(file_));
        if (!elf) return 0;
        text(elf->interpreter());
        text(elf->runpath());
        text(elf->rpath());
        for (const std::string_view needed : elf->needed()) named(needed);
        for (const UsdtNote& note : elf->notes()) {
            named(note.provider);
            named(note.name);
            text(note.arguments);
            place(*elf, note.address);
        }
        for (const Symbol& symbol : elf->functions()) {
            named(symbol.name);
            text(symbol.version);
            EXPECT_FALSE(symbol.name.contains('@')) << symbol.name;
            place(*elf, symbol.address);
        }
        for (const Code& code : elf->code()) inside(code.bytes.data(), code.bytes.size());
        for (const char* name : {".text", ".stapsdt.base", ".none"}) {
            const Code section = elf->section(name);
            inside(section.bytes.data(), section.bytes.size());
        }
        return sum_;
    }

  private:
    void inside(const void* data, std::size_t size) {
        if (size == 0) return;
        const auto* begin = static_cast<const std::uint8_t*>(data);
        const bool is_inside = begin >= file_.data() && begin <= file_.data() + file_.size() &&
                               size <= static_cast<std::size_t>(file_.data() + file_.size() - begin);
        EXPECT_TRUE(is_inside) << size << " bytes";
    }
    void text(std::string_view answer) {
        inside(answer.data(), answer.size());
        EXPECT_FALSE(answer.contains('\0')) << answer;
        sum_ += answer.size();
    }
    void named(std::string_view answer) {
        text(answer);
        EXPECT_FALSE(answer.empty());
    }
    void place(const ElfView& elf, std::uint64_t address) {
        const auto offset = elf.offset_of(address, true);
        if (!offset) return;
        EXPECT_LT(*offset, file_.size());
        const auto code = elf.bytes_at(*offset, 16);
        EXPECT_EQ(code.size(), std::min<std::size_t>(16, file_.size() - *offset));
        inside(code.data(), code.size());
        sum_ += code.size();
    }

    std::span<const std::uint8_t> file_;
    std::size_t sum_ = 0;
};

std::size_t ask_everything(std::span<const std::uint8_t> bytes) { return Asker(bytes).ask(); }

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
    const std::size_t all = ask_everything(good);
    EXPECT_GT(all, 500u);
    for (std::size_t size = 0; size < good.size(); size += size < 4096 ? 1 : 97) {
        const std::vector<std::uint8_t> cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
        SCOPED_TRACE(std::to_string(size) + " bytes");
        EXPECT_LE(ask_everything(cut), all);
        ASSERT_FALSE(HasFailure());
    }
}

TEST(Elf, ChangedAnywhere) {
    const auto good = bytes_of(CHAINIO_PROBED);
    Elf64_Ehdr head;
    std::memcpy(&head, good.data(), sizeof head);
    std::mt19937 random(5);
    std::size_t read = 0, refused = 0;
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
        SCOPED_TRACE("round " + std::to_string(round));
        expected_error(bad).empty() ? read++ : refused++;
        ask_everything(bad);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(read, 1000u);
    EXPECT_GT(refused, 10u);
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
