/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CRC-32C of up to 256 bytes: a function of its own, so that the verifier follows its loop once. */
CIO_HELPER u64 cio_crc32c_piece_SPACE(CIO_HELP_PARAMS, u64 crc, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	u64 i = 0;
#ifdef CIO_BPF
	for (; i < 256; i++) {
		cio_keep(i);
		if (i >= length)
			break;
		crc = crc >> 8 ^ cio_crc32c_table[cio_mask(crc ^ *cio_at_SPACE(offset + i), 255)];
	}
#else
#ifdef CIO_CRC32C_INSTRUCTION
	if (cio_has_crc32c) {
		crc = cio_crc32c_words(crc, cio_at_SPACE(offset), length / 8);
		i = length / 8 * 8;
	}
#endif
	for (; i + 8 <= length; i += 8) {
		u64 x = cio_ld8(cio_at_SPACE(offset + i)) ^ crc;
		crc = cio_crc32c_table[7 * 256 + (x & 255)] ^ cio_crc32c_table[6 * 256 + (x >> 8 & 255)] ^
		      cio_crc32c_table[5 * 256 + (x >> 16 & 255)] ^ cio_crc32c_table[4 * 256 + (x >> 24 & 255)] ^
		      cio_crc32c_table[3 * 256 + (x >> 32 & 255)] ^ cio_crc32c_table[2 * 256 + (x >> 40 & 255)] ^
		      cio_crc32c_table[256 + (x >> 48 & 255)] ^ cio_crc32c_table[x >> 56];
	}
	for (; i < length; i++)
		crc = crc >> 8 ^ cio_crc32c_table[(crc ^ *cio_at_SPACE(offset + i)) & 255];
#endif
	return crc;
}

CIO_HELPER u64 cio_crc32c_SPACE(CIO_HELP_PARAMS, u64 seed, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	u64 crc = (u32)~seed;
	for (u64 i = 0; i < MAXIMUM; i += 256) {
		cio_keep(i);
		if (i >= length)
			break;
		crc = cio_crc32c_piece_SPACE(m, b, crc, offset + i, cio_min(length - i, 256));
	}
	return (u32)~crc;
}
