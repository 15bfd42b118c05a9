/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies as many bytes as there are whole eights to the reply. */
CIO_HELPER u64 cio_reply_piece_SPACE(struct cio_block *b, struct cio_block *o, u64 to, u64 offset, u64 length)
{
	if (!b || !o)
		return 0;
	u64 i;
	for (i = 0; i < CIO_ROUND(MAXIMUM); i += 8) {
		cio_keep(i);
		if (i + 8 > length)
			break;
		cio_st8(cio_at_reply(to + i), cio_ld8(cio_at_SPACE(offset + i)));
	}
	return i;
}

/* Appends bytes to the reply; 0 when they do not fit. */
CIO_HELPER int cio_reply_SPACE(struct cio_block *b, struct cio_conn *c, struct cio_block *o, u64 offset, u64 length)
{
	if (!b || !c || !o)
		return 0;
	u64 to = c->reply, i = 0;
	if (!cio_inside(to, length, CIO_REPLY_BYTES))
		return 0;
	CIO_IN_PIECES(MAXIMUM, i, length, cio_reply_piece_SPACE(b, o, to + k_, offset + k_, length - k_))
	for (u64 k = 0; k < 7; k++) {
		cio_keep(k);
		if (i + k >= length)
			break;
		*cio_at_reply(to + i + k) = *cio_at_SPACE(offset + i + k);
	}
	c->reply = (u32)(to + length);
	return 1;
}
