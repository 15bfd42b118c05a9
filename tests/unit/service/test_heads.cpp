// Which beginnings of a reply's datagrams are known to have one length, so that not each of them is made to find the
// longest.
#include <gtest/gtest.h>

#include <string>

#include "compiler/ir/datagram_heads.h"
#include "tests/unit/service/compiled.h"

namespace chainio::service {
namespace {

bool alike(const std::string& on_datagram) {
    const std::string spec = R"(
record Frame { id: u16be  parts: u16be == 1 }
service s on udp 9000 via uring {
  request { frame: Frame  n: u8  name: bytes(8) }
  on request { reply "yes" }
  on datagram { )" + on_datagram +
                             " }\n}\n";
    const ir::Artifact artifact = lowered(spec.c_str());
    const auto program = static_cast<std::size_t>(artifact.module.services[0].on_datagram);
    return ir::heads_are_alike(artifact.module.programs[program]);
}

TEST(Heads, AreAlikeWhereNumbersHaveTheirWidth) {
    EXPECT_TRUE(alike("reply request.frame.id:u16be datagram.number:u16be datagram.count:u16be 0:u16be"));
    EXPECT_TRUE(alike("reply \"a\" (datagram.number * 2 + 1):u32le"));
    EXPECT_TRUE(alike("reply request.n:dec \" \" request.name datagram.count:u8"));
    EXPECT_TRUE(alike("let last = datagram.number + 1 == datagram.count  reply (last ? 1 : 0):u8"));
}

TEST(Heads, MayDifferWhereADatagramsNumberSaysSo) {
    EXPECT_FALSE(alike("reply datagram.number:dec"));
    EXPECT_FALSE(alike("reply (datagram.count - datagram.number):hex"));
    EXPECT_FALSE(alike("if datagram.number == 0 { reply \"first\" }  reply 1:u8"));
    EXPECT_FALSE(alike("if request.n == 1 { reply datagram.number:dec }  reply 1:u8"));
    EXPECT_FALSE(alike("reply request.name[0..datagram.number & 7]"));
    EXPECT_FALSE(alike("reply request.name[datagram.number & 7]:dec"));
    EXPECT_FALSE(alike("for i in range(0, datagram.count) max 9 { reply i:u8 }"));
}

}  // namespace
}  // namespace chainio::service
