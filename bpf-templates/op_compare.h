/* memcmp order, then length: -1, 0 or 1. `lengths` is the length of the first, and of the second in its upper half. */
CIO_HELPER u64 cio_compare_SPACE_OTHER(CIO_HELP_PARAMS, u64 first, u64 second, u64 lengths)
{
	CIO_HELP_ENTER(0)
	u64 a = (u32)lengths, c = lengths >> 32;
	u64 n = cio_min(a, c);
	u64 x = 0, y = 0, i;
	for (i = 0; i < MAXIMUM; i += 8) {
		cio_keep(i);
		if (i + 8 > n)
			break;
		x = cio_ld8(cio_at_SPACE(first + i));
		y = cio_ld8(cio_at_OTHER(second + i));
		if (x != y)
			return __builtin_bswap64(x) < __builtin_bswap64(y) ? -1ull : 1;
	}
#ifdef CIO_BPF
	if (n & 7) {
		x = cio_int_be(cio_at_SPACE(first + (n & ~7ull)), n & 7);
		y = cio_int_be(cio_at_OTHER(second + (n & ~7ull)), n & 7);
	} else {
		x = y = 0;
	}
#else
	if (n >= 8) { /* the last eight bytes; those that were compared before are equal */
		x = __builtin_bswap64(cio_ld8(cio_at_SPACE(first + n - 8)));
		y = __builtin_bswap64(cio_ld8(cio_at_OTHER(second + n - 8)));
	} else {
		x = cio_int_be(cio_at_SPACE(first), n);
		y = cio_int_be(cio_at_OTHER(second), n);
	}
#endif
	if (x != y)
		return x < y ? -1ull : 1;
	return a == c ? 0 : a < c ? -1ull : 1;
}
