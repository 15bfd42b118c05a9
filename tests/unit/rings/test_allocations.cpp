// The program's own operators are the library's, too, so that what it asks for is counted. The sanitizers have theirs.
#include <cerrno>
#include <cstdlib>
#include <new>

#include "tests/unit/rings/ring_handle.h"

namespace {
thread_local unsigned long g_allocations = 0;
}

void* operator new(std::size_t size) {
    g_allocations++;
    if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace chainio::tests {
namespace {

TEST(Allocations, NothingIsAllocatedOnceItIsOpen) {
    const RingServer server(echo);
    Ring ring(server, 2);
    char room[8]{};
    chainio_ring_reply replies[2]{};
    ASSERT_GT(g_allocations, 0u);
    const unsigned long before = g_allocations;
    unsigned wrong = 0;
    for (int i = 0; i < 100; i++) {
        void* frame = chainio_ring_take(ring.ring);
        wrong += chainio_ring_submit(ring.ring, frame, 2, 1) != 0;
        wrong += chainio_ring_submit(ring.ring, frame, 2, 1) != -EINVAL;
        wrong += chainio_ring_call(ring.ring, "x", 1, room, sizeof room, kRingPatience) != 3;
        wrong += chainio_ring_call(ring.ring, "x", 1, room, 1, kRingPatience) != -EMSGSIZE;
        wrong += chainio_ring_reap(ring.ring, replies, 2, kRingPatience) != 1;
        wrong += chainio_ring_release(ring.ring, replies[0].frame) != 0;
        wrong += chainio_ring_fd(ring.ring) < 0;
    }
    const unsigned long after = g_allocations;
    EXPECT_EQ(after, before);
    EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace chainio::tests
