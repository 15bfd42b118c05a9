/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory that a step program and its engine share, the same for BPF, native code and the IR interpreter.
 * One `struct cio_io` serves one chain in flight. It is followed, in the same allocation, by the areas whose sizes an
 * artifact chooses (struct cio_layout in .chainio.spec): state, argument bytes, output and prefetch list.
 * All integers are in the byte order of the machine. */
#ifndef CHAINIO_STEP_H
#define CHAINIO_STEP_H

#ifndef CIO_HAVE_TYPES
#include <linux/types.h>
#endif

#define CIO_MAX_BLOCK 65536   /* bytes of the largest block that one read brings */
#define CIO_MAX_ARGS 32       /* argument slots of a chain, hidden header fields included */
#define CIO_MAX_NEXT 16       /* reads that one step may queue */
#define CIO_MAX_STATE 4096    /* bytes carried from step to step */
#define CIO_MAX_ARG_BYTES 4096
#define CIO_MAX_OUT 65536
#define CIO_MAX_PREFETCH 512
#define CIO_PAD 8             /* readable bytes behind every area, so that a masked 8-byte access stays inside */

/* Outcomes of a program and of a chain. A spec's own `fail REASON` names count from CIO_USER on. */
enum cio_outcome {
	CIO_OK = 0,
	CIO_MALFORMED = 1,   /* the bytes are not what the records say */
	CIO_NOT_FOUND = 2,
	CIO_OVERFLOW = 3,    /* a value or result does not fit where it must go */
	CIO_SHORT_READ = 4,  /* the file ends inside the block */
	CIO_IO_ERROR = 5,
	CIO_HOP_LIMIT = 6,
	CIO_NO_MEMORY = 7,
	CIO_CANCELLED = 8,
	CIO_NO_RESULT = 9,   /* the last step ended without a result */
	CIO_FANOUT = 10,     /* more than CIO_MAX_NEXT reads queued */
	CIO_BAD_ARGUMENT = 11,
	CIO_UNSUPPORTED = 12,
	CIO_USER = 32,
};

/* What `result` holds once `finished` is set. */
enum cio_result_kind {
	CIO_RESULT_NONE = 0,    /* what was emitted, `out_length` bytes, is the result */
	CIO_RESULT_SCALAR = 1,  /* `result` */
	CIO_RESULT_SLICE = 2,   /* `slice_length` bytes at `slice_offset` of `slice_space` */
};

enum cio_space { CIO_SPACE_BLOCK = 0, CIO_SPACE_ARGS = 1, CIO_SPACE_STATE = 2, CIO_SPACE_LITERAL = 3 };

struct cio_next {
	__u64 offset; /* bytes into the file */
	__u64 tag;    /* handed to the step as `block.tag` */
	__u32 length; /* bytes, 1..CIO_MAX_BLOCK */
	__u16 step;   /* index into the chain's steps */
	__u16 file;   /* index among the chain's file parameters */
};

enum cio_prefetch_kind {
	CIO_PREFETCH_SAME = 0,    /* the file that the event is about */
	CIO_PREFETCH_SIBLING = 1, /* that file with its extension replaced by literal `name` */
	CIO_PREFETCH_PATH = 2,    /* the class's root joined with the bytes at name_offset of name_space */
	CIO_PREFETCH_CHAIN = 3,   /* run chain `target` with args */
	CIO_PREFETCH_MARK = 4,    /* nothing: `offset` of the event's file gets `length` as its mark */
	CIO_PREFETCH_MARK_VIA = 5, /* the same with what chain `target` returns for args */
};
#define CIO_MARK_FILE (~0ull) /* the offset that marks all places without a mark */

struct cio_prefetch {
	__u64 offset;
	__u64 length;      /* 0: the whole file */
	__u16 kind;
	__u16 name_space;  /* enum cio_space: where the name is (SIBLING: the literals) */
	__u32 target;      /* file class, or chain for CHAIN and MARK_VIA */
	__u32 name_offset; /* bytes into name_space */
	__u32 name_length;
	__u64 args[4];     /* CHAIN, MARK_VIA: its scalar arguments */
};

struct cio_io {
	/* in, written by the engine before the program runs */
	__u64 block_offset;
	__u64 block_tag;
	__u32 block_length;
	__u32 block_file;
	__u64 args[CIO_MAX_ARGS]; /* a scalar takes one slot; bytes take two: offset into the argument bytes, length */
	/* out, cleared by the engine before the program runs (except result and out_length, which belong to the chain) */
	__u32 outcome;
	__u32 finished;    /* a `return` ran */
	__u32 next_count;
	__u32 result_kind;
	__u64 result;      /* of a handler: the bytes behind the request that are no requests */
	__u32 slice_space;
	__u32 slice_offset;
	__u32 slice_length;
	__u32 out_length;  /* bytes emitted so far by this chain */
	__u32 prefetch_count;
	__u32 reserved;
	struct cio_next next[CIO_MAX_NEXT];
	__u64 vars[128];   /* mutable variables of BPF programs; native code keeps them in registers, and handlers as below */
};

/* Of vars, for the native code of handlers, which stops at each call of a chain and at each reply: the number of that stop, counted from 1 in
 * the program's order (0 at the begin and at the end); where the registers are that live across stops or belong to one; where the results of the called chains
 * are (struct cio_result). */
enum cio_handler_var { CIO_HANDLER_AT = 0, CIO_HANDLER_REGS = 1, CIO_HANDLER_RESULTS = 2 };

struct cio_result {
	const __u8 *data;
	__u64 length;
};

#endif
