// Vectors of zeros that take room only where they are touched: what is large and mostly unused costs nothing to make.
#pragma once
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace chainio::umem {

template <typename T>
struct ZeroedAllocator {
    static_assert(std::is_trivially_destructible_v<T>);
    using value_type = T;
    ZeroedAllocator() = default;
    template <typename U>
    explicit ZeroedAllocator(const ZeroedAllocator<U>&) {}

    T* allocate(std::size_t count) {
        // Large ones are pages that the kernel hands out when they are first touched.
        void* at = std::calloc(count, sizeof(T));
        if (at == nullptr) throw std::bad_alloc();
        return static_cast<T*>(at);
    }
    void deallocate(T* at, std::size_t) { std::free(at); }
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
