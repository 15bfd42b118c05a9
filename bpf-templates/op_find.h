/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many of the first bytes, in whole eights, come before the eight that hold `byte`. */
CIO_HELPER u64 cio_without_SPACE(CIO_HELP_PARAMS, u64 offset, u64 length, u64 byte)
{
	CIO_HELP_ENTER(0)
	u64 pattern = (byte & 255) * 0x0101010101010101ull, i;
	for (i = 0; i < CIO_ROUND(MAXIMUM); i += 8) {
		cio_keep(i);
		if (i + 8 > length)
			break;
		u64 x = cio_ld8(cio_at_SPACE(offset + i)) ^ pattern;
		if ((x - 0x0101010101010101ull) & ~x & 0x8080808080808080ull)
			break;
	}
	return i;
}

/* The index of the first byte that equals `byte`, or the length. */
CIO_HELPER u64 cio_find_SPACE(CIO_HELP_PARAMS, u64 offset, u64 length, u64 byte)
{
	CIO_HELP_ENTER(0)
	u64 i = 0;
	CIO_IN_PIECES(MAXIMUM, i, length, cio_without_SPACE(m, b, offset + k_, length - k_, byte))
	for (u64 k = 0; k < 8; k++) {
		cio_keep(k);
		if (i + k >= length)
			return length;
		if (*cio_at_SPACE(offset + i + k) == (byte & 255))
			return i + k;
	}
	return length;
}
