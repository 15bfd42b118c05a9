/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The native side: one shared object without any library. Everything of a program is inlined into its exported function, so that
 * its variables are registers. Accesses are not masked: validate() has proven them in range. */
struct cio_mem {
	struct cio_io io;
};

struct cio_vars {
	u64 block_length;
	u64 r[CIO_VARS];
};

#define CIO_PARAMS struct cio_mem *m, const u8 *b, struct cio_vars *v
#define CIO_ARGS m, b, v
#define CIO_ENTER
#define cio_keep(value) ((void)0)
#define CIO_LOOP_PIECE(body, rounds)
#define CIO_LONG_LOOP(body, limit, count, rounds) CIO_LOOP(body, limit, count)

#define cio_fix_block(offset) (b + (offset))
#define cio_fix_args(offset) ((u8 *)m + CIO_ARG_BYTES_OFFSET + (offset))
#define cio_fix_state(offset) ((u8 *)m + CIO_STATE_OFFSET + (offset))
#define cio_fix_literal(offset) (cio_literals + (offset))
#define cio_at_block(offset) cio_fix_block(offset)
#define cio_at_args(offset) cio_fix_args(offset)
#define cio_at_state(offset) cio_fix_state(offset)
#define cio_at_literal(offset) cio_fix_literal(offset)
#define cio_at_out(offset) ((u8 *)m + CIO_OUT_OFFSET + (offset))
#define CIO_BLOCK_LENGTH v->block_length

struct cio_u2 { u16 x; } __attribute__((packed, may_alias));
struct cio_u4 { u32 x; } __attribute__((packed, may_alias));
struct cio_u8 { u64 x; } __attribute__((packed, may_alias));
CIO_INLINE u64 cio_ld2(const u8 *p) { return ((const struct cio_u2 *)p)->x; }
CIO_INLINE u64 cio_ld4(const u8 *p) { return ((const struct cio_u4 *)p)->x; }
CIO_INLINE u64 cio_ld8(const u8 *p) { return ((const struct cio_u8 *)p)->x; }
CIO_INLINE void cio_st2(u8 *p, u64 x) { ((struct cio_u2 *)p)->x = (u16)x; }
CIO_INLINE void cio_st4(u8 *p, u64 x) { ((struct cio_u4 *)p)->x = (u32)x; }
CIO_INLINE void cio_st8(u8 *p, u64 x) { ((struct cio_u8 *)p)->x = x; }

#define CIO_SECOND_PARAM , u64 *second
#define CIO_SECOND_ARG , &second_
#define CIO_SET_SECOND(x) (*second = (x))
#define CIO_SECOND second_

#define CIO_PIECE CIO_MAX_BLOCK
#define CIO_LANES_PARAM , u64 *lanes
#define CIO_LANES_ARG , lanes
#define CIO_LANES u64 lanes[4];
#define CIO_LANE(n) lanes[n]

#define CIO_VAR(n) v->r[n]
#define CIO_SPILLED(n) v->r[n]
#define CIO_FUNCTION(name) CIO_INLINE int name(CIO_PARAMS)
#define CIO_LOOP_BODY(name) CIO_INLINE int name(CIO_PARAMS, u64 i)
#define CIO_SHORT_BODY CIO_LOOP_BODY
#define CIO_HELPER static
#define CIO_HELP_PARAMS struct cio_mem *m, const u8 *b
#define CIO_HELP_ENTER(x)

#define CIO_PROGRAM(n)                                                                                      \
	CIO_FUNCTION(cio_body_##n);                                                                         \
	__attribute__((visibility("default"))) void cio_program_##n(struct cio_io *io, const unsigned char *b) \
	{                                                                                                   \
		struct cio_vars vars;                                                                       \
		vars.block_length = io->block_length;                                                       \
		cio_body_##n((struct cio_mem *)io, b, &vars);                                               \
	}                                                                                                   \
	CIO_FUNCTION(cio_body_##n)
