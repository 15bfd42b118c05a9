// Which system calls of a program are found, and what is replaced around each.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "runtime/sites/scan.h"

namespace chainio::sites {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kBase = 0x400000, kCode = 0x1000;

struct Function {
    std::uint64_t at, size;  // in the code
    int type = STT_FUNC;
};

template <class T>
void put(Bytes& out, std::size_t at, const T& value) {
    if (out.size() < at + sizeof value) out.resize(at + sizeof value);
    std::memcpy(out.data() + at, &value, sizeof value);
}

Bytes operator+(Bytes a, const Bytes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// A program of this code and these symbols, loaded at kBase + kCode.
Bytes program(const Bytes& code, const std::vector<Function>& functions, std::uint16_t machine = EM_X86_64) {
    Bytes out;
    const std::size_t symbols = (kCode + code.size() + 7) & ~std::size_t{7},
                      sections = symbols + (functions.size() + 1) * sizeof(Elf64_Sym);
    Elf64_Ehdr head{};
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_type = ET_DYN;
    head.e_machine = machine;
    head.e_phoff = sizeof head;
    head.e_phentsize = sizeof(Elf64_Phdr);
    head.e_phnum = 1;
    head.e_shoff = sections;
    head.e_shentsize = sizeof(Elf64_Shdr);
    head.e_shnum = 3;
    put(out, 0, head);
    put(out, sizeof head, Elf64_Phdr{PT_LOAD, PF_R | PF_X, kCode, kBase + kCode, 0, code.size(), code.size(), 0x1000});
    out.resize(kCode);
    out = out + code;
    for (std::size_t i = 0; i < functions.size(); i++)
        put(out, symbols + (i + 1) * sizeof(Elf64_Sym),
            Elf64_Sym{1, static_cast<unsigned char>(ELF64_ST_INFO(STB_LOCAL, functions[i].type)), 0, 1,
                      kBase + kCode + functions[i].at, functions[i].size});
    put(out, sections + sizeof(Elf64_Shdr),
        Elf64_Shdr{0, SHT_SYMTAB, 0, 0, symbols, sections - symbols, 2, 0, 8, sizeof(Elf64_Sym)});
    put(out, sections + 2 * sizeof(Elf64_Shdr),
        Elf64_Shdr{0, SHT_STRTAB, 0, 0, sections + 3 * sizeof(Elf64_Shdr), 3, 0, 0, 1, 0});
    return out + Bytes{0, 'f', 0};
}

Scan scan_of(const Bytes& code, std::vector<Function> functions = {}) {
    if (functions.empty()) functions = {{0, code.size()}};
    return scan(program(code, functions));
}

// "+0: 0f 05 | ..." of each site, or why there are none.
std::string shown(const Scan& found) {
    if (!found.refused.empty()) return found.refused;
    std::string out;
    for (const shim::Site& site : found.sites) {
        char text[8];
        std::snprintf(text, sizeof text, "+%d:", static_cast<int>(site.address - kBase - kCode));
        out += (out.empty() ? "" : ", ") + std::string(text);
        for (int i = 0; i < site.bytes; i++) {
            std::snprintf(text, sizeof text, "%s%02x", i == site.call_at ? "*" : " ", site.code[i]);
            out += text;
        }
    }
    return out;
}

const Bytes kSyscall{0x0f, 0x05}, kCompare{0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff}, kReturn{0xc3}, kNop{0x90},
    kPadding{0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
const Bytes kReadNumber{0xb8, 0, 0, 0, 0}, kGetpid{0xb8, 39, 0, 0, 0}, kMoveResult{0x48, 0x89, 0xc3},
    kTestResult{0x48, 0x85, 0xc0};

TEST(Scan, WhatFollowsIsTakenFirst) {
    EXPECT_EQ(shown(scan_of(kNop + kSyscall + kCompare + kReturn)), "+1:*0f 05 48 3d 01 f0 ff ff");
    EXPECT_EQ(shown(scan_of(kSyscall + kMoveResult + kTestResult + kReturn)), "+0:*0f 05 48 89 c3");
    EXPECT_EQ(shown(scan_of(kReadNumber + kSyscall + kMoveResult + kReturn)), "+5:*0f 05 48 89 c3");
}

TEST(Scan, PaddingBehindAReturnMayGo) {
    const Bytes code = kMoveResult + kSyscall + kReturn;
    EXPECT_EQ(shown(scan_of(code + kPadding, {{0, code.size()}})), "+3:*0f 05 c3 cc cc");
    EXPECT_EQ(shown(scan_of(code + kReturn + kPadding, {{0, code.size()}})), "+0: 48 89 c3*0f 05");
    // The padding is another function's beginning.
    EXPECT_EQ(shown(scan_of(code + kPadding, {{0, code.size()}, {code.size() + 1, 4}})), "+0: 48 89 c3*0f 05");
}

TEST(Scan, WhatCannotMoveStays) {
    const Bytes jump{0x74, 0x00}, relative{0x48, 0x8b, 0x05, 0, 0, 0, 0}, call{0xe8, 0, 0, 0, 0};
    for (const Bytes& fixed : {jump, relative, call}) {
        EXPECT_EQ(shown(scan_of(kMoveResult + kSyscall + fixed + kReturn)), "+0: 48 89 c3*0f 05");
        EXPECT_EQ(shown(scan_of(fixed + kSyscall + fixed + kReturn)),
                  fixed.size() == 2   ? "there is no room for a jump at the system call at 0x401002"
                  : fixed.size() == 7 ? "there is no room for a jump at the system call at 0x401007"
                                      : "there is no room for a jump at the system call at 0x401005");
    }
    EXPECT_EQ(shown(scan_of(kMoveResult + kSyscall + kSyscall + kCompare)),
              "+0: 48 89 c3*0f 05, +5:*0f 05 48 3d 01 f0 ff ff");
    EXPECT_EQ(shown(scan_of(kSyscall + kSyscall + kCompare)),
              "there is no room for a jump at the system call at 0x401000");
}

TEST(Scan, NumbersThatNobodyLooksAt) {
    const Scan found = scan_of(kGetpid + kSyscall + kReturn);
    EXPECT_EQ(shown(found), "");
    EXPECT_EQ(found.others, 1u);
    const Bytes wide{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0};  // a signal handler's return: debuggers know it by its bytes
    EXPECT_EQ(scan_of(wide + kSyscall).others, 1u);
    EXPECT_EQ(shown(scan_of(Bytes{0x31, 0xc0} + kSyscall + kCompare)), "+2:*0f 05 48 3d 01 f0 ff ff");
    // Somebody jumps to the call with another number.
    EXPECT_EQ(shown(scan_of(Bytes{0xeb, 0x05} + kGetpid + kSyscall + kCompare)), "+7:*0f 05 48 3d 01 f0 ff ff");
}

TEST(Scan, NobodyJumpsIntoAWindow) {
    const Bytes code = kSyscall + kMoveResult + kTestResult;
    const auto no_room = [](int at) {
        return "there is no room for a jump at the system call at 0x40100" + std::to_string(at);
    };
    EXPECT_EQ(shown(scan_of(code + Bytes{0x75, 0xf8} + kReturn)), no_room(0));                // +2
    EXPECT_EQ(shown(scan_of(code + Bytes{0x75, 0xf6} + kReturn)), "+0:*0f 05 48 89 c3");      // +0
    EXPECT_EQ(shown(scan_of(kMoveResult + code + Bytes{0x75, 0xf8})), "+0: 48 89 c3*0f 05");  // +5
    EXPECT_EQ(shown(scan_of(code + kReturn + Bytes{0xe9, 0xf4, 0xff, 0xff, 0xff},
                            {{0, code.size() + 1}, {code.size() + 1, 5}})),
              no_room(0));
    EXPECT_EQ(shown(scan_of(code + kReturn + Bytes{0x0f, 0x84, 0xf3, 0xff, 0xff, 0xff}, {{0, code.size() + 1}})),
              no_room(0));
    EXPECT_EQ(shown(scan_of(code + kReturn + Bytes{0xeb, 0xf7}, {{0, code.size() + 1}, {code.size() + 1, 2}})),
              no_room(0));
    EXPECT_EQ(shown(scan_of(code + kReturn, {{0, code.size() + 1}, {2, 0, STT_NOTYPE}})), no_room(0));
    EXPECT_EQ(shown(scan_of(kMoveResult + kSyscall + Bytes{0xff, 0xe0})), no_room(3));  // jmp rax
}

TEST(Scan, OnlyInstructionsAreCalls) {
    const Bytes data{0xb8, 0x0f, 0x05, 0x0f, 0x05};  // mov eax, 0x050f050f
    const Scan found = scan_of(data + kReturn + Bytes{0x0f, 0x05, 0, 0}, {{0, data.size() + 1}});
    EXPECT_EQ(shown(found), "");
    EXPECT_EQ(found.unknown, 1u);
    EXPECT_EQ(shown(scan_of(Bytes{0x06} + kSyscall + kCompare)), "the function at 0x401000 does not disassemble");
    EXPECT_EQ(shown(scan_of(kSyscall + Bytes{0x48, 0x3d, 1})), "the function at 0x401000 does not disassemble");
}

// A stripped Go program: `words` of 32 bits behind the head of its table, which lies behind the code.
Scan go_scan_of(const Bytes& code, std::uint64_t text, std::uint64_t count, const std::vector<std::uint32_t>& words,
                std::uint32_t magic = 0xfffffff1) {
    Bytes out = program(code, {});
    const std::uint64_t table = (out.size() + 7) & ~std::uint64_t{7}, pairs = 72;
    put(out, table, magic);
    put(out, table + 8, count);
    put(out, table + 24, text);
    put(out, table + 64, pairs);
    for (std::size_t i = 0; i < words.size(); i++) put(out, table + pairs + 4 * i, words[i]);
    const std::uint64_t size = out.size() - table, names = out.size();
    const char text_of_names[] = "\0.gopclntab";
    out.insert(out.end(), text_of_names, text_of_names + sizeof text_of_names);
    out.resize((out.size() + 7) & ~std::size_t{7});
    Elf64_Ehdr head;
    std::memcpy(&head, out.data(), sizeof head);
    head.e_shoff = out.size();
    head.e_shnum = 2;
    head.e_shstrndx = 0;
    put(out, 0, head);
    put(out, head.e_shoff, Elf64_Shdr{0, SHT_STRTAB, 0, 0, names, sizeof text_of_names, 0, 0, 1, 0});
    put(out, head.e_shoff + sizeof(Elf64_Shdr), Elf64_Shdr{1, SHT_PROGBITS, 0, kBase + table, table, size, 0, 0, 8, 0});
    return scan(out);
}

TEST(Scan, TheTableOfAGoProgram) {
    const Bytes code = kNop + kReturn + kPadding + kSyscall + kCompare + kReturn;
    const std::uint64_t text = kBase + kCode;
    const std::vector<std::uint32_t> words{0, 1, 7, 1, static_cast<std::uint32_t>(code.size())};
    EXPECT_EQ(shown(go_scan_of(code, text, 2, words)), "+7:*0f 05 48 3d 01 f0 ff ff");
    EXPECT_EQ(shown(go_scan_of(code, text, 2, words, 0xfffffff0)), "+7:*0f 05 48 3d 01 f0 ff ff");
    const auto unknown = [](const Scan& found) { return found.sites.empty() && found.unknown == 1; };
    EXPECT_TRUE(unknown(go_scan_of(code, text, 2, words, 0xfffffffb)));
    EXPECT_TRUE(unknown(go_scan_of(code, 0, 2, words)));
    EXPECT_TRUE(unknown(go_scan_of(code, text, 3, words)));
    EXPECT_TRUE(unknown(go_scan_of(code, text, std::uint64_t{1} << 61, words)));
    EXPECT_TRUE(unknown(go_scan_of(code, text, 2, {7, 1, 0, 1, 16})));
    EXPECT_TRUE(unknown(go_scan_of(code, text, 2, {0, 1, 7, 1, 5000})));
}

TEST(Scan, RefusesWhatIsNoProgram) {
    EXPECT_EQ(scan({}).refused, "it is not an ELF file");
    EXPECT_EQ(scan(program(kReturn, {}, EM_AARCH64)).refused, "it is not a program for x86-64");
}

// What the preload library may rely on, whatever the file says.
void hold(const Bytes& file) {
    const Scan found = scan(file);
    for (const shim::Site& site : found.sites) {
        ASSERT_TRUE(found.refused.empty());
        ASSERT_GE(site.bytes, shim::kJumpBytes);
        ASSERT_LE(site.bytes, shim::kMaxWindow);
        ASSERT_LE(site.call_at + 2, site.bytes);
        ASSERT_EQ(site.code[site.call_at], 0x0f);
        ASSERT_EQ(site.code[site.call_at + 1], 0x05);
    }
}

TEST(Scan, DamagedFiles) {
    const Bytes code =
        kGetpid + kSyscall + kReturn + kPadding + kSyscall + kCompare + kReturn + kMoveResult + kSyscall + kReturn;
    const Bytes good = program(code, {{0, 8}, {13, 9}, {22, 6}});
    EXPECT_EQ(shown(scan(good)), "+13:*0f 05 48 3d 01 f0 ff ff, +22: 48 89 c3*0f 05");
    for (std::size_t size = 0; size < good.size(); size += size < 256 || size > kCode ? 1 : 61)
        hold(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
    std::mt19937 random(7);
    for (int round = 0; round < 20'000; round++) {
        Bytes bad = good;
        for (int i = 0; i < 3; i++) {
            const std::size_t at = random() % 4 == 0 ? random() % 128 : kCode + random() % (bad.size() - kCode);
            bad[at] = static_cast<std::uint8_t>(random());
        }
        hold(bad);
    }
}

}  // namespace
}  // namespace chainio::sites
