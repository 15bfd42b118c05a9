/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* 1 to 20 ASCII digits whose value fits 64 bits are the second result; the first says whether they are such. */
CIO_HELPER int cio_decimal_SPACE(CIO_HELP_PARAMS, u64 offset, u64 length CIO_SECOND_PARAM)
{
	CIO_HELP_ENTER(0)
	u64 value = 0;
	if (length - 1 >= 20)
		return 0;
	for (u64 i = 0; i < 20; i++) {
		cio_keep(i);
		if (i >= length)
			break;
		u64 digit = *cio_at_SPACE(offset + i) - 48ull;
		if (digit > 9 || value > 1844674407370955161ull || (value == 1844674407370955161ull && digit > 5))
			return 0;
		value = value * 10 + digit;
	}
	CIO_SET_SECOND(value);
	return 1;
}
