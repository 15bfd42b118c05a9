#include "tools/chainio/store/index.h"

#include <algorithm>

namespace chainio::store {

std::expected<bool, std::string> IndexWriter::add(const Slot& slot) {
    const std::uint64_t bucket = bucket_of(slot.hash, buckets_);
    if (auto written = write_until(bucket); !written) return std::unexpected(written.error());
    if (slots_.size() == kSlots * (1 + kMostFurther)) return false;
    slots_.push_back(slot);
    items_++;
    return true;
}

std::expected<std::uint64_t, std::string> IndexWriter::finish() {
    if (auto written = write_until(buckets_); !written) return std::unexpected(written.error());
    if (auto written = writer_.flush(); !written) return std::unexpected(written.error());
    return at_ + (buckets_ + overflow_) * sizeof(Bucket);
}

Done IndexWriter::write_until(std::uint64_t bucket) {
    while (current_ < bucket) {
        if (auto written = write_bucket(); !written) return written;
    }
    return {};
}

// The current bucket, and behind all of them those that take what has no room in it.
Done IndexWriter::write_bucket() {
    std::size_t taken = 0;
    bool first = true;
    do {
        Bucket bucket;
        bucket.used = static_cast<std::uint16_t>(std::min(slots_.size() - taken, kSlots));
        std::copy_n(slots_.begin() + static_cast<std::ptrdiff_t>(taken), bucket.used, bucket.slots.begin());
        taken += bucket.used;
        const std::uint64_t number = first ? current_ : buckets_ + overflow_++;
        if (taken < slots_.size()) bucket.following = buckets_ + overflow_;
        bucket.crc = crc_of(bucket);
        const auto bytes = bytes_of(bucket);
        auto written = first ? writer_.add(bytes) : write_at(fd_, bytes, at_ + number * sizeof(Bucket));
        if (!written) return written;
        first = false;
    } while (taken < slots_.size());
    slots_.clear();
    current_++;
    return {};
}

}  // namespace chainio::store
