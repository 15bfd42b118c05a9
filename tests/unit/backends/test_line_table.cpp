// Which line an instruction comes from, as the records of .BTF.ext say it.
#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "compiler/backends/line_table.h"

namespace chainio::backends {
namespace {

using Bytes = std::vector<std::uint8_t>;

void put(Bytes& to, std::initializer_list<std::uint32_t> words) {
    for (const std::uint32_t word : words) {
        const auto* at = reinterpret_cast<const std::uint8_t*>(&word);
        to.insert(to.end(), at, at + sizeof word);
    }
}

// Two sections, and two files.
BpfObject object() {
    constexpr std::string_view kStrings{"\0one\0two\0./a.chain\0b.chain\0", 27};
    constexpr std::uint32_t kOne = 1, kTwo = 5, kA = 9, kB = 19, kHeader = 24, kRecord = 16;
    BpfObject made;
    Bytes& btf = made.sections[".BTF"];
    put(btf, {0, kHeader, 0, 0, 0, static_cast<std::uint32_t>(kStrings.size())});
    btf.insert(btf.end(), kStrings.begin(), kStrings.end());
    Bytes records;
    put(records, {kRecord, kOne, 3});
    put(records, {8, kA, 0, 10 << 10 | 5, 24, kA, 0, 20 << 10 | 1, 48, kB, 0, 7 << 10});
    put(records, {kTwo, 1, 0, kB, 0, 99 << 10});
    Bytes& ext = made.sections[".BTF.ext"];
    put(ext, {0, kHeader, 0, 0, 0, static_cast<std::uint32_t>(records.size())});
    ext.insert(ext.end(), records.begin(), records.end());
    return made;
}

std::string line_at(const LineTable& table, const std::string& section, std::uint64_t offset) {
    const SourceLine found = table.find(section, offset);
    return found.file + ":" + std::to_string(found.line);
}

TEST(Lines, AreThoseOfTheRecordAtTheInstructionOrBeforeIt) {
    const LineTable table(object());
    EXPECT_EQ(line_at(table, "one", 0), ":0") << "nothing is said of it";
    EXPECT_EQ(line_at(table, "one", 8), "a.chain:10");
    EXPECT_EQ(line_at(table, "one", 16), "a.chain:10");
    EXPECT_EQ(line_at(table, "one", 24), "a.chain:20");
    EXPECT_EQ(line_at(table, "one", 40), "a.chain:20");
    EXPECT_EQ(line_at(table, "one", 48), "b.chain:7");
    EXPECT_EQ(line_at(table, "one", 4096), "b.chain:7");
    EXPECT_EQ(line_at(table, "two", 0), "b.chain:99");
    EXPECT_EQ(line_at(table, "three", 8), ":0");
}

TEST(Lines, OfWhatIsCutAreThoseThatAreWhole) {
    const BpfObject whole = object();
    for (std::size_t size = 0; size < whole.sections.at(".BTF.ext").size(); size++) {
        BpfObject cut = whole;
        cut.sections[".BTF.ext"].resize(size);
        const std::string found = line_at(LineTable(cut), "one", 24);
        EXPECT_TRUE(found == ":0" || found == "a.chain:10" || found == "a.chain:20") << size << ": " << found;
    }
    for (std::size_t size = 0; size < whole.sections.at(".BTF").size(); size++) {
        BpfObject cut = whole;
        cut.sections[".BTF"].resize(size);
        EXPECT_EQ(line_at(LineTable(cut), "one", 24), ":0") << size;
    }
}

}  // namespace
}  // namespace chainio::backends
