/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What connections of services ask of the kernel: the SQEs that chainio_serve_bpf.h has written, which stands behind this text. */
const volatile struct cio_serve_layout cio_serve_layout CIO_SEC(".rodata.serve");
#define CIO_SERVE_AT(name) cio_serve_layout.name

#define CIO_LINK 4 /* IOSQE_IO_LINK */
#define CIO_MORE 2   /* IORING_CQE_F_MORE */
#define CIO_NOTICE 8 /* IORING_CQE_F_NOTIF */
#define CIO_COPIED (1u << 31) /* IORING_NOTIF_USAGE_ZC_COPIED */
#define CIO_OP_SENDMSG 9
#define CIO_OP_POLL 6
#define CIO_OP_ACCEPT 13
#define CIO_OP_CANCEL 14
#define CIO_OP_LINK_TIMEOUT 15
#define CIO_OP_CLOSE 19
#define CIO_OP_SEND 26
#define CIO_OP_RECV 27
#define CIO_OP_SHUTDOWN 34
#define CIO_OP_SEND_ZC 47
#define CIO_OP_SENDMSG_ZC 48
#define CIO_DONTWAIT 0x40
#define CIO_NOSIGNAL 0x4000
#define CIO_ENOMEM 12
#define CIO_ENOBUFS 105
#define CIO_EOPNOTSUPP 95
#define CIO_ENFILE 23
#define CIO_EMFILE 24
#define CIO_ECONNABORTED 103
#define CIO_ETIMEDOUT 110
#define CIO_ECANCELED 125
#define CIO_SECOND_NS 1000000000ull

/* Beside an operation that has come back: it will do so once more, and it has done so before. */
#define CIO_SERVE_MORE (1ull << 33)
#define CIO_SERVE_NOTICE (1ull << 34)

/* Two, as an operation with a time limit is. */
struct cio_serve_sqes {
	struct cio_loop_sqe first, second;
};

CIO_INLINE struct cio_serve_head *cio_serve_head(u8 *memory) { return (void *)(memory + CIO_SERVE_AT(head_offset)); }

CIO_INLINE struct cio_conn *cio_serve_conn(u8 *memory, u64 at)
{
	at &= CIO_AT(flight_mask);
	return (void *)(memory + CIO_SERVE_AT(conns_offset) + at * CIO_SERVE_AT(conn_stride));
}

CIO_INLINE struct cio_service *cio_serve_service(u8 *memory, u64 number)
{
	number = cio_mask(number, CIO_SERVE_SERVICES - 1) * sizeof(struct cio_service);
	return (void *)((u8 *)cio_serve_head(memory)->services + number);
}

CIO_INLINE u64 cio_serve_token(u64 op, u64 at) { return CIO_SERVE_TOKEN | op << 32 | at; }

/* Writes an operation that ends at `until` nanoseconds at the latest; 0: when it ends. */
CIO_INLINE void cio_serve_limit(struct cio_loop_head *h, struct cio_conn *c, struct cio_serve_sqes *q, u64 at, u64 until)
{
	if (!until)
		return;
	c->deadline[0] = until / CIO_SECOND_NS;
	c->deadline[1] = until % CIO_SECOND_NS;
	q->first.flags |= CIO_LINK;
	q->second.opcode = CIO_OP_LINK_TIMEOUT;
	q->second.flags = 0;
	q->second.ioprio = 0;
	q->second.fd = CIO_LOOP_NONE;
	q->second.offset = 0;
	q->second.address = CIO_SERVE_AT(base_address) + CIO_SERVE_AT(conns_offset) + at * CIO_SERVE_AT(conn_stride) +
			    __builtin_offsetof(struct cio_conn, deadline);
	q->second.length = 1;
	q->second.rw_flags = 1; /* IORING_TIMEOUT_ABS */
	q->second.user_data = cio_serve_token(CIO_SERVE_TIMEOUT, at);
	q->second.rest[0] = q->second.rest[1] = q->second.rest[2] = 0;
	h->sqes++;
}

CIO_INLINE void cio_serve_sqe(struct cio_loop_head *h, struct cio_loop_sqe *sqe, u32 opcode, u32 fd, u64 token)
{
	sqe->opcode = opcode;
	sqe->flags = CIO_FIXED_FILE;
	sqe->ioprio = 0;
	sqe->fd = fd;
	sqe->offset = sqe->address = 0;
	sqe->length = sqe->rw_flags = 0;
	sqe->user_data = token;
	sqe->rest[0] = sqe->rest[1] = sqe->rest[2] = 0;
	h->sqes++;
}

/* One more piece of memory of what is to be sent; `count` are there. */
CIO_INLINE u64 cio_serve_stretch(struct cio_conn *c, u64 count, u64 place, u64 length)
{
	u64 i = cio_mask(count, 3);
	c->stretches[i].address = CIO_SERVE_AT(base_address) + place;
	c->stretches[i].length = length;
	return count + 1;
}

/* The rest of a reply: what its handler has written, and the stretch of a result in between. A long one goes without a copy, when no
 * other request of its connection is there that would have to wait until the peer has it; of one that a socket takes in parts only
 * the first does, so that a connection has one notice at most in the completion queue. */
CIO_GLOBAL int cio_serve_send(struct cio_loop_head *h, struct cio_conn *c, struct cio_service *s, struct cio_serve_sqes *q, u64 at)
{
	if (!h || !c || !s || !q)
		return 0;
	u64 out = CIO_SERVE_AT(out_offset) + at * CIO_SERVE_AT(out_stride), from = c->out_from, to = c->out_to, count = 0;
	u64 begin = c->stretch_bytes ? c->stretch_at : to, end = begin + c->stretch_bytes;
	u64 zero_copy = CIO_SERVE_AT(zero_copy);
	zero_copy = zero_copy && to - from >= zero_copy && !c->plain && !c->notices && c->in_to - c->in_from < s->request_bytes;
	if (from < begin)
		count = cio_serve_stretch(c, count, out + from, begin - from);
	if (from < end && begin < end)
		count = cio_serve_stretch(c, count, c->stretch_from + cio_max(from, begin) - begin, end - cio_max(from, begin));
	if (end < to)
		count = cio_serve_stretch(c, count, out + cio_max(from, end) - c->stretch_bytes, to - cio_max(from, end));
	cio_serve_sqe(h, &q->first, zero_copy ? CIO_OP_SEND_ZC : CIO_OP_SEND, CIO_SERVE_AT(first_slot) + at,
		      cio_serve_token(zero_copy ? CIO_SERVE_SEND_ZERO_COPY : CIO_SERVE_SEND, at));
	q->first.address = c->stretches[0].address;
	q->first.length = c->stretches[0].length;
	if (count > 1) {
		u64 conn = CIO_SERVE_AT(base_address) + CIO_SERVE_AT(conns_offset) + at * CIO_SERVE_AT(conn_stride);
		q->first.opcode = zero_copy ? CIO_OP_SENDMSG_ZC : CIO_OP_SENDMSG;
		c->message[2] = conn + __builtin_offsetof(struct cio_conn, stretches);
		c->message[3] = count;
		q->first.address = conn + __builtin_offsetof(struct cio_conn, message);
		q->first.length = 1;
	}
	if (zero_copy)
		q->first.ioprio = CIO_SERVE_AT(zero_copy_flags);
	/* A socket that takes something needs no time limit. */
	q->first.rw_flags = CIO_NOSIGNAL | (c->waits ? 0 : CIO_DONTWAIT);
	cio_serve_limit(h, c, q, at, c->waits ? cio_ktime() + CIO_SERVE_AT(timeout_ns) : 0);
	return 0;
}

/* Writes what a connection asks of the kernel; `which` is its number, and bit 32 says that no connection waits any more. */
CIO_GLOBAL int cio_serve_issue(struct cio_loop_head *h, struct cio_conn *c, struct cio_service *s, struct cio_serve_sqes *q, u64 which)
{
	if (!h || !c || !s || !q)
		return 0;
	u64 at = (u32)which, draining = which >> 32;
	u64 base = CIO_SERVE_AT(base_address), slot = CIO_SERVE_AT(first_slot) + at;
	u64 in = base + CIO_SERVE_AT(in_offset) + at * CIO_SERVE_AT(in_stride);
	if (c->state == CIO_CONN_RECEIVE && c->armed) {
		cio_serve_sqe(h, &q->first, CIO_OP_CANCEL, CIO_LOOP_NONE, cio_serve_token(CIO_SERVE_CANCEL, at));
		q->first.flags = 0;
		q->first.address = cio_serve_token(CIO_SERVE_RECEIVE, at);
	} else if (c->state == CIO_CONN_RECEIVE) {
		c->armed = 1;
		cio_serve_sqe(h, &q->first, CIO_OP_RECV, slot, cio_serve_token(CIO_SERVE_RECEIVE, at));
		q->first.address = in + c->in_to;
		q->first.length = s->in_bytes - c->in_to;
		q->first.ioprio = draining ? 0 : 1; /* IORING_RECVSEND_POLL_FIRST */
		q->first.rw_flags = draining ? CIO_DONTWAIT : 0;
		cio_serve_limit(h, c, q, at, draining ? 0 : c->limit);
	} else if (c->state == CIO_CONN_SEND) {
		cio_serve_send(h, c, s, q, at);
	} else if (c->state == CIO_CONN_TELL) {
		cio_serve_sqe(h, &q->first, CIO_OP_SHUTDOWN, slot, cio_serve_token(CIO_SERVE_SHUTDOWN, at));
		q->first.length = 1; /* SHUT_WR */
	} else if (c->state == CIO_CONN_LINGER) {
		cio_serve_sqe(h, &q->first, CIO_OP_RECV, slot, cio_serve_token(CIO_SERVE_RECEIVE, at));
		q->first.address = in;
		q->first.length = s->in_bytes;
		cio_serve_limit(h, c, q, at, c->limit);
	} else if (c->state == CIO_CONN_CLOSE) {
		cio_serve_sqe(h, &q->first, CIO_OP_CLOSE, 0, cio_serve_token(CIO_SERVE_CLOSE, at));
		q->first.flags = 0;
		q->first.rest[0] = (slot + 1) << 32;
	}
	return 0;
}
