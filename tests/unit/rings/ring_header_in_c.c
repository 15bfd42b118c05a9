/* The header must be plain C, and the layouts that programs are built with must not change. */
#include <chainio-ring.h>

_Static_assert(sizeof(struct chainio_ring_reply) == 48, "chainio_ring_reply is part of the ABI");
_Static_assert(offsetof(struct chainio_ring_reply, frame) == 24, "chainio_ring_reply is part of the ABI");
_Static_assert(sizeof(struct chainio_ring_options) >= 24, "chainio_ring_options only grows");

size_t chainio_ring_header(void);
size_t chainio_ring_header(void) { return chainio_ring_longest(NULL); }
