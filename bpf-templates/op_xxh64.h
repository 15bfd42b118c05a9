/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Works whole stripes of 32 bytes into the lanes and says how many bytes they were. */
CIO_HELPER u64 cio_xxh64_stripes_SPACE(CIO_HELP_PARAMS, u64 offset, u64 length CIO_LANES_PARAM)
{
	CIO_HELP_ENTER(0)
	u64 l0 = CIO_LANE(0), l1 = CIO_LANE(1), l2 = CIO_LANE(2), l3 = CIO_LANE(3), i;
	for (i = 0; i < CIO_ROUND(MAXIMUM); i += 32) {
		cio_keep(i);
		if (i + 32 > length)
			break;
		l0 = cio_xxh_round(l0, cio_ld8(cio_at_SPACE(offset + i)));
		l1 = cio_xxh_round(l1, cio_ld8(cio_at_SPACE(offset + i + 8)));
		l2 = cio_xxh_round(l2, cio_ld8(cio_at_SPACE(offset + i + 16)));
		l3 = cio_xxh_round(l3, cio_ld8(cio_at_SPACE(offset + i + 24)));
	}
	CIO_LANE(0) = l0;
	CIO_LANE(1) = l1;
	CIO_LANE(2) = l2;
	CIO_LANE(3) = l3;
	return i;
}

/* XXH64. */
CIO_HELPER u64 cio_xxh64_SPACE(CIO_HELP_PARAMS, u64 seed, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	u64 hash = seed + CIO_XXH_5, i = 0;
	if (length >= 32) {
		CIO_LANES
		CIO_LANE(0) = seed + CIO_XXH_1 + CIO_XXH_2;
		CIO_LANE(1) = seed + CIO_XXH_2;
		CIO_LANE(2) = seed;
		CIO_LANE(3) = seed - CIO_XXH_1;
		CIO_IN_PIECES(MAXIMUM, i, length, cio_xxh64_stripes_SPACE(m, b, offset + k_, length - k_ CIO_LANES_ARG))
		hash = cio_rotl(CIO_LANE(0), 1) + cio_rotl(CIO_LANE(1), 7) + cio_rotl(CIO_LANE(2), 12) + cio_rotl(CIO_LANE(3), 18);
		for (u64 k = 0; k < 4; k++)
			hash = (hash ^ cio_xxh_round(0, CIO_LANE(k))) * CIO_XXH_1 + CIO_XXH_4;
	}
	hash += length;
	for (u64 k = 0; k < 3; k++) {
		cio_keep(k);
		if (i + 8 > length)
			break;
		hash = cio_rotl(hash ^ cio_xxh_round(0, cio_ld8(cio_at_SPACE(offset + i))), 27) * CIO_XXH_1 + CIO_XXH_4;
		i += 8;
	}
	if (i + 4 <= length) {
		hash = cio_rotl(hash ^ cio_ld4(cio_at_SPACE(offset + i)) * CIO_XXH_1, 23) * CIO_XXH_2 + CIO_XXH_3;
		i += 4;
	}
	for (u64 k = 0; k < 3; k++) {
		cio_keep(k);
		if (i >= length)
			break;
		hash = cio_rotl(hash ^ *cio_at_SPACE(offset + i) * CIO_XXH_5, 11) * CIO_XXH_1;
		i += 1;
	}
	hash = (hash ^ hash >> 33) * CIO_XXH_2;
	hash = (hash ^ hash >> 29) * CIO_XXH_3;
	return hash ^ hash >> 32;
}
