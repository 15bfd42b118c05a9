/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The loop_step program of the kernel engine: takes completions, runs the steps of the chains whose blocks have arrived, writes the
 * reads that they ask for as SQEs, submits those, and says how long to wait. All of its state is in the region, so that one object
 * serves any ring and a signal may end the system call between any two calls. What the region holds is trusted nowhere: each index
 * is masked, each program is one of ours. chainc writes before this text: cio_loop_steps, the programs of all chains' steps one chain
 * after the other, and cio_loop_program(), which runs one. */
const volatile struct cio_loop_layout cio_loop_layout CIO_SEC(".rodata.loop");
#define CIO_AT(name) cio_loop_layout.name

struct iou_ctx {
};
struct iou_loop_params {
	u32 cq_wait_idx;
};
struct io_uring_bpf_ops {
	int (*loop_step)(struct iou_ctx *ring, struct iou_loop_params *params);
	u32 ring_fd;
	void *priv;
};
extern u8 *bpf_io_uring_get_region(struct iou_ctx *ring, u32 region, const u64 size) CIO_SEC(".ksyms");
extern int bpf_io_uring_submit_sqes(struct iou_ctx *ring, u32 count) CIO_SEC(".ksyms");

/* The kernel's own loop: the verifier follows its body until nothing new comes of it, not once for each round. */
struct bpf_iter_num {
	u64 state;
} __attribute__((aligned(8)));
extern int bpf_iter_num_new(struct bpf_iter_num *rounds, int start, int end) CIO_SEC(".ksyms");
extern int *bpf_iter_num_next(struct bpf_iter_num *rounds) CIO_SEC(".ksyms");
extern void bpf_iter_num_destroy(struct bpf_iter_num *rounds) CIO_SEC(".ksyms");

static u64 (*const cio_ktime)(void) = (void *)5; /* nanoseconds */

#define CIO_CONTINUE_LOOP 0
#define CIO_STOP_LOOP 1
#define CIO_EINTR 4
#define CIO_EAGAIN 11
#define CIO_FIXED_FILE 1 /* IOSQE_FIXED_FILE */
#ifdef CIO_SERVE
#define CIO_LOOP_ROOM (2 * CIO_LOOP_WINDOW) /* SQEs that are left for one more turn, and for what belongs to no connection */
#else
#define CIO_LOOP_ROOM CIO_LOOP_WINDOW
#endif

struct cio_loop_sqe {
	u8 opcode, flags;
	u16 ioprio;
	u32 fd;
	u64 offset, address;
	u32 length, rw_flags;
	u64 user_data;
	u64 rest[3];
};
struct cio_loop_cqe {
	u64 user_data;
	u32 result, flags;
};
struct cio_place {
	struct cio_flight f;
	struct cio_mem m;
};
/* What comes next for a chain; from CIO_LOOP_PROGRAM on: the program to run. */
enum { CIO_LOOP_WAIT = 0, CIO_LOOP_READY = 1, CIO_LOOP_ENDED = 2, CIO_LOOP_ISSUE = 3, CIO_LOOP_PROGRAM = 16 };

CIO_INLINE int cio_loop_end(struct cio_flight *f, u32 outcome)
{
	f->outcome = outcome;
	f->phase = CIO_LOOP_ENDING;
	return f->on_device ? CIO_LOOP_WAIT : CIO_LOOP_ENDED;
}

CIO_GLOBAL int cio_loop_level(struct cio_loop_head *h)
{
	if (!h || !h->waiting)
		return CIO_LOOP_LEVELS;
	for (u64 i = 0; i < CIO_LOOP_LEVELS; i++) {
		cio_keep(i);
		if (h->ready[i].first != CIO_LOOP_NONE)
			return i;
	}
	return CIO_LOOP_LEVELS;
}

/* The most urgent level of the chains that have not ended. */
CIO_GLOBAL int cio_loop_urgent(struct cio_loop_head *h)
{
	if (!h)
		return CIO_LOOP_LEVELS;
	for (u64 i = 0; i < CIO_LOOP_LEVELS; i++) {
		cio_keep(i);
		if (h->live[i])
			return i;
	}
	return CIO_LOOP_LEVELS;
}

/* Whether a step of that level waits for the next call: more urgent chains have not ended, and this call has run its share of others. */
CIO_GLOBAL int cio_loop_yields(struct cio_loop_head *h, u64 level)
{
	if (!h)
		return 0;
	for (u64 i = 0; i < CIO_LOOP_LEVELS; i++) {
		cio_keep(i);
		if (i >= level)
			return 0;
		if (h->live[i])
			return h->bulk++ >= CIO_AT(bulk_steps);
	}
	return 0;
}

/* A read came back otherwise than with all that was asked for, or to a chain that has its outcome. CIO_LOOP_ISSUE: its block is there. */
CIO_GLOBAL int cio_loop_odd(struct cio_loop_head *h, struct cio_flight *f, struct cio_loop_slot *s, u64 code)
{
	if (!h || !f || !s)
		return CIO_LOOP_WAIT;
	s64 result = (s64)(code << 32) >> 32;
	if (f->phase == CIO_LOOP_ENDING) {
		h->cancelled++;
		return f->on_device || f->listed ? CIO_LOOP_WAIT : CIO_LOOP_ENDED;
	}
	if (result < 0) {
		if ((result == -CIO_EINTR || result == -CIO_EAGAIN) && s->retries < CIO_LOOP_RETRIES) {
			s->retries++;
			h->retries++;
			s->state = CIO_LOOP_AGAIN;
			return CIO_LOOP_READY;
		}
		s->failure = CIO_IO_ERROR;
	} else {
		u32 bytes = cio_min(result, s->io_length - s->got), got = s->got + bytes;
		h->bytes += bytes;
		if (got < s->skip + s->length) {
			/* Carried on at the last byte that the alignment allows; the file ended when nothing more comes. */
			u32 on = got & ~s->align_mask;
			if (bytes != 0 && on > s->got) {
				s->got = on;
				h->continued++;
				s->state = CIO_LOOP_AGAIN;
				return CIO_LOOP_READY;
			}
			s->failure = CIO_SHORT_READ;
		}
	}
	return CIO_LOOP_ISSUE;
}

/* A read came back: the chain may be ready for its next step, or for the rest of the read. */
CIO_INLINE int cio_loop_arrive(struct cio_loop_head *h, struct cio_flight *f, u64 slot, u64 code)
{
	struct cio_loop_slot *s = &f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)];
	h->on_device--;
	h->spin_from = 0;
	f->on_device--;
	if (f->phase == CIO_LOOP_ENDING || (u32)code != s->io_length - s->got) {
		int what = cio_loop_odd(h, f, s, code);
		if (what != CIO_LOOP_ISSUE)
			return what;
	} else {
		h->bytes += (u32)code;
	}
	s->state = CIO_LOOP_ARRIVED;
	return slot == (f->head & CIO_AT(window_mask)) ? CIO_LOOP_READY : CIO_LOOP_WAIT;
}

/* What a ready chain does: its program, with the step memory made ready for it, or more of its reads. */
CIO_INLINE int cio_loop_begin(struct cio_flight *f, struct cio_mem *m, struct cio_next *q, struct cio_loop_slot *s, u64 slot)
{
	u32 program;
	if (f->phase == CIO_LOOP_RUN) {
		f->ran = CIO_LOOP_NONE;
		if (f->head >= f->issued || s->state != CIO_LOOP_ARRIVED)
			return CIO_LOOP_ISSUE;
		if (s->failure)
			return cio_loop_end(f, s->failure);
		m->io.block_offset = q->offset;
		m->io.block_tag = q->tag;
		m->io.block_length = q->length;
		m->io.block_file = q->file;
		f->ran = slot;
		program = cio_loop_steps[cio_mask(f->step_base + q->step, CIO_LOOP_STEPS - 1)];
	} else {
		f->ran = CIO_LOOP_NONE;
		if (f->phase == CIO_LOOP_ENDING)
			return f->on_device ? CIO_LOOP_WAIT : CIO_LOOP_ENDED;
		m->io.block_offset = m->io.block_tag = 0;
		m->io.block_length = m->io.block_file = 0;
		program = f->phase == CIO_LOOP_DONE ? f->done : f->entry;
	}
	m->io.outcome = CIO_OK;
	m->io.finished = 0;
	m->io.next_count = 0;
	m->io.result_kind = CIO_RESULT_NONE;
	m->io.slice_space = m->io.slice_offset = m->io.slice_length = 0;
	m->io.prefetch_count = 0;
	return CIO_LOOP_PROGRAM + (program & 0xffff);
}

CIO_INLINE int cio_loop_may_read(struct cio_flight *f, struct cio_next *next)
{
	return next->step < f->step_count && next->file < f->file_count && next->length - 1u < CIO_MAX_BLOCK && !(next->offset >> 63);
}

/* Counts the reads that a program asked for; gives an outcome. */
CIO_INLINE u32 cio_loop_check_next(struct cio_flight *f, struct cio_mem *m)
{
	u64 count = m->io.next_count;
	if (count > CIO_MAX_NEXT)
		return CIO_FANOUT;
	for (u64 i = 0; i < CIO_MAX_NEXT; i++) {
		cio_keep(i);
		if (i >= count)
			break;
		if (!cio_loop_may_read(f, &m->io.next[i]))
			return CIO_MALFORMED;
		if (f->queued >= f->hops)
			return CIO_HOP_LIMIT;
		f->queued++;
	}
	return f->queued - f->head > CIO_AT(queue_mask) ? CIO_NO_MEMORY : CIO_OK;
}

/* A program has run. */
CIO_GLOBAL int cio_loop_after(struct cio_place *p)
{
	if (!p)
		return CIO_LOOP_WAIT;
	struct cio_flight *f = &p->f;
	struct cio_mem *m = &p->m;
	if (m->io.outcome || m->io.finished)
		return cio_loop_end(f, m->io.outcome);
	if (f->phase == CIO_LOOP_DONE) {
		if (m->io.next_count)
			return cio_loop_end(f, CIO_UNSUPPORTED);
	} else {
		u32 outcome = cio_loop_check_next(f, m);
		if (outcome)
			return cio_loop_end(f, outcome);
		if (f->phase == CIO_LOOP_RUN)
			f->head++;
		f->phase = CIO_LOOP_RUN;
		if (f->head != f->queued)
			return CIO_LOOP_ISSUE;
		if (f->done != CIO_LOOP_NONE) {
			f->phase = CIO_LOOP_DONE;
			return CIO_LOOP_READY;
		}
	}
	f->ran = CIO_LOOP_NONE;
	m->io.result_kind = CIO_RESULT_NONE;
	return cio_loop_end(f, f->wants_result ? CIO_NO_RESULT : CIO_OK);
}

/* Finds the place in the file and the frame for a read; 0 when there is none. */
CIO_INLINE int cio_loop_aim(struct cio_flight *f, struct cio_loop_slot *s, struct cio_next *next)
{
	u64 mask = f->files[cio_mask(next->file, CIO_LOOP_FILES - 1)].align_mask & (CIO_LOOP_ALIGN - 1);
	u64 begin = next->offset & ~mask, end = (next->offset + next->length + mask) & ~mask;
	s->state = CIO_LOOP_ARRIVED;
	s->retries = s->got = 0;
	s->offset = begin;
	s->skip = next->offset - begin;
	s->length = next->length;
	s->io_length = end - begin;
	s->align_mask = mask;
	s->failure = end >> 63 ? CIO_SHORT_READ : end - begin > CIO_AT(frame_bytes) ? CIO_NO_MEMORY : 0;
	return !s->failure;
}

/* Writes the SQE of a read, or of the rest of it. */
CIO_INLINE void cio_loop_read(struct cio_loop_head *h, struct cio_flight *f, struct cio_loop_slot *s, struct cio_next *next,
			      struct cio_loop_sqe *sqe, u64 at, u64 slot)
{
	s->state = CIO_LOOP_ON_DEVICE;
	*(u32 *)sqe = CIO_AT(read);
	sqe->fd = f->files[cio_mask(next->file, CIO_LOOP_FILES - 1)].slot;
	sqe->offset = s->offset + s->got;
	sqe->address = f->frames + slot * CIO_AT(frame_bytes) + s->got;
	sqe->length = s->io_length - s->got;
	sqe->user_data = at | slot << 32;
#ifdef CIO_SERVE /* else nobody writes what stays 0 */
	sqe->rw_flags = 0;
	sqe->rest[0] = sqe->rest[1] = sqe->rest[2] = 0;
#endif
	f->on_device++;
	h->sqes++;
}

/* The chain's read `number` goes out when it may. */
CIO_GLOBAL int cio_loop_issue(struct cio_loop_head *h, struct cio_flight *f, struct cio_next *next, struct cio_loop_sqe *sqe, u64 which)
{
	if (!h || !f || !next || !sqe)
		return 0;
	u32 number = which;
	u64 slot = number & CIO_AT(window_mask);
	struct cio_loop_slot *s = &f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)];
	if (number >= f->issued) {
		f->issued = number + 1;
		if (!cio_loop_aim(f, s, next))
			return 0;
	} else if (s->state != CIO_LOOP_AGAIN) {
		return 0;
	}
	cio_loop_read(h, f, s, next, sqe, which >> 32, slot);
	return 0;
}

/* Whether the block of the chain's next step is there. */
CIO_GLOBAL int cio_loop_arrived(struct cio_flight *f)
{
	if (!f)
		return CIO_LOOP_WAIT;
	u64 slot = f->head & CIO_AT(window_mask);
	return f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)].state == CIO_LOOP_ARRIVED ? CIO_LOOP_READY : CIO_LOOP_WAIT;
}

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

/* The SQEs that the kernel did not take: as if each had come back at once. */
CIO_INLINE void cio_loop_left(u8 *memory, u8 *sqes)
{
	struct cio_loop_head *h = (void *)memory;
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
		cio_loop_put(memory, at, p, cio_loop_arrive(h, &p->f, token >> 32, -CIO_EAGAIN));
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
		return 0;
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
