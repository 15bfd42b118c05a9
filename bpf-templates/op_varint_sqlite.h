/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The varint at `offset` is the second result; the first is its length in bytes, 0 when it needs a byte at or past `limit`. */
CIO_HELPER u64 cio_varint_sqlite_SPACE_(CIO_HELP_PARAMS, u64 offset, u64 limit CIO_SECOND_PARAM)
{
	CIO_HELP_ENTER(0)
	u64 value = 0;
	u64 left = offset < limit ? limit - offset : 0;
	for (u64 i = 0; i < 8; i++) {
		cio_keep(i);
		if (i >= left)
			return 0;
		u64 c = *cio_at_SPACE(offset + i);
		value = value << 7 | (c & 127);
		if (c < 128) {
			CIO_SET_SECOND(value);
			return i + 1;
		}
	}
	if (left < 9)
		return 0;
	CIO_SET_SECOND(value << 8 | *cio_at_SPACE(offset + 8));
	return 9;
}

#ifdef CIO_BPF
#define cio_varint_sqlite_SPACE cio_varint_sqlite_SPACE_
#else
CIO_INLINE u64 cio_varint_sqlite_SPACE(CIO_HELP_PARAMS, u64 offset, u64 limit, u64 *second)
{
	if (cio_likely(offset < limit)) {
		u64 c = *cio_at_SPACE(offset);
		if (cio_likely(c < 128)) {
			*second = c;
			return 1;
		}
	}
	return cio_varint_sqlite_SPACE_(m, b, offset, limit, second);
}
#endif
