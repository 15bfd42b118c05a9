/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Queues a read; the result is an outcome. `where` is the step, and the file in its upper half. */
CIO_INLINE int cio_next(struct cio_mem *m, u64 where, u64 offset, u64 length, u64 tag)
{
	if (length - 1 >= CIO_MAX_BLOCK)
		return CIO_MALFORMED;
	u64 n = m->io.next_count;
	if (n >= CIO_MAX_NEXT)
		return CIO_FANOUT;
#ifdef CIO_BPF
	n = cio_mask(n, CIO_MAX_NEXT - 1);
#endif
	struct cio_next *next = &m->io.next[n];
	next->offset = offset;
	next->tag = tag;
	next->length = (u32)length;
	next->step = (u16)where;
	next->file = (u16)(where >> 32);
	m->io.next_count = (u32)n + 1;
	return CIO_OK;
}
