// Latencies in log-linear buckets: 32 steps a power of two, so that every value is known to about 3 %, in fixed memory.
#pragma once
#include <array>
#include <cstdint>

namespace chainio::metrics {

class Histogram {
  public:
    void record(std::uint64_t value) {
        counts_[bucket(value)]++;
        count_++;
        sum_ += value;
        if (value > max_) max_ = value;
        if (value < min_) min_ = value;
    }
    void merge(const Histogram& other);
    std::uint64_t count() const { return count_; }
    std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
    std::uint64_t max() const { return max_; }
    std::uint64_t sum() const { return sum_; }
    // Of each bucket with records, in order: the largest value in it, and how many records it has.
    template <class See>
    void for_each_bucket(See see) const {
        for (unsigned i = 0; i < kBuckets; i++)
            if (counts_[i] != 0) see(bucket_end(i), counts_[i]);
    }
    double mean() const { return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_); }
    // The value that `percent` (0 … 100) of all records do not exceed, rounded up to its bucket's end, at most max().
    std::uint64_t percentile(double percent) const;

    static constexpr unsigned kSubBits = 5;
    static constexpr unsigned kBuckets = (64 - kSubBits + 1) << kSubBits;
    static unsigned bucket(std::uint64_t value);
    static std::uint64_t bucket_end(unsigned bucket);  // the largest value in it

  private:
    std::array<std::uint64_t, kBuckets> counts_{};
    std::uint64_t count_ = 0, sum_ = 0, max_ = 0, min_ = UINT64_MAX;
};

}  // namespace chainio::metrics
