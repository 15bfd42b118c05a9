// BPF has 512 bytes of stack for all calls together: what a handler needs of it, with the loop around it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "compiler/backends/bpf_object.h"
#include "tests/unit/service/compiled.h"

namespace chainio::service {
namespace {

constexpr std::uint32_t kMost = 512;

std::uint32_t deepest(std::span<const std::uint8_t> object) {
    const auto read = backends::read_bpf_object(object);
    EXPECT_TRUE(read) << read.error();
    if (!read) return UINT32_MAX;
    return std::ranges::max(backends::stack_depths(*read));
}

// So many values, all of which are needed until the end.
std::string of_values(unsigned count) {
    std::string values, sum, replies;
    for (unsigned i = 0; i < count; i++) {
        values += fmt::format("    let w{0} = request.a[{0}] as u64 * {1}\n", i, i + 3);
        sum += fmt::format("{}w{}", i == 0 ? "" : " + ", i);
        replies += fmt::format("    reply (w{0} + t):u64le (w{0} ^ t):u64le\n", i);
    }
    return fmt::format(R"(
files values = "*.idx"
chain get(store: file values, key: u64) -> u64 hops 1 {{ step s(b: block at 0 for 16 in store) {{ return key }} }}
service s on tcp 9000 via auto {{
  request {{ n: u8  a: u8[{}] }}
  on request {{
    let v = get(values["a"], request.n as u64) else fail not_found
{}    let t = {} + v
{}  }}
  on failure {{ reply "sorry" }}
}}
)",
                       count, values, sum, replies);
}

TEST(Stack, HandlersInTheKernelNeedLittleOfIt) {
    std::uint32_t few = 0;
    for (const unsigned count : {1u, 60u, 200u}) {
        const auto spec = compiled(of_values(count).c_str());
        ASSERT_FALSE(spec->serve_object().empty());
        const std::uint32_t here = deepest(spec->serve_object());
        EXPECT_LE(here, kMost) << count;
        if (few == 0) few = here;
        EXPECT_EQ(here, few) << count;
    }
}

}  // namespace
}  // namespace chainio::service
