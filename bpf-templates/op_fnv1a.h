/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* FNV-1a of up to 256 bytes: a function of its own, so that the verifier follows its loop once. */
CIO_HELPER u64 cio_fnv1a_piece_SPACE(CIO_HELP_PARAMS, u64 hash, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	for (u64 i = 0; i < 256; i++) {
		cio_keep(i);
		if (i >= length)
			break;
		hash = (hash ^ *cio_at_SPACE(offset + i)) * 0x100000001b3ull;
	}
	return hash;
}

CIO_HELPER u64 cio_fnv1a_SPACE(CIO_HELP_PARAMS, u64 seed, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	u64 hash = 0xcbf29ce484222325ull ^ seed;
	for (u64 i = 0; i < MAXIMUM; i += 256) {
		cio_keep(i);
		if (i >= length)
			break;
		hash = cio_fnv1a_piece_SPACE(m, b, hash, offset + i, cio_min(length - i, 256));
	}
	return hash;
}
