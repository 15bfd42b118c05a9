/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Handlers, behind chainio_native.h. One function goes on behind the stop at which it returned: its registers are locals where none of their values is
 * needed across a stop, and otherwise lie where the runtime looks for them. A range of a called chain's result is checked where it is used. */
#undef CIO_VAR
#undef CIO_SPILLED
#undef CIO_BLOCK_LENGTH
#define CIO_VAR(n) regs_[n]
#define CIO_SPILLED(n) regs_[n]
#define CIO_BLOCK_LENGTH ((u64)m->io.block_length)
#define CIO_IS_result 0

/* An offset's upper half is the number of the result. */
#define cio_result_of(offset) ((const struct cio_result *)m->io.vars[CIO_HANDLER_RESULTS] + ((offset) >> 32))
#define cio_at_result(offset) (cio_result_of((u64)(offset))->data + (u32)(offset))
#define cio_fix_result(offset) cio_at_result(offset)
CIO_INLINE u64 cio_result_size(const struct cio_mem *m, u64 offset)
{
	return offset >> 32 < CIO_RESULTS ? cio_result_of(offset)->length : 0;
}
CIO_INLINE int cio_inside_result(const struct cio_mem *m, u64 offset, u64 length)
{
	return cio_inside((u32)offset, length, cio_result_size(m, offset));
}
CIO_INLINE u64 cio_end_of_result(const struct cio_mem *m, u64 offset, u64 limit)
{
	return (offset & 0xffffffff00000000ull) + cio_min((u32)limit, cio_result_size(m, offset));
}

#define CIO_HALT(number)                         \
	m->io.vars[CIO_HANDLER_AT] = number;     \
	return CIO_STOP;                         \
	case number:;

#define CIO_NATIVE_HANDLER(n)                                                                                        \
	CIO_INLINE int cio_body_##n(struct cio_mem *m, const u8 *b, u64 *regs_, u64 at_);                       \
	__attribute__((visibility("default"))) void cio_program_##n(struct cio_io *io, const unsigned char *b) \
	{                                                                                                       \
		u64 at = io->vars[CIO_HANDLER_AT];                                                              \
		io->vars[CIO_HANDLER_AT] = 0;                                                                   \
		cio_body_##n((struct cio_mem *)io, b, (u64 *)io->vars[CIO_HANDLER_REGS], at);                   \
	}                                                                                                       \
	CIO_INLINE int cio_body_##n(struct cio_mem *m, const u8 *b, u64 *regs_, u64 at_)
