// Who owns a frame of an engine: a chain in flight (its number + 1), the device while nobody waits for it, or a block
// cache.
#pragma once
#include "runtime/umem/slab.h"

namespace chainio::engine {

inline constexpr umem::Owner kOrphanOwner = 0x7fffffff;
inline constexpr umem::Owner kCacheOwner = 0x80000000;  // + file class
inline constexpr umem::Owner kHandedOut = 0xe0000000;   // whoever got it by keep() or take_frame(), and releases it

}  // namespace chainio::engine
