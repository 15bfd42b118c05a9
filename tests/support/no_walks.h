// Of a disk (runtime/shadow/disk.h) beside which nobody walks.
#pragma once
#include "runtime/shadow/disk.h"

namespace chainio::tests {

class NoWalks final : public shadow::ReadWatcher {
  public:
    std::uint32_t read_begins(const engine::ReadOp&) override { return 0; }
    void read_done(std::uint32_t, std::int32_t) override {}
    bool read_on_its_way(const engine::ReadOp&) const override { return false; }
    void read_in_memory(const engine::ReadOp&) override {}
    void read_at_once(const engine::ReadOp&) override {}
};

}  // namespace chainio::tests
