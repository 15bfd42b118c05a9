#include "tests/unit/ir/ir_fixture.h"

namespace chainio::ir::test {
namespace {

TEST(Dump, IsReadable) {
    Module m = module_with_step(step([](Builder& b) {
        Operand key = b.arg(0);
        b.check_range(Space::block, key, imm(8), CIO_MALFORMED);
        Operand v = b.load(Space::block, key, 4, true, true);
        b.if_(b.binary(BinOp::slt, v, imm(~std::uint64_t{0})), [&] { b.add(Fail{CIO_USER}); });
        b.loop(v, 4, CIO_OVERFLOW, [&](Operand i) { b.add(Next{0, 0, i, imm(512), imm(0)}); });
        b.add(EmitBytes{{Space::literal, imm(0), imm(3)}, 8, 64});
    }));
    EXPECT_EQ(dump(m), R"(app test
files 0 pages = "*.db"
batch min 1 max 64
reason 32 custom
literals "literal"
chain 0 c(db: file 0, key: u64 @0, name: bytes(max 32) @1) -> emitted(max 64) hops 8 slots 3 state 64
  entry program 0
  step 0 walk program 1
program 0 entry c.entry {
  next step 0 at 0 for 4096 in file 0 tag 0
}
program 1 step c.walk {
  %0 = arg 0
  check block[%0 +8] else malformed
  %1 = load i32be block[%0]
  %2 = slt %1, -1
  if %2 {
    fail custom
  }
  loop %3 < %1 max 4 else overflow {
    next step 0 at %3 for 512 in file 0 tag 0
  }
  emit literal[0 +3] max 8 limit 64
}
)");
}

}  // namespace
}  // namespace chainio::ir::test
