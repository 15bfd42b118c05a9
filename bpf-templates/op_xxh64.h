/* XXH64. */
CIO_HELPER u64 cio_xxh64_SPACE(CIO_HELP_PARAMS, u64 seed, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	u64 hash = seed + CIO_XXH_5, i = 0;
	if (length >= 32) {
		u64 l1 = seed + CIO_XXH_1 + CIO_XXH_2, l2 = seed + CIO_XXH_2, l3 = seed, l4 = seed - CIO_XXH_1;
		for (; i < MAXIMUM; i += 32) {
			cio_keep(i);
			if (i + 32 > length)
				break;
			l1 = cio_xxh_round(l1, cio_ld8(cio_at_SPACE(offset + i)));
			l2 = cio_xxh_round(l2, cio_ld8(cio_at_SPACE(offset + i + 8)));
			l3 = cio_xxh_round(l3, cio_ld8(cio_at_SPACE(offset + i + 16)));
			l4 = cio_xxh_round(l4, cio_ld8(cio_at_SPACE(offset + i + 24)));
		}
		hash = cio_rotl(l1, 1) + cio_rotl(l2, 7) + cio_rotl(l3, 12) + cio_rotl(l4, 18);
		hash = cio_xxh_merge(cio_xxh_merge(cio_xxh_merge(cio_xxh_merge(hash, l1), l2), l3), l4);
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
