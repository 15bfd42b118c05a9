/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many of the first bytes are equal, in whole eights. */
CIO_HELPER u64 cio_equal_SPACE_OTHER(CIO_HELP_PARAMS, u64 first, u64 second, u64 length)
{
	CIO_HELP_ENTER(0)
	u64 i;
	for (i = 0; i < CIO_ROUND(MAXIMUM); i += 8) {
		cio_keep(i);
		if (i + 8 > length || cio_ld8(cio_at_SPACE(first + i)) != cio_ld8(cio_at_OTHER(second + i)))
			break;
	}
	return i;
}

/* memcmp order, then length: -1, 0 or 1. `lengths` is the length of the first, and of the second in its upper half. */
CIO_HELPER u64 cio_compare_SPACE_OTHER(CIO_HELP_PARAMS, u64 first, u64 second, u64 lengths)
{
	CIO_HELP_ENTER(0)
	u64 a = (u32)lengths, c = lengths >> 32;
	u64 n = cio_min(a, c), i = 0;
	CIO_IN_PIECES(MAXIMUM, i, n, cio_equal_SPACE_OTHER(m, b, first + k_, second + k_, n - k_))
	u64 left = cio_min(n - i, 8);
	u64 x = cio_int_be(cio_at_SPACE(first + i), left);
	u64 y = cio_int_be(cio_at_OTHER(second + i), left);
	if (x != y)
		return x < y ? -1ull : 1;
	return a == c ? 0 : a < c ? -1ull : 1;
}
