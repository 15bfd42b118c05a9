// Whether the programs' reads of a `no_read_ahead` class are better off without what the kernel reads ahead. They are
// where chains bring what comes next, and where nothing comes next. They are not where a program goes through a file in
// pieces of which no chain speaks: there each read waits that the kernel would have had in memory.
//
// The latest kWindow reads that tell something are counted. Of kMostLeft and more that were left alone like that, the
// kernel reads ahead again for a pause, which doubles each time from kFirstPause up to kLongestPause, and begins anew
// once kWindow reads have not ended in another.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace chainio::shadow {

class Advice {
  public:
    static constexpr unsigned kWindow = 32, kMostLeft = 24;
    static constexpr std::uint64_t kFirstPause = 1'000'000'000, kLongestPause = 64'000'000'000;  // ns

    bool is_good(std::uint64_t now_ns) const { return now_ns >= until_ns_; }
    // A read that waited, began where the latest one of its file had ended, and found nothing fetched.
    void left_alone(std::uint64_t now_ns) { count(true, now_ns); }
    // One that was helped, or that began elsewhere: what the kernel had read behind the latest was for nothing.
    void needs_none(std::uint64_t now_ns) { count(false, now_ns); }

  private:
    void count(bool left, std::uint64_t now_ns) {
        if (!is_good(now_ns)) return;
        history_ = history_ << 1 | (left ? 1u : 0u);
        reads_++;
        if (reads_ >= kWindow && static_cast<unsigned>(std::popcount(history_)) >= kMostLeft) {
            until_ns_ = now_ns + pause_ns_;
            pause_ns_ = std::min(pause_ns_ * 2, kLongestPause);
            history_ = 0;
            reads_ = 0;
        } else if (reads_ > 2 * kWindow) {
            pause_ns_ = kFirstPause;
            reads_ = kWindow;
        }
    }

    std::uint32_t history_ = 0;  // one bit a read, the latest lowest
    unsigned reads_ = 0;
    std::uint64_t until_ns_ = 0, pause_ns_ = kFirstPause;
};
static_assert(Advice::kWindow == 32);  // the bits of history_

}  // namespace chainio::shadow
