/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The turns of chains, and the program itself: behind chainio_loop_bpf.h, which says what one chain does. */
/* The place of a chain; `at` is below the number of places. */
CIO_INLINE struct cio_place *cio_loop_place(u8 *memory, u64 at)
{
	return (void *)(memory + CIO_AT(places_offset) + at * CIO_AT(place_stride));
}

CIO_INLINE struct cio_next *cio_loop_queue(struct cio_place *p, u64 number)
{
	number &= CIO_AT(queue_mask);
	return (void *)((u8 *)p + CIO_AT(queue_offset) + number * sizeof(struct cio_next));
}

CIO_INLINE struct cio_loop_sqe *cio_loop_next_sqe(struct cio_loop_head *h, u8 *sqes)
{
	u64 place = h->sqes;
	return (void *)(sqes + cio_mask(place, CIO_LOOP_SQES - 1) * sizeof(struct cio_loop_sqe));
}

#ifdef CIO_SERVE
CIO_INLINE void cio_serve_chain_ended(u8 *memory, u64 at, struct cio_place *p);
CIO_INLINE void cio_serve_event(u8 *memory, u64 token, u64 code, u64 flags);
CIO_INLINE int cio_serve_turn(u8 *memory, u8 *sqes, u64 at, struct cio_place *p);
CIO_INLINE void cio_serve_standing(u8 *memory, u8 *sqes);
CIO_INLINE int cio_serve_patience(u8 *memory, u64 pending);
#endif

/* Puts a chain where its state says: among the ready ones, or the ended ones. */
CIO_INLINE void cio_loop_put(u8 *memory, u64 at, struct cio_place *p, int what)
{
	struct cio_loop_head *h = (void *)memory;
	struct cio_flight *f = &p->f;
#ifdef CIO_SERVE
	if (what == CIO_LOOP_ENDED) {
		h->live[cio_mask(f->level, CIO_LOOP_LEVELS - 1)]--;
		cio_serve_chain_ended(memory, at, p);
		what = CIO_LOOP_READY;
	}
#endif
	if (what == CIO_LOOP_ENDED) {
		u64 place = h->ended_tail;
		place &= CIO_AT(flight_mask);
		*(u32 *)(memory + CIO_AT(ended_offset) + place * sizeof(u32)) = at;
		h->ended_tail++;
		h->live[cio_mask(f->level, CIO_LOOP_LEVELS - 1)]--;
	} else if (what == CIO_LOOP_READY && !f->listed) {
		u64 level = cio_mask(f->level, CIO_LOOP_LEVELS - 1);
		f->listed = 1;
		h->waiting++;
		f->next = CIO_LOOP_NONE;
		if (h->ready[level].first == CIO_LOOP_NONE) {
			h->ready[level].first = at;
		} else {
			u64 last = h->ready[level].last;
			last &= CIO_AT(flight_mask);
			cio_loop_place(memory, last)->f.next = at;
		}
		h->ready[level].last = at;
	}
}

/* Whether one of the reads that the kernel did take has not come back: what it leaves behind may be what the others need. */
CIO_INLINE int cio_loop_others(struct cio_loop_head *h)
{
#ifdef CIO_SERVE
	return 0; /* what is under way may be peers that only think */
#else
	return h->on_device > h->left_to - h->left_from;
#endif
}

/* The SQEs that the kernel did not take: as if each had come back at once, and as a try only if there was nothing to wait for. */
CIO_INLINE void cio_loop_left(u8 *memory, u8 *sqes)
{
	struct cio_loop_head *h = (void *)memory;
	u32 waited = cio_loop_others(h);
	struct bpf_iter_num rounds;
	bpf_iter_num_new(&rounds, 0, CIO_LOOP_ROUNDS);
	while (bpf_iter_num_next(&rounds)) {
		if (h->left_from >= h->left_to)
			break;
		u64 left = cio_mask(h->left_from, CIO_LOOP_SQES - 1), token = ((struct cio_loop_sqe *)sqes)[left].user_data;
		h->left_from++;
#ifdef CIO_SERVE
		if (token & CIO_SERVE_TOKEN) {
			cio_serve_event(memory, token, -CIO_EAGAIN, 0);
			continue;
		}
#endif
		u64 at = (u32)token;
		at &= CIO_AT(flight_mask);
		struct cio_place *p = cio_loop_place(memory, at);
		struct cio_loop_slot *s = &p->f.slots[cio_mask(token >> 32, CIO_LOOP_WINDOW - 1)];
		u32 retries = s->retries;
		int what = cio_loop_arrive(h, &p->f, token >> 32, -CIO_EAGAIN);
		if (waited)
			s->retries = retries;
		cio_loop_put(memory, at, p, what);
	}
	bpf_iter_num_destroy(&rounds);
}

/* A program asked for one read and the chain has no other: that goes out at once, through the queue where its step will look for it.
 * Else CIO_LOOP_ISSUE, and nothing is done. */
CIO_INLINE int cio_loop_one(u8 *memory, u8 *sqes, u64 at, struct cio_place *p)
{
	struct cio_loop_head *h = (void *)memory;
	struct cio_flight *f = &p->f;
	struct cio_io *io = &p->m.io;
	struct cio_next *next = &io->next[0];
	u32 number = f->queued, phase = f->phase;
	if (io->next_count != 1 || io->outcome || io->finished || phase > CIO_LOOP_RUN || f->head + phase != number || number >= f->hops ||
	    !cio_loop_may_read(f, next))
		return CIO_LOOP_ISSUE;
	f->head = number;
	f->queued = f->issued = number + 1;
	f->phase = CIO_LOOP_RUN;
	*cio_loop_queue(p, number) = *next;
	u64 slot = number & CIO_AT(window_mask);
	struct cio_loop_slot *s = &f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)];
	if (!cio_loop_aim(f, s, next))
		return CIO_LOOP_READY;
	cio_loop_read(h, f, s, next, cio_loop_next_sqe(h, sqes), at, slot);
	return CIO_LOOP_WAIT;
}

/* The reads that a program asked for join the chain's queue, as their number says. */
CIO_INLINE void cio_loop_add(struct cio_place *p)
{
	u32 count = p->m.io.next_count, first = p->f.queued - count;
	for (u64 i = 0; i < CIO_MAX_NEXT; i++) {
		cio_keep(i);
		if (i >= count)
			break;
		*cio_loop_queue(p, first + i) = p->m.io.next[i];
	}
}

/* The reads that may be under way at once go out. */
CIO_INLINE int cio_loop_issue_all(u8 *memory, u8 *sqes, u64 at, struct cio_place *p)
{
	struct cio_loop_head *h = (void *)memory;
	for (u64 i = 0; i < CIO_LOOP_WINDOW; i++) {
		cio_keep(i);
		u32 number = p->f.head + i;
		if (i > CIO_AT(window_mask) || number >= p->f.queued)
			break;
		cio_loop_issue(h, &p->f, cio_loop_queue(p, number), cio_loop_next_sqe(h, sqes), at << 32 | number);
	}
	return cio_loop_arrived(&p->f);
}

/* A ready chain's turn; gives what comes next for it. */
CIO_INLINE int cio_loop_turn(u8 *memory, u8 *sqes, u64 at, struct cio_place *p)
{
	struct cio_loop_head *h = (void *)memory;
	struct cio_flight *f = &p->f;
	u64 number = f->head, slot = number & CIO_AT(window_mask);
	struct cio_loop_slot *s = &f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)];
	int what = cio_loop_begin(f, &p->m, cio_loop_queue(p, number), s, slot);
	if (what >= CIO_LOOP_PROGRAM) {
		u8 *frame = memory + CIO_AT(frames_offset) + at * CIO_AT(frames_stride) + slot * CIO_AT(frame_bytes);
		cio_loop_program(what - CIO_LOOP_PROGRAM, &p->m, (void *)(frame + cio_mask(s->skip, CIO_LOOP_ALIGN - 1)));
		h->steps++;
		what = cio_loop_one(memory, sqes, at, p);
		if (what != CIO_LOOP_ISSUE)
			return what;
		what = cio_loop_after(p);
		if (what == CIO_LOOP_ISSUE)
			cio_loop_add(p);
	}
	return what == CIO_LOOP_ISSUE ? cio_loop_issue_all(memory, sqes, at, p) : what;
}

/* Whether a chain whose block has just come has its turn at once: nobody waits for one who comes before it. */
CIO_INLINE int cio_loop_first(struct cio_loop_head *h, struct cio_flight *f)
{
	u64 level = f->level;
	return level <= h->urgent && h->ready[cio_mask(level, CIO_LOOP_LEVELS - 1)].first == CIO_LOOP_NONE &&
	       h->sqes <= CIO_LOOP_SQES - CIO_LOOP_ROOM;
}

/* Takes the ready chain that is the most urgent off its list; CIO_LOOP_NONE: no more of them in this call. */
CIO_INLINE u64 cio_loop_take(u8 *memory)
{
	struct cio_loop_head *h = (void *)memory;
	u64 level = cio_loop_level(h);
	if (level >= CIO_LOOP_LEVELS || h->sqes > CIO_LOOP_SQES - CIO_LOOP_ROOM || cio_loop_yields(h, level))
		return CIO_LOOP_NONE;
	level = cio_mask(level, CIO_LOOP_LEVELS - 1);
	u64 at = h->ready[level].first;
	at &= CIO_AT(flight_mask);
	struct cio_flight *f = &cio_loop_place(memory, at)->f;
	h->ready[level].first = f->next;
	f->listed = 0;
	h->waiting--;
	return at;
}

/* What came back since the last call, then the turns of ready chains. */
CIO_INLINE void cio_loop_run(u8 *memory, u8 *rings, u8 *sqes)
{
	struct cio_loop_head *h = (void *)memory;
	volatile u32 *head = (void *)(rings + CIO_AT(cq_head_offset)), *tail = (void *)(rings + CIO_AT(cq_tail_offset));
	struct bpf_iter_num rounds;
	h->bulk = 0;
	h->urgent = cio_loop_urgent(h);
	bpf_iter_num_new(&rounds, 0, 2 * CIO_LOOP_ROUNDS);
	while (bpf_iter_num_next(&rounds)) {
		struct cio_place *p;
		u64 at, first = *head;
		if (first != *tail) {
			struct cio_loop_cqe *cqe = (void *)(rings + CIO_AT(cqes_offset) + (first & CIO_AT(cq_mask)) * sizeof(*cqe));
			u64 token = cqe->user_data;
			*head = first + 1;
#ifdef CIO_SERVE
			if (token & CIO_SERVE_TOKEN) {
				cio_serve_event(memory, token, cqe->result, cqe->flags);
				continue;
			}
#endif
			at = (u32)token;
			at &= CIO_AT(flight_mask);
			p = cio_loop_place(memory, at);
			int what = cio_loop_arrive(h, &p->f, token >> 32, cqe->result);
			if (what != CIO_LOOP_READY || !cio_loop_first(h, &p->f)) {
				cio_loop_put(memory, at, p, what);
				continue;
			}
		} else {
			at = cio_loop_take(memory);
			if (at == CIO_LOOP_NONE)
				break;
			at &= CIO_AT(flight_mask);
			p = cio_loop_place(memory, at);
#ifdef CIO_SERVE
			if (p->f.phase == CIO_LOOP_SERVE) {
				cio_loop_put(memory, at, p, cio_serve_turn(memory, sqes, at, p));
				continue;
			}
#endif
		}
		cio_loop_put(memory, at, p, cio_loop_turn(memory, sqes, at, p));
	}
	bpf_iter_num_destroy(&rounds);
}

/* Whether it still looks for completions before it sleeps. */
CIO_INLINE int cio_loop_spins(struct cio_loop_head *h)
{
	if (!CIO_AT(spin_ns))
		return 0;
	u64 now = cio_ktime();
	if (!h->spin_from)
		h->spin_from = now;
	return now - h->spin_from < CIO_AT(spin_ns);
}

/* How many completions to wait for: chains that have to end need one more each, and steps shall not wait for long. -1: stop. */
CIO_GLOBAL int cio_loop_patience(struct cio_loop_head *h, u64 pending)
{
	if (!h)
		return -1;
	u32 ended = h->ended_tail - h->ended_head;
	if (h->left_from < h->left_to)
		return !cio_loop_others(h) ? 0 : h->wanted ? 1 : -1;
	if (h->wanted && ended >= h->wanted)
		return -1;
	if (pending || h->waiting)
		return 0;
	if (!h->on_device)
		return -1;
	if (!h->wanted) {
		if (!h->polls)
			return -1;
		h->polls--;
		return 0;
	}
	if (cio_loop_spins(h))
		return 0;
	return cio_min(h->wanted - ended, cio_max(h->on_device / 4, 1));
}

CIO_SEC("struct_ops.s/cio_loop_step") int cio_loop_step(u64 *arguments)
{
	struct iou_ctx *ring = (void *)arguments[0];
	struct iou_loop_params *params = (void *)arguments[1];
	u8 *memory = bpf_io_uring_get_region(ring, 0, CIO_AT(memory_bytes));
	u8 *rings = bpf_io_uring_get_region(ring, 1, CIO_AT(rings_bytes));
	u8 *sqes = bpf_io_uring_get_region(ring, 2, CIO_LOOP_SQES * sizeof(struct cio_loop_sqe));
	if (!memory || !rings || !sqes)
		return CIO_STOP_LOOP;
	struct cio_loop_head *h = (void *)memory;
	h->calls++;
	if (h->left_from < h->left_to)
		cio_loop_left(memory, sqes);
	if (h->left_from >= h->left_to) {
		cio_loop_run(memory, rings, sqes);
#ifdef CIO_SERVE
		cio_serve_standing(memory, sqes);
#endif
	}
	u32 count = h->sqes;
	if (count) {
		h->sqes = 0;
		h->on_device += count;
		h->reads += count;
		int taken = bpf_io_uring_submit_sqes(ring, count);
		h->left_from = taken < 0 ? 0 : taken;
		h->left_to = count;
	}
	volatile u32 *head = (void *)(rings + CIO_AT(cq_head_offset)), *tail = (void *)(rings + CIO_AT(cq_tail_offset));
#ifdef CIO_SERVE
	int patience = cio_serve_patience(memory, *head != *tail);
#else
	int patience = cio_loop_patience(h, *head != *tail);
#endif
	if (patience < 0)
		return CIO_STOP_LOOP;
	params->cq_wait_idx = *head + patience;
	return CIO_CONTINUE_LOOP;
}

struct io_uring_bpf_ops cio_loop CIO_SEC(".struct_ops.link") = {
	.loop_step = (void *)cio_loop_step,
};
