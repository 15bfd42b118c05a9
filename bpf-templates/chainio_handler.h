/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the handlers of services are written with: a handler is one function that runs to its end, or to the call of a chain, and
 * is called again behind it. All that it has to remember lies in its connection. `b` is the request, `r` the chain's result, `o` the
 * reply. */
#define CIO_CALLS 3 /* it waits for the chain of c->site */
#define CIO_HANDLER(n)                                                                                                    \
	CIO_GLOBAL int cio_handler_##n(struct cio_mem *m, struct cio_block *b, struct cio_conn *c, struct cio_block *r, \
				       struct cio_block *o)
#define CIO_HANDLER_ENTER \
	if (!m || !b || !c || !r || !o) \
		return CIO_STOP;
/* A value of a handler lies in its connection and nowhere else. Were values kept at hand as well, as the compiler would have it, those
 * of a long handler would not fit the 512 bytes of stack, of which the loop around it has some. */
#define CIO_KEPT(n) (*(volatile u64 *)&c->regs[n])
#define cio_at_reply(offset) ((u8 *)o + cio_mask(offset, CIO_MAX_BLOCK - 1))

/* Appends the low `width` bytes of a number. */
CIO_GLOBAL int cio_reply_number(struct cio_conn *c, struct cio_block *o, u64 value, u64 width)
{
	if (!c || !o)
		return 0;
	u64 to = c->reply;
	if (!cio_inside(to, width, CIO_REPLY_BYTES))
		return 0;
	for (u64 i = 0; i < 8; i++) {
		cio_keep(i);
		if (i >= width)
			break;
		*cio_at_reply(to + i) = (u8)(value >> (8 * i));
	}
	c->reply = (u32)(to + width);
	return 1;
}

/* How many digits a number has. A function, so that the verifier does not follow what comes after once for every number of them. */
CIO_GLOBAL int cio_digits(u64 value, u64 base)
{
	int count = 0;
	for (u64 i = 0; base && i < 20; i++) {
		cio_keep(i);
		count++;
		value /= base;
		if (!value)
			break;
	}
	return count;
}

/* Appends a number in digits of base 10 or 16. */
CIO_GLOBAL int cio_reply_digits(struct cio_conn *c, struct cio_block *o, u64 value, u64 base)
{
	if (!c || !o || !base)
		return 0;
	u64 to = c->reply, count = (u32)cio_digits(value, base);
	if (!cio_inside(to, count, CIO_REPLY_BYTES))
		return 0;
	for (u64 i = 0; i < 20; i++) {
		cio_keep(i);
		if (i >= count)
			break;
		u64 digit = value % base;
		*cio_at_reply(to + count - 1 - i) = (u8)(digit < 10 ? '0' + digit : 'a' + digit - 10);
		value /= base;
	}
	c->reply = (u32)(to + count);
	return 1;
}

/* A long result is not copied: the reply says where it lies, once. */
CIO_GLOBAL int cio_reply_stretch(struct cio_conn *c, u64 offset, u64 length)
{
	if (!c || !c->stretch_least || length < c->stretch_least || c->stretch_bytes || !cio_inside(c->reply, length, CIO_REPLY_BYTES))
		return 0;
	c->stretch_at = c->reply;
	c->stretch_bytes = (u32)length;
	c->stretch_from = c->result_at + (u32)offset; /* above: which result */
	return 1;
}

/* Eight of the argument bytes, but for those that an argument has taken. A function without a loop around it, so that the verifier does not go through
 * the rest of the area once for every place where it may begin. */
CIO_GLOBAL int cio_arguments_clear(struct cio_mem *m, u64 at, u64 used)
{
	if (!m)
		return 0;
	if (at >= used) {
		cio_st8(cio_fix_args(cio_mask(at, CIO_ARG_BYTES_SIZE - 8)), 0);
		return 0;
	}
	for (u64 i = 0; i < 8; i++) {
		cio_keep(i);
		if (at + i >= used)
			*cio_at_args(at + i) = 0;
	}
	return 0;
}

/* What of the argument bytes no argument has taken: another chain's must never show. */
CIO_GLOBAL int cio_arguments_end(struct cio_mem *m, u64 used)
{
	if (!m)
		return 0;
	for (u64 i = 0; i < CIO_ARG_BYTES_SIZE; i += 8) {
		cio_keep(i);
		cio_arguments_clear(m, i, used);
	}
	return 0;
}
