// A disk in memory that does what disks and kernels do: completes out of order, reads short, interrupts, fails in
// places.
#pragma once
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "runtime/engine/backend.h"

namespace chainio::engine::test {

struct FakeDisk {
    std::vector<std::vector<std::uint8_t>> files;
    std::set<std::pair<std::uint32_t, std::uint64_t>> bad;  // (file, 64-byte cell) that cannot be read
    unsigned short_percent = 0, interrupt_percent = 0, cached_percent = 0;
    unsigned capacity = 64;
    unsigned enters_left = 0;  // until the kernel refuses all, that one too; 0: it never does
    std::uint32_t align = 1;

    bool is_bad(std::uint32_t file, std::uint64_t offset, std::uint64_t length) const {
        const auto it = bad.lower_bound({file, offset / 64});
        return it != bad.end() && it->first == file && it->second * 64 < offset + length;
    }
    std::int64_t read(std::uint32_t file, std::uint64_t offset, std::uint8_t* out, std::uint64_t length) const {
        if (is_bad(file, offset, length)) return -EIO;
        const auto& bytes = files[file];
        if (offset >= bytes.size()) return 0;
        const std::uint64_t count = std::min<std::uint64_t>(length, bytes.size() - offset);
        std::memcpy(out, bytes.data() + offset, count);
        return static_cast<std::int64_t>(count);
    }
};

struct FakeContext {
    FakeDisk* disk;
    std::uint64_t seed;
    std::vector<std::uint64_t> order;  // offsets, as they were pushed
    bool removed_in_use = false;       // a file of which reads were under way
};

class FakeBackend final : public Backend {
  public:
    explicit FakeBackend(FakeContext& context) : context_(context), disk_(*context.disk), random_(context.seed) {}
    std::string describe() const override { return "a disk in memory"; }
    unsigned capacity() const override { return disk_.capacity; }
    bool add_file(std::uint32_t slot, int) override { return slot < disk_.files.size(); }
    void remove_file(std::uint32_t slot) override {
        for (const ReadOp& op : queue_) context_.removed_in_use = context_.removed_in_use || op.file == slot;
    }
    void push(const ReadOp& op) override {
        context_.order.push_back(op.offset);
        queue_.push_back(op);
    }

    int enter(unsigned wait_for, std::span<ReadDone> done) override {
        if (disk_.enters_left != 0 && --disk_.enters_left == 0) {
            disk_.enters_left = 1;
            return -ENOMEM;
        }
        std::shuffle(queue_.begin(), queue_.end(), random_);
        std::size_t count = queue_.empty() ? 0 : random_() % (queue_.size() + 1);
        count = std::min({std::max<std::size_t>(count, wait_for), queue_.size(), done.size()});
        for (std::size_t i = 0; i < count; i++) {
            done[i] = {queue_.back().token, answer(queue_.back())};
            queue_.pop_back();
        }
        return static_cast<int>(count);
    }

    std::int32_t read_now(const ReadOp& op, bool only_cached) override {
        if (only_cached && !chance(disk_.cached_percent)) return -EAGAIN;
        return answer(op);
    }

  private:
    bool chance(unsigned percent) { return random_() % 100 < percent; }
    std::int32_t answer(const ReadOp& op) {
        if (chance(disk_.interrupt_percent)) return chance(50) ? -EINTR : -EAGAIN;
        std::uint64_t length = op.length;
        // A device cuts a direct read at its own block size, a buffered one anywhere.
        if (length > disk_.align && chance(disk_.short_percent))
            length = (1 + random_() % (length / disk_.align)) * disk_.align;
        if (disk_.is_bad(op.file, op.offset, op.length)) return -EIO;
        return static_cast<std::int32_t>(
            disk_.read(op.file, op.offset, op.data, std::min<std::uint64_t>(length, op.length)));
    }

    FakeContext& context_;
    FakeDisk& disk_;
    std::mt19937_64 random_;
    std::vector<ReadOp> queue_;
};

inline std::unique_ptr<Backend> make_fake(void* context, umem::Slab&, metrics::EngineCounters&) {
    return std::make_unique<FakeBackend>(*static_cast<FakeContext*>(context));
}

}  // namespace chainio::engine::test
