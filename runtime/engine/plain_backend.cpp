#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "runtime/engine/backend.h"
#include "runtime/engine/pread.h"

namespace chainio::engine {
namespace {

class PlainBackend final : public Backend {
  public:
    PlainBackend(unsigned file_slots, metrics::EngineCounters& counters) : counters_(counters), fds_(file_slots, -1) {
        queue_.reserve(kDepth);
    }
    std::string describe() const override { return "pread, one at a time"; }
    unsigned capacity() const override { return kDepth; }
    bool add_file(std::uint32_t slot, int fd) override {
        fds_[slot] = fd;
        return true;
    }
    void remove_file(std::uint32_t slot) override { fds_[slot] = -1; }
    void push(const ReadOp& op) override { queue_.push_back(op); }

    int enter(unsigned, std::span<ReadDone> done) override {
        const std::size_t count = std::min(done.size(), queue_.size());
        counters_.plain_reads += count;
        for (std::size_t i = 0; i < count; i++) done[i] = {queue_[i].token, read_now(queue_[i], false)};
        queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count));
        return static_cast<int>(count);
    }

    std::int32_t read_now(const ReadOp& op, bool only_cached) override {
        return pread_now(fds_[op.file], op, only_cached, counters_);
    }

  private:
    static constexpr unsigned kDepth = 64;
    metrics::EngineCounters& counters_;
    std::vector<int> fds_;
    std::vector<ReadOp> queue_;
};

}  // namespace

std::int32_t pread_now(int fd, const ReadOp& op, bool only_cached, metrics::EngineCounters& counters) {
    counters.syscalls++;
    iovec vector{op.data, op.length};
    const ssize_t result = only_cached ? preadv2(fd, &vector, 1, static_cast<off_t>(op.offset), RWF_NOWAIT)
                                       : pread(fd, op.data, op.length, static_cast<off_t>(op.offset));
    return result < 0 ? -errno : static_cast<std::int32_t>(result);
}

std::unique_ptr<Backend> make_plain_backend(unsigned file_slots, metrics::EngineCounters& counters) {
    return std::make_unique<PlainBackend>(file_slots, counters);
}

}  // namespace chainio::engine
