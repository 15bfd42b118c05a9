/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel engine's loop shares with the runtime when it answers the requests of services: one struct cio_conn for each
 * connection, beside the flight of the same number that runs its chains, and the tables that say what its requests run. All of it
 * lies in the ring's region, behind what chainio_loop.h describes. */
#ifndef CHAINIO_SERVE_H
#define CHAINIO_SERVE_H

#ifndef CIO_HAVE_TYPES
#include "bpf-templates/chainio_loop.h"
#endif

#define CIO_SERVE_SERVICES 8
#define CIO_SERVE_SITES 64   /* calls of chains that handlers have */
#define CIO_SERVE_HEADERS 32 /* argument slots that a file's header fills */
#define CIO_SERVE_PAD 262144 /* readable behind the last frame, as each of a turn's four blocks may begin at any place in its frame */

/* Of an operation's user_data: bits 0 to 31 are the connection or the service, bits 32 to 39 an enum cio_serve_op. */
#define CIO_SERVE_TOKEN (1ull << 63)
enum cio_serve_op {
	CIO_SERVE_ACCEPT = 0,
	CIO_SERVE_RECEIVE = 1,
	CIO_SERVE_SEND = 2,
	CIO_SERVE_SHUTDOWN = 3,
	CIO_SERVE_CLOSE = 4,
	CIO_SERVE_CANCEL = 5,
	CIO_SERVE_TIMEOUT = 6, /* the time limit of the operation before it */
	CIO_SERVE_CONTROL = 7, /* somebody wrote to the descriptor that ends the system call */
	CIO_SERVE_SEND_ZERO_COPY = 8, /* comes back twice: sent, and no longer looked at */
};

enum cio_conn_state {
	CIO_CONN_FREE = 0,
	CIO_CONN_RECEIVE = 1, /* waits for the rest of a request, or for one */
	CIO_CONN_RUN = 2,     /* its request runs: the handler, or the chain that it called */
	CIO_CONN_SEND = 3,
	CIO_CONN_TELL = 4,   /* everything is sent: the peer is told */
	CIO_CONN_LINGER = 5, /* what the peer still sends is thrown away until it closes */
	CIO_CONN_CLOSE = 6,
	CIO_CONN_CANCEL = 7, /* it waits for a request, and is to end: the receive is called back */
};

/* Why a request's reply is what it is. */
enum cio_conn_ending { CIO_CONN_ANSWERED = 0, CIO_CONN_MALFORMED = 1, CIO_CONN_FAILED = 2 };

struct cio_conn {
	__u32 state, service;
	__u32 in_from, in_to;   /* received bytes whose requests have not been answered */
	__u32 out_from, out_to; /* bytes of the reply that have not been sent */
	__u32 at_end;           /* the peer sends no more */
	__u32 leaving;          /* ends once its reply is sent */
	__u32 waits;            /* the socket took nothing: its send waits for room, for as long as the time limit allows */
	__u32 armed;            /* its receive is with the kernel */
	__u32 fresh;            /* its request has not begun to run */
	__u32 notices;          /* sends whose bytes the kernel may still look at: no other request runs, and the connection is not closed */
	__u32 held;             /* waits for the last of these */
	__u32 plain;            /* its socket does not send without a copy */
	__u32 stretch_least;    /* bytes of a result from which on a reply says where they lie, instead of a copy; 0: never */
	__u32 stretch_at, stretch_bytes; /* of the reply: where its stretch of the result is, and how long; 0: it has none */
	__u32 reserved;
	__u64 result_at, stretch_from;   /* in the region */
	__u64 message[7];                /* a struct msghdr of up to three stretches */
	struct {
		__u64 address, length;
	} stretches[4];
	__u64 deadline[2];      /* seconds and nanoseconds, of the operation under way */
	__u64 limit;            /* nanoseconds: when the rest of the request has to be there; 0: none has begun */
	/* of the request that runs */
	__u32 program, resume, site;
	__u32 ok, result_length;
	__u32 reply; /* bytes, without the stretch */
	__u32 ending, told; /* told: bit 0: `on malformed` has run, or need not; bit 1: `on failure` */
	__u64 scalar;
#ifdef CIO_HANDLER_REGS
	__u64 regs[CIO_HANDLER_REGS];
#endif
};

/* A call of a chain by a handler: what the runtime knows of it before any request comes. */
struct cio_site {
	__u32 entry, done, hops, step_base, step_count, file_count, wants_result, level;
	struct {
		__u32 slot, align_mask;
	} files[CIO_LOOP_FILES];
	__u32 header_count, state_bytes;
	__u32 header_slot[CIO_SERVE_HEADERS];
	__u64 header[CIO_SERVE_HEADERS];
	__u8 state[4096]; /* the chain's initial state */
};

struct cio_service {
	__u32 on_request, on_malformed, on_failure; /* programs, or CIO_LOOP_NONE */
	__u32 request_bytes, in_bytes;              /* in_bytes: room for requests, a multiple of their size */
	__u32 level, close_outcome;
	__u32 slot;   /* of its listening socket */
	__u32 accept; /* enum cio_accept */
	__u32 stretch_least; /* as in its connections */
	/* counters */
	__u64 accepted, refused, open;
	__u64 requests, answered, malformed, failed, unanswered, timeouts, vanished;
	__u64 bytes_in, bytes_out, partial_sends, waited_sends, zero_copy_sends, zero_copy_copied, zero_copy_refused;
};
enum cio_accept { CIO_ACCEPT_NO = 0, CIO_ACCEPT_ARM = 1, CIO_ACCEPT_ARMED = 2, CIO_ACCEPT_STOP = 3, CIO_ACCEPT_STOPPING = 4 };

struct cio_serve_head {
	__u32 draining; /* no connection waits for another request */
	__u32 control_armed, stop;
	__u32 failed; /* errno of an accept that cannot go on */
	__u32 at_once, reserved; /* at_once: the next wait is left out */
	struct cio_service services[CIO_SERVE_SERVICES];
	struct cio_site sites[CIO_SERVE_SITES];
};

/* Constants for the verifier, as struct cio_loop_layout. */
struct cio_serve_layout {
	__u64 head_offset, conns_offset, conn_stride;
	__u64 in_offset, in_stride, in_mask, out_offset, out_stride;
	__u64 base_address;       /* of the region in the process */
	__u64 first_slot;         /* of the file table: the connection 0 */
	__u64 control_slot, services;
	__u64 timeout_ns, linger_ns;
	__u64 zero_copy; /* bytes of a reply from which on it is sent without a copy; 0: none is */
	__u64 zero_copy_flags;
};

#endif
