#include "runtime/metrics/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace chainio::metrics {

unsigned Histogram::bucket(std::uint64_t value) {
    const auto width = static_cast<unsigned>(std::bit_width(value));
    if (width <= kSubBits) return static_cast<unsigned>(value);
    const unsigned shift = width - kSubBits - 1;
    return (shift << kSubBits) + static_cast<unsigned>(value >> shift);
}

std::uint64_t Histogram::bucket_end(unsigned bucket) {
    if (bucket < (2u << kSubBits)) return bucket;
    const unsigned shift = (bucket >> kSubBits) - 1;
    const std::uint64_t top = (bucket & ((1u << kSubBits) - 1)) + (1u << kSubBits);
    return ((top + 1) << shift) - 1;
}

void Histogram::merge(const Histogram& other) {
    for (unsigned i = 0; i < kBuckets; i++) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
    min_ = std::min(min_, other.min_);
}

std::uint64_t Histogram::percentile(double percent) const {
    if (count_ == 0) return 0;
    const double share = percent > 0 ? std::min(percent, 100.0) / 100.0 : 0;  // what is no number is 0 as well
    const double wanted = std::ceil(share * static_cast<double>(count_));
    const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < kBuckets; i++) {
        seen += counts_[i];
        if (seen >= rank) return std::min(bucket_end(i), max_);
    }
    return max_;
}

}  // namespace chainio::metrics
