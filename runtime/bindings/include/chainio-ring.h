/* SPDX-License-Identifier: BSD-2-Clause */
/* libchainio-ring: ask a service of a running chainio-runtime over shared memory (its --rings PATH). A handle belongs to one
 * thread at a time; different handles are independent. After fork(2) either the parent or the child goes on with a handle; the
 * other one may only close it. Functions return 0 or a count, or a negative errno; chainio_ring_error() then says what went
 * wrong and what to do. Structs that may grow begin with `size`, which the caller sets to sizeof. Nothing is allocated after
 * chainio_ring_open(). All of it has a man page, chainio_ring(3). */
#ifndef CHAINIO_RING_H
#define CHAINIO_RING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CHAINIO_RING_API __attribute__((visibility("default")))

typedef struct chainio_ring chainio_ring;

struct chainio_ring_options {
	size_t size;
	uint32_t in_flight; /* requests at once, each with a frame of shared memory; at most 1,024; 0: 64 */
	uint32_t longest;   /* bytes of a request or a reply, rounded up to a power of two, 512 to 131,072; 0: 65,536 */
	uint32_t spin_us;   /* looks that many microseconds (at most 1,000,000) for replies before it sleeps; 0: sleeps at once */
	uint32_t open_ms;   /* milliseconds that chainio_ring_open() waits for the server, each time that it has to; 0: 10,000 */
};

struct chainio_ring_reply {
	uint64_t user_data; /* as it was submitted */
	const void *bytes;  /* in `frame`; NULL: the server has given no reply. Not NULL where the reply is empty */
	size_t length;      /* of `bytes` */
	void *frame;        /* the caller's, to be released or to be submitted again. The server can still write there: who does not
	                       trust it copies first */
	uint64_t reserved[2];
};

/* Meets the server of a Unix socket, and shares memory with it. Waits for at most options->open_ms for the server to let it in,
 * and to answer. Where it fails, *out is NULL, and chainio_ring_error(NULL) says why. */
CHAINIO_RING_API int chainio_ring_open(const char *path, const char *service, const struct chainio_ring_options *options,
				       chainio_ring **out);
/* The server gives up what is on its way. NULL does nothing. */
CHAINIO_RING_API void chainio_ring_close(chainio_ring *ring);
/* What the last failing call with this handle said, valid until the next one; with NULL, the last failing open of this thread,
 * or call of it whose handle was NULL. Never NULL. */
CHAINIO_RING_API const char *chainio_ring_error(const chainio_ring *ring);

/* Bytes of a frame: at least those that were asked for. */
CHAINIO_RING_API size_t chainio_ring_longest(const chainio_ring *ring);
/* Requests that were submitted and whose replies were not reaped. */
CHAINIO_RING_API uint32_t chainio_ring_in_flight(const chainio_ring *ring);

/* A frame to write a request into, of chainio_ring_longest() bytes; NULL: all are on their way, or with the caller. */
CHAINIO_RING_API void *chainio_ring_take(chainio_ring *ring);
/* Hands the first `bytes` bytes of a frame over, which was taken or came with a reply. Does not wait. Until its reply is reaped
 * the frame is the server's. */
CHAINIO_RING_API int chainio_ring_submit(chainio_ring *ring, void *frame, size_t bytes, uint64_t user_data);
/* Waits for at most `timeout_ms` milliseconds (0: not at all; below 0: without end) until replies have come, and returns how many,
 * at most `most`, were written to `replies`. They come in the order in which they are ready. 0: none came in time, or none is on
 * its way. -EPIPE: the server is gone, and what it had answered before was reaped. -EPROTO: it has broken the protocol. */
CHAINIO_RING_API int chainio_ring_reap(chainio_ring *ring, struct chainio_ring_reply *replies, uint32_t most, int timeout_ms);
/* Gives back a frame that was taken, or came with a reply. */
CHAINIO_RING_API int chainio_ring_release(chainio_ring *ring, void *frame);
/* A request and its reply, which is copied; gives its length. May be called while others are on their way, whose replies then are
 * there to be reaped. -ENOMSG: the server has given no reply. -EMSGSIZE: the request is longer than a frame, or the reply, which is
 * lost then, is longer than `room`. -ETIMEDOUT: none came in time; one that comes later is thrown away. -EBUSY: no frame is free. */
CHAINIO_RING_API long chainio_ring_call(chainio_ring *ring, const void *request, size_t bytes, void *reply, size_t room,
					int timeout_ms);
/* A descriptor for poll(2) or epoll(7), which is the handle's, and readable (POLLIN) where replies can be reaped, or the server is
 * gone. It may be readable without either: a chainio_ring_reap() that finds nothing ends that. To be asked for before it is waited
 * for, once: from then on the server wakes whoever waits there. */
CHAINIO_RING_API int chainio_ring_fd(chainio_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
