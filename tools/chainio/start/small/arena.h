// Memory that a program has from its start. musl maps pages for each size of allocation and gives them back at once,
// which was a third of what the launcher does itself.
#pragma once
#include <cstddef>
#include <functional>

namespace chainio::start {

template <std::size_t Bytes>
class Arena {
  public:
    // As aligned as anything from malloc, and nobody else's place, also of no bytes; null where there is no room left
    // for `size` bytes.
    void* take(std::size_t size) {
        if (used_ == sizeof bytes_ || size > sizeof bytes_ - used_) return nullptr;
        last_ = used_;
        used_ += size == 0 ? kAlign : (size + kAlign - 1) / kAlign * kAlign;
        return bytes_ + last_;
    }
    // Whether `at` is of this memory. It can be taken again if nothing was taken since.
    bool give_back(void* at) {
        const std::less<const void*> before;
        if (before(at, bytes_) || !before(at, bytes_ + sizeof bytes_)) return false;
        if (at == bytes_ + last_) used_ = last_;
        return true;
    }

  private:
    static constexpr std::size_t kAlign = alignof(std::max_align_t);
    static_assert(Bytes % kAlign == 0);
    alignas(kAlign) std::byte bytes_[Bytes]{};
    std::size_t used_ = 0, last_ = 0;
};

}  // namespace chainio::start
