/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies a chain's argument to where its programs look for it. */
CIO_HELPER int cio_argument_SPACE(struct cio_mem *m, struct cio_block *b, u64 to, u64 offset, u64 length)
{
	CIO_HELP_ENTER(0)
	for (u64 i = 0; i < MAXIMUM; i++) {
		cio_keep(i);
		if (i >= length)
			break;
		*cio_at_args(to + i) = *cio_at_SPACE(offset + i);
	}
	return 0;
}
