/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests of services, answered inside the loop: connections are accepted, a request is received into its connection's frame, its
 * handler runs and starts a chain in the flight of the same number, and the reply is sent, all by the one system call. A connection
 * has one operation under way; what comes next for it is its turn, among the ready chains. chainc writes before this text:
 * cio_serve_handler(), which runs a handler. */

/* Nothing of the connection is under way: its next request, the next receive, or its end. */
CIO_GLOBAL int cio_serve_look(struct cio_conn *c, struct cio_service *s)
{
	if (!c || !s)
		return 0;
	u32 have = c->in_to - c->in_from;
	c->out_from = c->out_to = 0;
	if (!have)
		c->in_from = c->in_to = 0;
	if (c->leaving || (c->at_end && have < s->request_bytes)) {
		if (!c->leaving && have)
			s->unanswered++; /* the rest of it will not come */
		c->state = c->at_end ? CIO_CONN_CLOSE : CIO_CONN_TELL;
	} else if (have >= s->request_bytes) {
		c->state = CIO_CONN_RUN;
		c->program = s->on_request;
		c->resume = c->reply = c->stretch_bytes = c->ending = c->told = 0;
		c->fresh = 1;
		c->limit = 0;
		s->requests++;
	} else {
		c->state = CIO_CONN_RECEIVE;
		/* The time for a request runs from its first byte, however its bytes trickle in. */
		if (!have)
			c->limit = 0;
		else if (!c->limit)
			c->limit = cio_ktime() + CIO_SERVE_AT(timeout_ns);
	}
	return 0;
}

/* A program of the request has ended: the one that says what went wrong runs next, or the reply goes out. */
CIO_GLOBAL int cio_serve_ended(struct cio_conn *c, struct cio_service *s, u64 outcome)
{
	if (!c || !s)
		return 0;
	if (outcome != CIO_OK && outcome != s->close_outcome) {
		c->ending = outcome == CIO_MALFORMED && !(c->told & 1) ? CIO_CONN_MALFORMED : CIO_CONN_FAILED;
		u32 next = CIO_LOOP_NONE;
		if (c->ending == CIO_CONN_FAILED && s->on_failure != CIO_LOOP_NONE && !(c->told & 2)) {
			next = s->on_failure;
			c->told = 3;
		} else if (s->on_malformed != CIO_LOOP_NONE && !(c->told & 1)) {
			next = s->on_malformed;
			c->told |= 1;
		}
		if (next != CIO_LOOP_NONE) {
			c->program = next;
			c->resume = 0;
			return 0;
		}
	}
	if (outcome != CIO_OK)
		c->leaving = 1;
	if (c->ending == CIO_CONN_ANSWERED)
		s->answered++;
	else if (c->ending == CIO_CONN_MALFORMED)
		s->malformed++;
	else
		s->failed++;
	c->in_from += s->request_bytes;
	c->out_from = 0;
	c->out_to = c->reply + c->stretch_bytes;
	c->waits = 0;
	c->state = CIO_CONN_SEND;
	return c->out_to ? 0 : cio_serve_look(c, s);
}

/* Where a chain's result lies is told by its step memory, which stays as it is until its handler has gone on. */
CIO_GLOBAL int cio_serve_result(struct cio_conn *c, struct cio_service *s, struct cio_flight *f, struct cio_mem *m)
{
	if (!c || !s || !f || !m)
		return 0;
	u64 outcome = f->outcome, room = 0, from = 0, length = m->io.out_length;
	c->ok = c->result_length = 0;
	c->scalar = 0;
	if (outcome == CIO_OK && m->io.result_kind == CIO_RESULT_SCALAR) {
		c->ok = 1;
		c->scalar = m->io.result;
		return 0;
	}
	if (m->io.result_kind == CIO_RESULT_SLICE) {
		length = m->io.slice_length;
		from = m->io.slice_offset;
		if (m->io.slice_space == CIO_SPACE_ARGS)
			room = CIO_ARG_BYTES_SIZE;
		else if (m->io.slice_space == CIO_SPACE_STATE)
			room = CIO_STATE_SIZE;
		else if (m->io.slice_space == CIO_SPACE_BLOCK && f->ran != CIO_LOOP_NONE)
			room = f->slots[cio_mask(f->ran, CIO_LOOP_WINDOW - 1)].length;
	} else {
		room = CIO_OUT_SIZE;
	}
	if (outcome == CIO_OK && !cio_inside(from, length, room))
		outcome = CIO_MALFORMED;
	if (outcome == CIO_OK) {
		c->ok = 1;
		c->scalar = c->result_length = length;
		return 0;
	}
	/* An answer that does not exist is the handler's business; any other outcome is a failure of the request. Bytes of a file that
	 * are malformed do not make a request of bad form out of the one that needed them. */
	if (outcome == CIO_NOT_FOUND || outcome == CIO_NO_RESULT || outcome >= CIO_USER)
		return 0;
	return cio_serve_ended(c, s, outcome == CIO_MALFORMED ? CIO_IO_ERROR : outcome);
}

/* A chain has ended that a request waits for. */
CIO_INLINE void cio_serve_chain_ended(u8 *memory, u64 at, struct cio_place *p)
{
	struct cio_conn *c = cio_serve_conn(memory, at);
	p->f.phase = CIO_LOOP_SERVE;
	cio_serve_result(c, cio_serve_service(memory, c->service), &p->f, &p->m);
}

/* The flight and its step memory become those of the call that the handler stopped at. */
CIO_GLOBAL int cio_serve_call(struct cio_flight *f, struct cio_site *site, struct cio_mem *m)
{
	if (!f || !site || !m)
		return 0;
	f->phase = CIO_LOOP_START;
	f->outcome = CIO_OK;
	f->ran = CIO_LOOP_NONE;
	f->queued = f->head = f->issued = f->on_device = 0;
	f->entry = site->entry;
	f->done = site->done;
	f->hops = site->hops;
	f->step_base = site->step_base;
	f->step_count = site->step_count;
	f->file_count = site->file_count;
	f->wants_result = site->wants_result;
	f->level = site->level;
	for (u64 i = 0; i < CIO_LOOP_FILES; i++) {
		cio_keep(i);
		if (i >= site->file_count)
			break;
		f->files[i].slot = site->files[i].slot;
		f->files[i].align_mask = site->files[i].align_mask;
	}
	for (u64 i = 0; i < CIO_SERVE_HEADERS; i++) {
		cio_keep(i);
		if (i >= site->header_count)
			break;
		m->io.args[cio_mask(site->header_slot[i], CIO_MAX_ARGS - 1)] = site->header[i];
	}
	/* All of the state, not only this chain's part of it: another chain's bytes must never show. */
	for (u64 i = 0; i + 8 <= CIO_STATE_SIZE; i += 8) {
		cio_keep(i);
		*(u64 *)cio_at_state(i) = *(u64 *)(site->state + cio_mask(i, CIO_MAX_STATE - 8));
	}
	m->io.out_length = 0;
	m->io.result = 0;
	return 0;
}

/* The place of the bytes that the connection's chain gave, counted from the region's begin. */
CIO_INLINE u64 cio_serve_result_at(u64 at, struct cio_flight *f, struct cio_mem *m)
{
	u64 from = m->io.slice_offset, slot = f->ran, skip;
	u64 memory = CIO_AT(places_offset) + at * CIO_AT(place_stride) + sizeof(struct cio_flight);
	if (m->io.result_kind != CIO_RESULT_SLICE)
		return memory + CIO_OUT_OFFSET;
	if (m->io.slice_space == CIO_SPACE_ARGS)
		return memory + CIO_ARG_BYTES_OFFSET + cio_mask(from, CIO_MAX_ARG_BYTES - 1);
	if (m->io.slice_space == CIO_SPACE_STATE)
		return memory + CIO_STATE_OFFSET + cio_mask(from, CIO_MAX_STATE - 1);
	slot &= CIO_AT(window_mask);
	skip = cio_mask(f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)].skip, CIO_LOOP_ALIGN - 1);
	return CIO_AT(frames_offset) + at * CIO_AT(frames_stride) + slot * CIO_AT(frame_bytes) + skip + cio_mask(from, CIO_MAX_BLOCK - 1);
}

/* The request's handler runs, from its begin or behind the call that it stopped at. */
CIO_INLINE int cio_serve_run(u8 *memory, u64 at, struct cio_place *p, struct cio_conn *c, struct cio_service *s)
{
	struct cio_loop_head *h = (void *)memory;
	struct cio_flight *f = &p->f;
	struct cio_mem *m = &p->m;
	u64 from = c->in_from;
	from &= CIO_SERVE_AT(in_mask);
	u8 *b = memory + CIO_SERVE_AT(in_offset) + at * CIO_SERVE_AT(in_stride) + from;
	u64 result = cio_serve_result_at(at, f, m);
	u8 *r = memory + result;
	c->result_at = result;
	u8 *o = memory + CIO_SERVE_AT(out_offset) + at * CIO_SERVE_AT(out_stride);
	m->io.block_offset = m->io.block_tag = 0;
	m->io.block_length = s->request_bytes;
	m->io.block_file = 0;
	m->io.outcome = CIO_OK;
	m->io.finished = m->io.next_count = m->io.prefetch_count = 0;
	if (cio_serve_handler(c->program, m, (void *)b, c, (void *)r, (void *)o) != CIO_CALLS) {
		cio_serve_ended(c, s, m->io.outcome);
		return CIO_LOOP_READY;
	}
	u64 site = c->site;
	site = cio_mask(site, CIO_SERVE_SITES - 1) * sizeof(struct cio_site);
	cio_serve_call(f, (void *)((u8 *)cio_serve_head(memory)->sites + site), m);
	h->live[cio_mask(f->level, CIO_LOOP_LEVELS - 1)]++;
	h->urgent = cio_min(h->urgent, f->level);
	return CIO_LOOP_READY;
}

/* A connection's turn. */
CIO_INLINE int cio_serve_turn(u8 *memory, u8 *sqes, u64 at, struct cio_place *p)
{
	struct cio_loop_head *h = (void *)memory;
	struct cio_conn *c = cio_serve_conn(memory, at);
	struct cio_service *s = cio_serve_service(memory, c->service);
	/* What the kernel may still send is written over by no request, and nobody else gets its memory. */
	if (c->notices && (c->state == CIO_CONN_CLOSE || (c->state == CIO_CONN_RUN && c->fresh))) {
		c->held = 1;
		return CIO_LOOP_WAIT;
	}
	if (c->state == CIO_CONN_RUN) {
		c->fresh = 0;
		return cio_serve_run(memory, at, p, c, s);
	}
	u64 place = h->sqes, which = at;
	place = cio_mask(place, CIO_LOOP_SQES - 1);
	if (place > CIO_LOOP_SQES - 2)
		return CIO_LOOP_READY;
	if (cio_serve_head(memory)->draining)
		which |= 1ull << 32;
	cio_serve_issue(h, c, s, (void *)(sqes + place * sizeof(struct cio_loop_sqe)), which);
	return CIO_LOOP_WAIT;
}

CIO_INLINE void cio_serve_received(struct cio_conn *c, struct cio_service *s, s64 result, u64 draining)
{
	c->armed = 0;
	if (c->state == CIO_CONN_LINGER) {
		if (result <= 0 && result != -CIO_EINTR && result != -CIO_EAGAIN)
			c->state = CIO_CONN_CLOSE;
		return;
	}
	if (result > 0) {
		u32 bytes = cio_min(result, s->in_bytes - c->in_to);
		s->bytes_in += bytes;
		c->in_to += bytes;
	} else if (result == 0) {
		c->at_end = 1;
	} else if (result == -CIO_EINTR || (draining && result == -CIO_ECANCELED)) {
		return; /* again: what has come until now is still answered */
	} else if (result == -CIO_EAGAIN) {
		if (!draining)
			return;
		c->leaving = 1;
	} else {
		if (result == -CIO_ECANCELED)
			s->timeouts++;
		c->state = CIO_CONN_CLOSE;
		return;
	}
	cio_serve_look(c, s);
}

CIO_INLINE void cio_serve_sent(struct cio_conn *c, struct cio_service *s, s64 result, int zero_copy)
{
	if (result > 0) {
		u32 bytes = cio_min(result, c->out_to - c->out_from);
		s->bytes_out += bytes;
		c->out_from += bytes;
		c->waits = 0;
		if (c->out_from == c->out_to)
			cio_serve_look(c, s);
		else
			s->partial_sends++;
	} else if (result == -CIO_EAGAIN) {
		c->waits = 1;
		s->waited_sends++;
	} else if (zero_copy && (result == -CIO_ENOMEM || result == -CIO_ENOBUFS || result == -CIO_EOPNOTSUPP)) {
		c->plain = 1;
		s->zero_copy_refused++;
	} else if (result != -CIO_EINTR) {
		/* TCP has the same limit for what a peer does not acknowledge. */
		if (result == -CIO_ECANCELED || result == -CIO_ETIMEDOUT)
			s->timeouts++;
		else
			s->vanished++;
		c->state = CIO_CONN_CLOSE;
	}
}

/* A send without a copy comes back when it has sent, and once more when the kernel has let go of the bytes; 1 when it is the
 * connection's turn. */
CIO_INLINE int cio_serve_zero_copy(struct cio_conn *c, struct cio_service *s, u64 which, s64 result)
{
	if (which & CIO_SERVE_NOTICE) {
		c->notices--;
		s->zero_copy_copied += (u32)result & CIO_COPIED ? 1 : 0;
		if (c->notices || !c->held)
			return 0;
		c->held = 0;
		return 1;
	}
	if (which & CIO_SERVE_MORE)
		c->notices++;
	s->zero_copy_sends += result > 0;
	cio_serve_sent(c, s, result, 1);
	return 1;
}

/* An operation of a connection has come back; 1 when it is the connection's turn. `which`: the operation, bit 32 as above, and CIO_SERVE_MORE and
 * CIO_SERVE_NOTICE. */
CIO_GLOBAL int cio_serve_came(struct cio_conn *c, struct cio_service *s, u64 which, u64 code)
{
	if (!c || !s)
		return 0;
	s64 result = (s64)(code << 32) >> 32;
	u32 op = which;
	if (op == CIO_SERVE_RECEIVE) {
		cio_serve_received(c, s, result, which >> 32 & 1);
	} else if (op == CIO_SERVE_SEND) {
		cio_serve_sent(c, s, result, 0);
	} else if (op == CIO_SERVE_SEND_ZERO_COPY) {
		return cio_serve_zero_copy(c, s, which, result);
	} else if (op == CIO_SERVE_SHUTDOWN) {
		c->state = result < 0 ? CIO_CONN_CLOSE : CIO_CONN_LINGER;
		c->limit = cio_ktime() + CIO_SERVE_AT(linger_ns);
	} else if (op == CIO_SERVE_CLOSE && result != -CIO_EAGAIN && result != -CIO_EINTR) {
		c->state = CIO_CONN_FREE;
		s->open--;
		return 0;
	} else if (op != CIO_SERVE_CLOSE) {
		return 0;
	}
	return 1;
}

/* A connection came, or accepting ended; 1 when connection `result` - first_slot has its turn. */
CIO_GLOBAL int cio_serve_accepted(struct cio_serve_head *v, struct cio_service *s, u64 code, u64 more)
{
	if (!v || !s)
		return 0;
	s64 result = (s64)(code << 32) >> 32;
	if (!more)
		s->accept = s->accept == CIO_ACCEPT_STOPPING || s->accept == CIO_ACCEPT_STOP ? CIO_ACCEPT_NO : CIO_ACCEPT_ARM;
	if (result >= 0) {
		s->accepted++;
		s->open++;
		return 1;
	}
	if (result == -CIO_ENFILE) {
		/* The kernel puts the connection away behind this call, and would sleep before that. */
		s->refused++;
		v->at_once = 1;
	} else if (result != -CIO_EINTR && result != -CIO_EAGAIN && result != -CIO_ECONNABORTED && result != -CIO_ENOMEM &&
		   result != -CIO_EMFILE && result != -CIO_ECANCELED) {
		v->failed = -result;
		v->stop = 1;
		s->accept = CIO_ACCEPT_NO;
	}
	return 0;
}

CIO_GLOBAL int cio_serve_begin(struct cio_conn *c, struct cio_service *s, struct cio_flight *f, u64 service)
{
	if (!c || !s || !f)
		return 0;
	c->service = service;
	c->in_from = c->in_to = c->at_end = c->leaving = c->armed = c->plain = 0;
	c->stretch_least = s->stretch_least;
	f->phase = CIO_LOOP_SERVE;
	f->level = s->level;
	return cio_serve_look(c, s);
}

/* What came back is not a read. */
CIO_INLINE void cio_serve_event(u8 *memory, u64 token, u64 code, u64 flags)
{
	struct cio_loop_head *h = (void *)memory;
	struct cio_serve_head *v = cio_serve_head(memory);
	u64 at = (u32)token, op = token >> 32 & 0xff;
	at &= CIO_AT(flight_mask);
	struct cio_place *p = cio_loop_place(memory, at);
	h->spin_from = 0;
	if (!(flags & CIO_MORE))
		h->on_device--;
	if (op == CIO_SERVE_CONTROL) {
		v->control_armed = 0;
		v->stop = 1;
		return;
	}
	if (op == CIO_SERVE_ACCEPT) {
		u64 service = (u32)token;
		if (!cio_serve_accepted(v, cio_serve_service(memory, service), code, flags & CIO_MORE))
			return;
		at = (u32)code - CIO_SERVE_AT(first_slot);
		at &= CIO_AT(flight_mask);
		p = cio_loop_place(memory, at);
		cio_serve_begin(cio_serve_conn(memory, at), cio_serve_service(memory, service), &p->f, service);
	} else {
		struct cio_conn *c = cio_serve_conn(memory, at);
		if (v->draining)
			op |= 1ull << 32;
		op |= flags & CIO_MORE ? CIO_SERVE_MORE : flags & CIO_NOTICE ? CIO_SERVE_NOTICE : 0;
		if (!cio_serve_came(c, cio_serve_service(memory, c->service), op, code))
			return;
	}
	cio_loop_put(memory, at, p, CIO_LOOP_READY);
}

/* The operations that belong to no connection: accepting, and the descriptor that ends the system call. */
CIO_INLINE void cio_serve_standing(u8 *memory, u8 *sqes)
{
	struct cio_loop_head *h = (void *)memory;
	struct cio_serve_head *v = cio_serve_head(memory);
	for (u64 i = 0; i <= CIO_SERVE_SERVICES; i++) {
		cio_keep(i);
		u64 place = h->sqes;
		place = cio_mask(place, CIO_LOOP_SQES - 1) * sizeof(struct cio_loop_sqe);
		struct cio_loop_sqe *sqe = (void *)(sqes + place);
		if (i == CIO_SERVE_SERVICES) {
			if (v->control_armed)
				return;
			v->control_armed = 1;
			cio_serve_sqe(h, sqe, CIO_OP_POLL, CIO_SERVE_AT(control_slot), cio_serve_token(CIO_SERVE_CONTROL, 0));
			sqe->rw_flags = 1; /* POLLIN */
			return;
		}
		struct cio_service *s = cio_serve_service(memory, i);
		if (s->accept == CIO_ACCEPT_ARM) {
			s->accept = CIO_ACCEPT_ARMED;
			cio_serve_sqe(h, sqe, CIO_OP_ACCEPT, s->slot, cio_serve_token(CIO_SERVE_ACCEPT, i));
			sqe->ioprio = 1;                       /* IORING_ACCEPT_MULTISHOT */
			sqe->rest[0] = 0xffffffffull << 32; /* IORING_FILE_INDEX_ALLOC */
		} else if (s->accept == CIO_ACCEPT_STOP) {
			s->accept = CIO_ACCEPT_STOPPING;
			cio_serve_sqe(h, sqe, CIO_OP_CANCEL, CIO_LOOP_NONE, cio_serve_token(CIO_SERVE_CANCEL, 0));
			sqe->flags = 0;
			sqe->address = cio_serve_token(CIO_SERVE_ACCEPT, i);
		}
	}
}

/* How many completions to wait for; -1: the system call ends. */
CIO_INLINE int cio_serve_patience(u8 *memory, u64 pending)
{
	struct cio_loop_head *h = (void *)memory;
	if (h->left_from < h->left_to)
		return 0;
	struct cio_serve_head *v = cio_serve_head(memory);
	if (v->stop)
		return -1;
	u64 left = !v->draining;
	for (u64 i = 0; i < CIO_SERVE_SERVICES; i++) {
		cio_keep(i);
		left |= v->services[i].open | v->services[i].accept;
	}
	if (!left)
		return -1;
	u64 at_once = v->at_once;
	v->at_once = 0;
	if (at_once || pending || h->waiting || cio_loop_spins(h))
		return 0;
	return 1;
}
