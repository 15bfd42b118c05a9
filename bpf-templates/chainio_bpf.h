/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The BPF side: the step memory and the block are map values (or an engine's region), and every access is masked.
 * Functions are global, so that the verifier looks at each of them once, whatever calls it.
 * An engine that keeps blocks elsewhere defines CIO_AT_BLOCK and CIO_OWN_ENTRY before this text. */
#define CIO_SEC(name) __attribute__((section(name), used))
/* Weak, as the compiler otherwise leaves unset what it sees a callee ignore, which the verifier does not accept. */
#define CIO_GLOBAL __attribute__((noinline, weak))

struct cio_mem {
	struct cio_io io;
	u8 areas[CIO_TOTAL - sizeof(struct cio_io)];
#if CIO_SPILL
	u64 spill[CIO_SPILL];
#endif
};

struct cio_block {
	u8 bytes[CIO_MAX_BLOCK + CIO_PAD];
};

/* Every global function gets pointers that the verifier takes as possibly NULL. */
#define CIO_PARAMS struct cio_mem *m, struct cio_block *b
#define CIO_ARGS m, b
#define CIO_ENTER            \
	if (!m || !b)        \
		return CIO_STOP;

/* The mask is opaque to the compiler: were it visible, a check before it could be taken as proof that it does nothing, and the
 * verifier, which has not followed that proof, would refuse the access. */
#define cio_mask(value, mask)                                 \
	({                                                    \
		u64 masked_ = (value);                        \
		__asm__("%0 &= %1" : "+r"(masked_) : "i"(mask)); \
		masked_;                                      \
	})
/* Keeps a loop counter as it is written, so that the verifier sees it count. */
#define cio_keep(value) ({ __asm__ volatile("" : "+r"(value)); })

/* A loop of many rounds goes in pieces, each a call: the verifier follows the rounds of one piece, and the calls. */
#define CIO_LOOP_PIECE(body, rounds)                                          \
	CIO_GLOBAL int body##_piece(CIO_PARAMS, u64 start, u64 count)         \
	{                                                                     \
		CIO_ENTER                                                     \
		for (u64 i_ = 0; i_ < rounds; i_++) {                         \
			cio_keep(i_);                                         \
			if (start + i_ >= count)                              \
				return CIO_GO;                                \
			int code_ = body(CIO_ARGS, start + i_);               \
			if (code_)                                            \
				return code_;                                 \
		}                                                             \
		return CIO_GO;                                                \
	}
#define CIO_LONG_LOOP(body, limit, count, rounds) \
	CIO_ROUNDS(limit, count, rounds) CIO_LEAVE(body##_piece(CIO_ARGS, i_, count))

#ifndef CIO_AT_BLOCK
#define CIO_AT_BLOCK(offset) ((u8 *)b + (offset))
#endif
#define cio_fix_block(offset) CIO_AT_BLOCK(offset)
#define cio_fix_args(offset) ((u8 *)m + CIO_ARG_BYTES_OFFSET + (offset))
#define cio_fix_state(offset) ((u8 *)m + CIO_STATE_OFFSET + (offset))
#define cio_fix_literal(offset) (cio_literals + (offset))
#define cio_at_block(offset) cio_fix_block(cio_mask(offset, CIO_MAX_BLOCK - 1))
#define cio_at_args(offset) cio_fix_args(cio_mask(offset, CIO_ARG_BYTES_SIZE - 1))
#define cio_at_state(offset) cio_fix_state(cio_mask(offset, CIO_STATE_SIZE - 1))
#define cio_at_literal(offset) cio_fix_literal(cio_mask(offset, CIO_LITERAL_SIZE - 1))
#define cio_at_out(offset) ((u8 *)m + CIO_OUT_OFFSET + cio_mask(offset, CIO_OUT_SIZE - 1))
#define CIO_BLOCK_LENGTH ((u64)m->io.block_length)

/* The kernel's verifier lets map memory be read unaligned wherever the machine can; the compiler only has to be kept from
 * splitting the access into bytes. */
CIO_INLINE u64 cio_ld2(const u8 *p) { return *(const u16 *)p; }
CIO_INLINE u64 cio_ld4(const u8 *p) { return *(const u32 *)p; }
CIO_INLINE u64 cio_ld8(const u8 *p) { return *(const u64 *)p; }
CIO_INLINE void cio_st2(u8 *p, u64 x) { *(u16 *)p = (u16)x; }
CIO_INLINE void cio_st4(u8 *p, u64 x) { *(u32 *)p = (u32)x; }
CIO_INLINE void cio_st8(u8 *p, u64 x) { *(u64 *)p = x; }

#define CIO_PIECE 512

/* The last of cio_io.vars are for the helpers: a second result, and the lanes of a hash. */
#define CIO_SECOND_PARAM
#define CIO_SECOND_ARG
#define CIO_SET_SECOND(x) (m->io.vars[127] = (x))
#define CIO_SECOND m->io.vars[127]
#define CIO_LANES_PARAM
#define CIO_LANES_ARG
#define CIO_LANES
#define CIO_LANE(n) m->io.vars[120 + (n)]

#define CIO_VAR(n) m->io.vars[n]
#define CIO_SPILLED(n) m->spill[(n) - CIO_FIRST_SPILL]
#define CIO_FUNCTION(name) CIO_GLOBAL int name(CIO_PARAMS)
#define CIO_LOOP_BODY(name) CIO_GLOBAL int name(CIO_PARAMS, u64 i)
#define CIO_SHORT_BODY(name) CIO_INLINE int name(CIO_PARAMS, u64 i)
#define CIO_HELPER CIO_GLOBAL
#define CIO_HELP_PARAMS struct cio_mem *m, struct cio_block *b
#define CIO_HELP_ENTER(x)    \
	if (!m || !b)        \
		return x;

#ifdef CIO_OWN_ENTRY
#define CIO_PROGRAM(n) CIO_FUNCTION(cio_program_##n)
#else
static void *(*const cio_map_lookup)(void *map, const void *key) = (void *)1;

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	int (*max_entries)[1];
	int (*map_flags)[1024]; /* BPF_F_MMAPABLE */
	u32 *key;
	struct cio_mem *value;
} cio_io_map CIO_SEC(".maps");

struct {
	int (*type)[2];
	int (*max_entries)[1];
	int (*map_flags)[1024];
	u32 *key;
	struct cio_block *value;
} cio_block_map CIO_SEC(".maps");

#define CIO_PROGRAM(n)                                                       \
	CIO_FUNCTION(cio_program_##n);                                       \
	CIO_SEC("syscall") int cio_run_##n(void *ctx)                        \
	{                                                                    \
		u32 key = 0;                                                 \
		struct cio_mem *m = cio_map_lookup(&cio_io_map, &key);       \
		struct cio_block *b = cio_map_lookup(&cio_block_map, &key);  \
		(void)ctx;                                                   \
		if (m && b)                                                  \
			cio_program_##n(m, b);                               \
		return 0;                                                    \
	}                                                                    \
	CIO_FUNCTION(cio_program_##n)
#endif

char cio_license[] CIO_SEC("license") = "Dual BSD/GPL";
