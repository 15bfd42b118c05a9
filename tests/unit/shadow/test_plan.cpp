// What a run has room for, and what is said of what it has none for.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/shadow/plan.h"

namespace chainio::shadow {
namespace {

using Refused = std::vector<std::string>;

// So many chains, each on reads of a class of its own, or on what waits on a socket of its own.
ir::Module module_of(unsigned count, ir::ChainMode mode = ir::ChainMode::on_read) {
    ir::Module module;
    module.app = "many";
    module.programs.emplace_back();
    for (unsigned i = 0; i < count; i++) {
        const std::string number = std::to_string(i);
        module.files.emplace_back().name = "f" + number;
        module.files.back().pattern = "*.f" + number;
        module.sockets.emplace_back().name = "s" + number;
        ir::Chain chain;
        chain.name = "c" + number;
        chain.mode = mode;
        chain.source = static_cast<std::uint16_t>(i);
        chain.shadow = 0;
        module.chains.push_back(std::move(chain));
    }
    return module;
}

std::string why_none(const ir::Module& module) {
    const auto plan = plan_of(module);
    return plan ? "" : plan.error();
}

TEST(Plan, HasRoomForSoManyChains) {
    ir::Module module = module_of(129);
    for (ir::Chain& chain : module.chains) chain.source = 0;
    const auto plan = plan_of(module);
    ASSERT_TRUE(plan) << plan.error();
    EXPECT_EQ(plan->chains.size(), 128u);
    EXPECT_EQ(plan->refused, Refused{"chain 'c128': a run has at most 128 shadow chains"});
}

TEST(Plan, HasRoomForSoManyClasses) {
    const auto plan = plan_of(module_of(65));
    ASSERT_TRUE(plan) << plan.error();
    EXPECT_EQ(plan->chains.size(), 64u);
    EXPECT_EQ(plan->refused, Refused{"chain 'c64': a run looks at no more than 64 file classes"});
}

TEST(Plan, HasRoomForSoManySockets) {
    const auto plan = plan_of(module_of(33, ir::ChainMode::on_ready));
    ASSERT_TRUE(plan) << plan.error();
    EXPECT_EQ(plan->chains.size(), 32u);
    EXPECT_EQ(plan->refused, Refused{"chain 'c32': a run looks at no more than 32 sockets"});
}

TEST(Plan, TakesPatternsOfSoManyBytes) {
    ir::Module module = module_of(1);
    module.files[0].pattern = std::string(511, 'f');
    EXPECT_EQ(why_none(module), "");
    module.files[0].pattern += 'f';
    EXPECT_EQ(why_none(module),
              "no shadow chain of the spec can run here; chain 'c0': the pattern of files 'f0' is longer than 511 "
              "bytes; shorten it");
}

TEST(Plan, TakesSoManyProgramsByName) {
    ir::Module module = module_of(1);
    module.match_exe.assign(16, std::string(511, 'p'));
    EXPECT_EQ(why_none(module), "");
    module.match_exe.back() += 'p';
    EXPECT_EQ(why_none(module), "`match exe` of app 'many' is longer than 511 bytes; shorten it");
    module.match_exe.assign(17, "p");
    EXPECT_EQ(why_none(module), "app 'many' matches more than 16 programs by name; use a glob");
}

}  // namespace
}  // namespace chainio::shadow
