#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "runtime/metrics/fallbacks.h"
#include "runtime/metrics/histogram.h"
#include "tests/support/soak.h"

namespace chainio::metrics {
namespace {

TEST(Histogram, EveryValueLiesInItsBucketAndBucketsGrow) {
    std::uint64_t last_end = 0;
    for (unsigned bucket = 0; bucket < Histogram::kBuckets; bucket++) {
        const std::uint64_t end = Histogram::bucket_end(bucket);
        EXPECT_EQ(Histogram::bucket(end), bucket);
        if (bucket > 0) {
            EXPECT_GT(end, last_end);
            EXPECT_EQ(Histogram::bucket(last_end + 1), bucket);
        }
        last_end = end;
    }
    EXPECT_EQ(last_end, UINT64_MAX);
}

TEST(Histogram, PercentilesAreWithinThreePercentOfTheSortedValues) {
    std::mt19937_64 random(tests::soak_seed());
    Histogram histogram;
    std::vector<std::uint64_t> values;
    for (int i = 0; i < 20000; i++) {
        values.push_back(random() >> (random() % 60));
        histogram.record(values.back());
    }
    std::sort(values.begin(), values.end());
    for (const double percent : {0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
        const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(percent / 100 * 20000)));
        const std::uint64_t exact = values[rank - 1], got = histogram.percentile(percent);
        EXPECT_GE(got, exact);
        EXPECT_LE(static_cast<double>(got), static_cast<double>(exact) * 1.032 + 1);
    }
    EXPECT_EQ(histogram.max(), values.back());
    EXPECT_EQ(histogram.min(), values.front());
    EXPECT_EQ(histogram.percentile(100), values.back());
    EXPECT_EQ(histogram.percentile(std::nan("")), histogram.percentile(0));
}

TEST(Histogram, APercentileOfFewIsTheLeastThatSoManyReach) {
    Histogram histogram;
    for (const std::uint64_t value : {1, 2, 3}) histogram.record(value);
    EXPECT_EQ(histogram.percentile(0), 1u) << "and the least of all is one of them";
    EXPECT_EQ(histogram.percentile(33), 1u);
    EXPECT_EQ(histogram.percentile(34), 2u);
    EXPECT_EQ(histogram.percentile(50), 2u);
    EXPECT_EQ(histogram.percentile(67), 3u);
}

TEST(Histogram, MergingEqualsRecordingBoth) {
    Histogram a, b, both;
    for (std::uint64_t i = 0; i < 1000; i++) {
        (i % 3 == 2 ? a : b).record(i * i);
        both.record(i * i);
    }
    a.merge(b);
    EXPECT_EQ(a.count(), both.count());
    EXPECT_EQ(a.mean(), both.mean());
    EXPECT_EQ(a.max(), both.max());
    EXPECT_EQ(a.min(), both.min()) << "which is one of those that were merged into it";
    for (const double percent : {1.0, 50.0, 99.0}) EXPECT_EQ(a.percentile(percent), both.percentile(percent));
}

TEST(Histogram, IsZeroWithoutValues) {
    const Histogram histogram;
    EXPECT_EQ(histogram.percentile(50), 0u);
    EXPECT_EQ(histogram.min(), 0u);
    EXPECT_EQ(histogram.mean(), 0.0);
}

TEST(Fallbacks, OfOneNameHaveSoManyReasonsAndNoMore) {
    Fallbacks fallbacks;
    for (int round = 0; round < 2; round++) {
        for (std::size_t i = 0; i < 3 * Fallbacks::kMostReasons; i++) fallbacks.note("path", std::to_string(i));
    }
    fallbacks.note("other", "x");
    ASSERT_EQ(fallbacks.all().size(), Fallbacks::kMostReasons + 2);
    EXPECT_EQ(fallbacks.all()[0].count, 2u);
    EXPECT_EQ(fallbacks.all()[Fallbacks::kMostReasons].reason, Fallbacks::kOtherReasons);
    EXPECT_EQ(fallbacks.all()[Fallbacks::kMostReasons].count, 4 * Fallbacks::kMostReasons);
    EXPECT_EQ(fallbacks.count("path"), 6 * Fallbacks::kMostReasons);
}

TEST(Fallbacks, AreCountedByNameAndReason) {
    Fallbacks fallbacks;
    fallbacks.note("a", "first");
    fallbacks.note("a", "first", 2);
    fallbacks.note("a", "second");
    EXPECT_EQ(fallbacks.count("a"), 4u);
    EXPECT_EQ(fallbacks.count("b"), 0u);
    ASSERT_EQ(fallbacks.all().size(), 2u);
    EXPECT_EQ(fallbacks.all()[0].count, 3u);
    fallbacks.note("b", "third");
    EXPECT_EQ(fallbacks.last_reason("a"), "second");
    EXPECT_EQ(fallbacks.last_reason("c"), "");
}

}  // namespace
}  // namespace chainio::metrics
