// The windows in which the kernel reads ahead of who goes through a file from its beginning on. The first page that is
// read brings a few behind it. One of these is marked: when it is read, the next window begins, which is larger, and
// consists of larger pieces of memory (folios), if the file system knows those. What readahead(2) brings are single
// pages, each of which is a piece of its own to a device, too: a virtio disk without indirect descriptors takes 256 of
// them at a time, which is 1 MiB then.
//
// How large a window is at most follows from the one before. Some kernels (6.18) end it earlier, where a piece ends:
// how large it is they are to be asked.
#pragma once
#include <algorithm>
#include <cstdint>

namespace chainio::shadow {

class Windows {
  public:
    static constexpr std::uint64_t kLeast = 32;  // pages; where the kernel reads less ahead they hardly grow

    // `most`: how far the kernel reads ahead. `first`: of the first window, which has begun. All in pages.
    Windows(std::uint64_t most, std::uint64_t first) : most_(most), size_(first), end_(first) {}

    std::uint64_t mark() const { return mark_; }  // the page whose reading begins the next window
    std::uint64_t end() const { return end_; }    // of the latest one
    // Of the next one, at most.
    std::uint64_t next_end() const {
        if (size_ < most_ / 16) return end_ + 4 * size_;
        return end_ + (size_ <= most_ / 2 ? 2 * size_ : std::max(most_, size_));
    }
    // It has begun, and ends there.
    void grow(std::uint64_t end) {
        size_ = end - end_;
        mark_ = end_;
        end_ = end;
    }

  private:
    std::uint64_t most_, size_, end_, mark_ = 1;
};

}  // namespace chainio::shadow
