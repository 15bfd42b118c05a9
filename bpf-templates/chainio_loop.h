/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory that the kernel engine and its loop_step program share: one region of one ring, in this order: struct cio_loop_head,
 * the list of ended chains, a place for each chain in flight, their blocks. A place is a struct cio_flight, the step memory
 * (chainio_step.h) right behind it, and the queue of the chain's reads. The program and the engine never look at it at the same
 * time: the program runs inside the engine's own io_uring_enter. */
#ifndef CHAINIO_LOOP_H
#define CHAINIO_LOOP_H

#ifndef CIO_HAVE_TYPES
#include <linux/types.h>
#endif

#define CIO_LOOP_FILES 16   /* file parameters of a chain */
#define CIO_LOOP_WINDOW 16  /* reads of one chain under way at most */
#define CIO_LOOP_LEVELS 8   /* priorities that are told apart */
#define CIO_LOOP_ROUNDS 64  /* half of the completions and turns in one call of the program */
#define CIO_LOOP_SQES (CIO_LOOP_ROUNDS * CIO_LOOP_WINDOW)
#define CIO_LOOP_RETRIES 64 /* of EINTR and EAGAIN, one read */
#define CIO_LOOP_ALIGN 4096 /* the largest alignment of offsets that a file may ask for */
#define CIO_LOOP_NONE 0xffffffffu

/* Constants for the verifier, written by the engine before the program is loaded. Offsets count from the region's start; masks are
 * powers of two less one. */
struct cio_loop_layout {
	__u64 memory_bytes, rings_bytes;
	__u64 ended_offset, places_offset, place_stride, queue_offset; /* the queue's: in its place */
	__u64 frames_offset, frames_stride, frame_bytes; /* the stride: of a chain's frames */
	__u64 flight_mask, queue_mask, window_mask;
	__u64 cq_mask, cq_head_offset, cq_tail_offset, cqes_offset;
	__u64 spin_ns;    /* how long it looks for completions before it sleeps; 0: sleeps at once */
	__u64 bulk_steps; /* in one call, while chains that are more urgent have not ended */
	__u64 read; /* how a read's SQE begins: a registered file, and IORING_OP_READ_FIXED, or IORING_OP_READ when the memory could not be
		     * registered */
};

enum cio_loop_phase {
	CIO_LOOP_START = 0,  /* its entry program runs next */
	CIO_LOOP_RUN = 1,    /* its steps run, in the order of its reads */
	CIO_LOOP_DONE = 2,   /* its reads are over, its done program runs next */
	CIO_LOOP_ENDING = 3, /* it has its outcome and ends when the reads that the device has come back */
	CIO_LOOP_SERVE = 4,  /* a connection of a service, which runs no chain at the moment (chainio_serve.h) */
};

enum cio_loop_read { CIO_LOOP_ON_DEVICE = 0, CIO_LOOP_ARRIVED = 1, CIO_LOOP_AGAIN = 2 };

struct cio_loop_slot { /* a read that was issued and whose step has not run */
	__u64 offset;      /* in the file, of what is read: begins and ends where the file's alignment allows */
	__u32 skip;        /* where the block begins in that */
	__u32 length;      /* of the block */
	__u32 io_length, got;
	__u32 align_mask;
	__u32 failure; /* an outcome, once it has arrived */
	__u32 state, retries;
};

struct cio_flight {
	__u32 next; /* in the list of ready chains */
	__u32 listed, level;
	__u32 phase, outcome;
	__u32 ran;                             /* slot of the block that the last step ran on, or CIO_LOOP_NONE */
	__u32 queued, head, issued, on_device; /* reads: asked for, stepped on, handed to the device, there now */
	__u32 entry, done;                     /* programs; done may be CIO_LOOP_NONE */
	__u32 hops, step_base, step_count, file_count;
	__u32 wants_result, reserved;
	__u64 frames; /* where its blocks are in the process: what a read is told */
	struct {
		__u32 slot, align_mask;
	} files[CIO_LOOP_FILES];
	struct cio_loop_slot slots[CIO_LOOP_WINDOW];
};

struct cio_loop_head {
	struct {
		__u32 first, last;
	} ready[CIO_LOOP_LEVELS];
	__u32 waiting; /* chains in these lists */
	__u32 live[CIO_LOOP_LEVELS]; /* chains that have not ended */
	__u32 urgent; /* no chain that has not ended is more urgent than that level */
	__u32 bulk; /* steps of this call that chains more urgent may have to wait for */
	__u32 on_device; /* reads */
	__u32 sqes;      /* written and not submitted */
	__u32 left_from, left_to; /* SQEs that the kernel has not taken: their reads are tried again */
	__u32 wanted;             /* ended chains that end the system call; 0: do what can be done without waiting */
	__u32 polls;
	__u32 ended_head, ended_tail;
	__u64 spin_from; /* when it began to look for completions; 0: it does not */
	__u64 calls, steps, reads, bytes, retries, continued, cancelled; /* counters */
};

#endif
