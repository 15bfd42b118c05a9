// Which programs run with the library preloaded, by the first bytes of their files.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "runtime/shim/program_head.h"

namespace chainio::shim {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kOwn = EM_X86_64;
constexpr std::string_view kGlibc = "/lib64/ld-linux-x86-64.so.2", kNamedAlike = "/lib/not-ld-linux-x86-64.so.2";
#else
constexpr Elf64_Half kOwn = EM_AARCH64;
constexpr std::string_view kGlibc = "/lib/ld-linux-aarch64.so.1", kNamedAlike = "/lib/not-ld-linux-aarch64.so.1";
#endif

constexpr std::size_t kName = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);

// With one segment, which names `loader`.
ProgramHead head_with(std::string_view loader, std::size_t offset = kName) {
    ProgramHead head{};
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = kOwn;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    Elf64_Phdr segment{};
    segment.p_type = PT_INTERP;
    segment.p_offset = offset;
    segment.p_filesz = loader.size() + 1;
    std::memcpy(head.bytes, &header, sizeof header);
    std::memcpy(head.bytes + sizeof header, &segment, sizeof segment);
    if (offset < sizeof head.bytes && loader.size() < sizeof head.bytes - offset)
        std::memcpy(head.bytes + offset, loader.data(), loader.size());
    head.size = sizeof head.bytes;
    return head;
}

TEST(ProgramHead, TellsLoadersApartByTheirNames) {
    EXPECT_EQ(judge(head_with(kGlibc)), ProgramFile::other);
    EXPECT_EQ(judge(head_with("/gnu/store/glibc" + std::string(kGlibc))), ProgramFile::other) << "in another folder";
    for (const std::string_view loader :
         {std::string_view("/lib/ld-musl-x86_64.so.1"), std::string_view("/system/bin/linker64"), std::string_view(""),
          kNamedAlike, kGlibc.substr(0, kGlibc.size() - 1)})
        EXPECT_EQ(judge(head_with(loader)), ProgramFile::other_library) << loader;
}

TEST(ProgramHead, JudgesNoNameThatItDoesNotHave) {
    EXPECT_EQ(judge(head_with("/lib/ld-musl-x86_64.so.1", 1020)), ProgramFile::other);
    EXPECT_EQ(judge(head_with("/lib/ld-musl-x86_64.so.1", ~std::size_t{0})), ProgramFile::other);
    ProgramHead cut = head_with("/lib/ld-musl-x86_64.so.1");
    cut.size = kName + 5;
    EXPECT_EQ(judge(cut), ProgramFile::other);
}

}  // namespace
}  // namespace chainio::shim
