// Vectors of zeros that take room only where they are touched: what is large and mostly unused costs nothing to make.
#pragma once
#include <sys/mman.h>

#include <cstdlib>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace chainio::umem {

// From so many bytes on they are pages of their own, which the kernel hands out when they are first touched: what
// malloc has had before it hands out again, and clears whole. Under AddressSanitizer, which sees no bounds there,
// never.
#if __has_feature(address_sanitizer)
inline constexpr std::size_t kOwnPages = std::numeric_limits<std::size_t>::max();
#else
inline constexpr std::size_t kOwnPages = 65'536;
#endif

template <typename T>
struct ZeroedAllocator {
    static_assert(std::is_trivially_destructible_v<T>);
    using value_type = T;
    ZeroedAllocator() = default;
    template <typename U>
    explicit ZeroedAllocator(const ZeroedAllocator<U>&) {}

    T* allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
        void* at = is_large(count)
                       ? ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                       : std::calloc(count, sizeof(T));
        if (at == nullptr || at == MAP_FAILED) throw std::bad_alloc();
        return static_cast<T*>(at);
    }
    void deallocate(T* at, std::size_t count) {
        if (is_large(count)) {
            ::munmap(at, count * sizeof(T));
        } else {
            std::free(at);
        }
    }
    static bool is_large(std::size_t count) { return count * sizeof(T) >= kOwnPages; }
    // An element without a value is what calloc made of it.
    template <typename U>
    void construct(U*) {}
    template <typename U, typename... Args>
    void construct(U* at, Args&&... args) {
        ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
    }
    bool operator==(const ZeroedAllocator&) const = default;
};

// Elements are all zero at first, whatever their members' initializers say; not to be made longer.
template <typename T>
using ZeroedVector = std::vector<T, ZeroedAllocator<T>>;

}  // namespace chainio::umem
