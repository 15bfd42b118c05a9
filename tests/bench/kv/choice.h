// Which item comes next: all alike, or a few far more often than the others (Zipf, exponent 0.99).
#pragma once
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/bench/kv/bench_kv.h"

namespace chainio::bench_kv {

class Choice {
  public:
    Choice(std::uint32_t count, std::uint32_t hot, std::uint64_t seed) : count_(count), random_(seed) {
        double sum = 0;
        for (std::uint32_t i = 0; i < hot; i++) shares_.push_back(sum += 1 / std::pow(i + 1, 0.99));
    }
    std::uint32_t next() {
        if (shares_.empty()) return static_cast<std::uint32_t>(random_() % count_);
        const double at = std::uniform_real_distribution<double>(0, shares_.back())(random_);
        const auto rank = std::lower_bound(shares_.begin(), shares_.end(), at) - shares_.begin();
        return static_cast<std::uint32_t>(mixed(static_cast<std::uint64_t>(rank)) % count_);
    }
    std::uint64_t gap_ns(double rate) {
        return static_cast<std::uint64_t>(std::exponential_distribution<double>(rate)(random_) * 1e9);
    }

  private:
    std::uint32_t count_;
    std::mt19937_64 random_;
    std::vector<double> shares_;
};

}  // namespace chainio::bench_kv
