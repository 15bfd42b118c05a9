/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies as many bytes as there are whole eights to the out area. */
CIO_HELPER u64 cio_emit_piece_SPACE(CIO_HELP_PARAMS, u64 to, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	u64 i;
	for (i = 0; i < CIO_ROUND(MAXIMUM); i += 8) {
		cio_keep(i);
		if (i + 8 > length)
			break;
		cio_st8(cio_at_out(to + i), cio_ld8(cio_at_SPACE(offset + i)));
	}
	return i;
}

/* Appends bytes to the out area; 0 when they do not fit. */
CIO_HELPER int cio_emit_SPACE(CIO_HELP_PARAMS, u64 offset, u64 length, u64 limit)
{
	CIO_HELP_ENTER(0)
	u64 to = m->io.out_length, i = 0;
	if (!cio_inside(to, length, limit))
		return 0;
	CIO_IN_PIECES(MAXIMUM, i, length, cio_emit_piece_SPACE(m, b, to + k_, offset + k_, length - k_))
	for (u64 k = 0; k < 7; k++) {
		cio_keep(k);
		if (i + k >= length)
			break;
		*cio_at_out(to + i + k) = *cio_at_SPACE(offset + i + k);
	}
	m->io.out_length = (u32)(to + length);
	return 1;
}
