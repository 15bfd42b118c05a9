/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies as many bytes as there are whole eights to the state. */
CIO_HELPER u64 cio_copy_piece_SPACE(CIO_HELP_PARAMS, u64 to, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	u64 i;
	for (i = 0; i < CIO_ROUND(MAXIMUM); i += 8) {
		cio_keep(i);
		if (i + 8 > length)
			break;
		cio_st8(cio_at_state(to + i), cio_ld8(cio_at_SPACE(offset + i)));
	}
	return i;
}

/* state[to ..] = bytes, in ascending order. */
CIO_HELPER int cio_copy_SPACE(CIO_HELP_PARAMS, u64 to, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	u64 i = 0;
	/* Bytes of the state that are copied onto the next ones repeat themselves: eight at a time would not show that. */
	if (!CIO_IS_SPACE || to - offset - 1 >= 7) {
		CIO_IN_PIECES(MAXIMUM, i, length, cio_copy_piece_SPACE(m, b, to + k_, offset + k_, length - k_))
		for (u64 k = 0; k < 7; k++) {
			cio_keep(k);
			if (i + k >= length)
				break;
			*cio_at_state(to + i + k) = *cio_at_SPACE(offset + i + k);
		}
		return 0;
	}
	for (; i < MAXIMUM; i++) {
		cio_keep(i);
		if (i >= length)
			break;
		*cio_at_state(to + i) = *cio_at_SPACE(offset + i);
	}
	return 0;
}
