/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What both targets need before chainio_step.h. The text that chainc emits is compiled as it stands, without any header. */
#define CIO_HAVE_TYPES
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef long long __s64;
typedef __s64 s64;

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "ChainIO step code is little-endian"
#endif

#define CIO_INLINE static inline __attribute__((always_inline))

/* What a program body or loop body returns to the code around it. */
#define CIO_GO 0    /* carry on */
#define CIO_BREAK 1 /* leave the innermost loop */
#define CIO_STOP 2  /* the program has ended */

/* For helpers that are written once for all spaces. */
#define CIO_IS_block 0
#define CIO_IS_args 0
#define CIO_IS_state 1
#define CIO_IS_literal 0

/* A loop of the program: `limit` is a constant, `count` is at most that. Both comparisons have to stay: the compiler sees that the
 * second implies the first, the verifiers of older kernels do not. */
#define CIO_ROUNDS(limit, count, step) \
	for (u64 i_ = 0; (cio_keep(i_), i_ < (limit)) && (cio_keep(i_), i_ < (count)); i_ += (step))
#define CIO_LEAVE(call)                     \
	{                                   \
		int code_ = call;           \
		if (code_ == CIO_BREAK)     \
			break;              \
		if (code_)                  \
			return CIO_STOP;    \
	}
#define CIO_LOOP(body, limit, count) CIO_ROUNDS(limit, count, 1) CIO_LEAVE(body(CIO_ARGS, i_))

/* Helpers go over bytes in pieces, a function each: the verifier follows the rounds of one piece, and what it does not know about
 * the piece's result keeps it from following all that comes after once for every round. `call` works on what begins at byte k_ and
 * says how far it got; a whole piece means that there is more. `i` is how far all of them got. */
#define CIO_ROUND(maximum) ((maximum) < CIO_PIECE ? (maximum) : CIO_PIECE)
#define CIO_IN_PIECES(maximum, i, length, call)                              \
	for (u64 k_ = 0; (cio_keep(k_), k_ < (maximum)) && (cio_keep(k_), k_ < (length));      \
	     k_ += CIO_PIECE) {                                              \
		u64 done_ = call;                                            \
		i = k_ + done_;                                              \
		if (done_ < CIO_PIECE)                                       \
			break;                                               \
	}
