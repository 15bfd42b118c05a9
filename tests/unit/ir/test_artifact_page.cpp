// docs/artifact.md gives the serialised form byte for byte: what is written by hand from that page is read, and its
// numbers of the operations are the real ones.
#include <fstream>
#include <sstream>

#include "compiler/ir/hash.h"
#include "tests/unit/ir/ir_fixture.h"

namespace chainio::ir::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

void u32(Bytes& out, std::uint32_t v) {
    for (int i = 0; i < 4; i++) out.push_back(static_cast<std::uint8_t>(v >> (8 * i)));
}

TEST(ArtifactPage, AnEmptyModuleWrittenByHand) {
    IoLayout layout = layout_of(Module{});
    Bytes payload;
    u32(payload, 3);  // app
    payload.insert(payload.end(), {'a', 'p', 'p'});
    for (int list = 0; list < 4; list++) u32(payload, 0);  // match exe, files, sockets, classes
    u32(payload, 2);                                       // batch
    u32(payload, 9);
    payload.push_back(1);
    for (int list = 0; list < 7; list++)
        u32(payload, 0);  // programs, chains, services, probes, reasons, literals, sources
    for (std::uint32_t v :
         {layout.state_offset, layout.state_size, layout.arg_bytes_offset, layout.arg_bytes_size, layout.out_offset,
          layout.out_size, layout.prefetch_offset, layout.prefetch_count, layout.total})
        u32(payload, v);
    u32(payload, 0);  // bounds
    Bytes file = {'C', 'I', 'O', 'S', 'P', 'E', 'C', 0};
    u32(file, 14);
    u32(file, static_cast<std::uint32_t>(24 + payload.size()));
    u32(file, crc32c(payload));
    u32(file, 0);
    file.insert(file.end(), payload.begin(), payload.end());
    auto artifact = deserialize(file);
    ASSERT_TRUE(artifact) << artifact.error();
    EXPECT_EQ(artifact->module.app, "app");
    EXPECT_EQ(artifact->module.batch.max, 9u);
    EXPECT_TRUE(artifact->module.batch.adapt);
    EXPECT_EQ(serialize(*artifact), file);
}

template <class Operation>
void expect_number(const std::string& page, const char* name) {
    Stmt stmt{{}, Operation{}};
    std::string row = "| " + std::to_string(stmt.node.index()) + " | " + name + " |";
    EXPECT_NE(page.find(row), std::string::npos) << row;
}

TEST(ArtifactPage, TheNumbersOfTheOperations) {
    std::ifstream in(CHAINIO_SOURCE_DIR "/docs/artifact.md");
    std::ostringstream text;
    text << in.rdbuf();
    std::string page = text.str();
    ASSERT_FALSE(page.empty());
    expect_number<Move>(page, "Move");
    expect_number<Select>(page, "Select");
    expect_number<GetArg>(page, "GetArg");
    expect_number<Load>(page, "Load");
    expect_number<CheckRange>(page, "CheckRange");
    expect_number<Varint>(page, "Varint");
    expect_number<Hash>(page, "Hash");
    expect_number<CopyToState>(page, "CopyToState");
    expect_number<EmitBytes>(page, "EmitBytes");
    expect_number<Next>(page, "Next");
    expect_number<Return>(page, "Return");
    expect_number<End>(page, "End");
    expect_number<Prefetch>(page, "Prefetch");
    expect_number<Reply>(page, "Reply");
    expect_number<Skip>(page, "Skip");
    expect_number<If>(page, "If");
    expect_number<Loop>(page, "Loop");
    EXPECT_EQ((Stmt{{}, Continue{}}.node.index()), 29u);
}

}  // namespace
}  // namespace chainio::ir::test
