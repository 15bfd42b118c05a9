/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The integer of 0 to 8 bytes at `p`, little-endian. */
CIO_INLINE u64 cio_bytes8(const u8 *p, u64 length)
{
#ifdef CIO_BPF
	return length ? cio_ld8(p) << (64 - 8 * length & 63) >> (64 - 8 * length & 63) : 0;
#else
	if (length >= 8)
		return cio_ld8(p);
	if (length >= 4)
		return cio_ld4(p) | cio_ld4(p + length - 4) << 8 * (length - 4);
	if (length >= 2)
		return cio_ld2(p) | cio_ld2(p + length - 2) << 8 * (length - 2);
	return length ? p[0] : 0;
#endif
}

CIO_INLINE u64 cio_int_le(const u8 *p, u64 length) { return cio_bytes8(p, length); }
CIO_INLINE u64 cio_int_be(const u8 *p, u64 length)
{
	return length ? __builtin_bswap64(cio_bytes8(p, length)) >> (64 - 8 * length & 63) : 0;
}
CIO_INLINE u64 cio_int_sext(u64 x, u64 length) { return length ? cio_sext(x, 8 * (u32)length) : 0; }
