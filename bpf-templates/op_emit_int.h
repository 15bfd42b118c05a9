/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Appends an integer of constant width to the out area; false when it does not fit. */
CIO_INLINE int cio_emit_int(struct cio_mem *m, u64 value, u32 width, u64 limit)
{
	u64 length = m->io.out_length;
	if (cio_unlikely(length + width > limit))
		return 0;
	cio_put(cio_at_out(length), value, width);
	m->io.out_length = (u32)(length + width);
	return 1;
}
