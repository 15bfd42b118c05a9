/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Operations of Chain IR that every program may use. */
#define cio_unlikely(x) __builtin_expect(!!(x), 0)
#define cio_likely(x) __builtin_expect(!!(x), 1)

#ifdef CIO_BPF
CIO_GLOBAL int cio_fail(struct cio_mem *m, u32 outcome)
{
	if (!m)
		return CIO_STOP;
#else
static __attribute__((noinline, cold)) int cio_fail(struct cio_mem *m, u32 outcome)
{
#endif
	m->io.outcome = outcome;
	m->io.finished = 0;
	m->io.next_count = 0;
	m->io.prefetch_count = 0;
	m->io.out_length = 0;
	return CIO_STOP;
}

#define CIO_CHECK(ok, code)               \
	do {                              \
		if (cio_unlikely(!(ok)))  \
			return cio_fail(m, code); \
	} while (0)

/* Whether offset .. offset + length is inside `size`, without wrapping. */
CIO_INLINE int cio_inside(u64 offset, u64 length, u64 size) { return offset <= size && length <= size - offset; }

/* `width` is a constant wherever these are used. The native side never touches a byte outside of the value. */
CIO_INLINE u64 cio_le(const u8 *p, u32 width)
{
	switch (width) {
	case 1: return p[0];
	case 2: return cio_ld2(p);
	case 3: return cio_ld2(p) | (u64)p[2] << 16;
	case 4: return cio_ld4(p);
	case 5: return cio_ld4(p) | (u64)p[4] << 32;
	case 6: return cio_ld4(p) | cio_ld2(p + 4) << 32;
	case 7: return cio_ld4(p) | cio_ld4(p + 3) >> 8 << 32;
	default: return cio_ld8(p);
	}
}

CIO_INLINE u64 cio_be(const u8 *p, u32 width)
{
	return width == 1 ? p[0] : __builtin_bswap64(cio_le(p, width)) >> (64 - 8 * width);
}

CIO_INLINE void cio_put(u8 *p, u64 x, u32 width)
{
	switch (width) {
	case 1: p[0] = (u8)x; break;
	case 2: cio_st2(p, x); break;
	case 3: cio_st2(p, x); p[2] = (u8)(x >> 16); break;
	case 4: cio_st4(p, x); break;
	case 5: cio_st4(p, x); p[4] = (u8)(x >> 32); break;
	case 6: cio_st4(p, x); cio_st2(p + 4, x >> 32); break;
	case 7: cio_st4(p, x); cio_st2(p + 4, x >> 32); p[6] = (u8)(x >> 48); break;
	default: cio_st8(p, x);
	}
}

CIO_INLINE u64 cio_sext(u64 x, u32 bits) { return (u64)((s64)(x << (64 - bits)) >> (64 - bits)); }
CIO_INLINE u64 cio_min(u64 a, u64 b) { return a < b ? a : b; }
CIO_INLINE u64 cio_max(u64 a, u64 b) { return a > b ? a : b; }
CIO_INLINE u64 cio_div(u64 a, u64 b) { return b ? a / b : 0; }
CIO_INLINE u64 cio_mod(u64 a, u64 b) { return b ? a % b : a; }
CIO_INLINE u64 cio_bswap(u64 x, u32 bits) { return __builtin_bswap64(x) >> (64 - bits); }

/* Ends the chain with a result. */
CIO_INLINE int cio_finish(struct cio_mem *m, u32 kind)
{
	m->io.finished = 1;
	m->io.next_count = 0;
	m->io.result_kind = kind;
	return CIO_STOP;
}

CIO_INLINE int cio_finish_scalar(struct cio_mem *m, u64 value)
{
	m->io.result = value;
	return cio_finish(m, CIO_RESULT_SCALAR);
}

CIO_INLINE int cio_finish_slice(struct cio_mem *m, u32 space, u64 offset, u64 length)
{
	m->io.slice_space = space;
	m->io.slice_offset = (u32)offset;
	m->io.slice_length = (u32)length;
	return cio_finish(m, CIO_RESULT_SLICE);
}
