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
	if (!h)
		return CIO_LOOP_LEVELS;
	for (u64 i = 0; i < CIO_LOOP_LEVELS; i++) {
		cio_keep(i);
		if (h->ready[i].first != CIO_LOOP_NONE)
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

/* A read came back: the chain may be ready for its next step, or for the rest of the read. */
CIO_GLOBAL int cio_loop_arrive(struct cio_loop_head *h, struct cio_flight *f, u64 slot, u64 code)
{
	if (!h || !f)
		return CIO_LOOP_WAIT;
	struct cio_loop_slot *s = &f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)];
	s64 result = (s64)(code << 32) >> 32;
	h->on_device--;
	h->spin_from = 0;
	f->on_device--;
	if (f->phase == CIO_LOOP_ENDING) {
		h->cancelled++;
		return f->on_device || f->listed ? CIO_LOOP_WAIT : CIO_LOOP_ENDED;
	}
	s->state = CIO_LOOP_ARRIVED;
	s->failure = 0;
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
	return slot == (f->head & CIO_AT(window_mask)) ? CIO_LOOP_READY : CIO_LOOP_WAIT;
}

/* What a ready chain does: its program, with the step memory made ready for it, or more of its reads. */
CIO_GLOBAL int cio_loop_begin(struct cio_flight *f, struct cio_mem *m, struct cio_next *q)
{
	if (!f || !m || !q)
		return CIO_LOOP_WAIT;
	u32 program = f->entry;
	f->ran = CIO_LOOP_NONE;
	if (f->phase == CIO_LOOP_ENDING)
		return f->on_device ? CIO_LOOP_WAIT : CIO_LOOP_ENDED;
	m->io.block_offset = m->io.block_tag = 0;
	m->io.block_length = m->io.block_file = 0;
	if (f->phase == CIO_LOOP_DONE) {
		program = f->done;
	} else if (f->phase == CIO_LOOP_RUN) {
		u64 slot = f->head & CIO_AT(window_mask);
		struct cio_loop_slot *s = &f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)];
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
	}
	m->io.outcome = CIO_OK;
	m->io.finished = 0;
	m->io.next_count = 0;
	m->io.result_kind = CIO_RESULT_NONE;
	m->io.slice_space = m->io.slice_offset = m->io.slice_length = 0;
	m->io.prefetch_count = 0;
	return CIO_LOOP_PROGRAM + (program & 0xffff);
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
		struct cio_next *next = &m->io.next[i];
		if (next->step >= f->step_count || next->file >= f->file_count || next->length - 1u >= CIO_MAX_BLOCK ||
		    next->offset >> 63)
			return CIO_MALFORMED;
		if (f->queued >= f->hops)
			return CIO_HOP_LIMIT;
		f->queued++;
	}
	return f->queued - f->head > CIO_AT(queue_mask) ? CIO_NO_MEMORY : CIO_OK;
}

/* A program has run. */
CIO_GLOBAL int cio_loop_after(struct cio_loop_head *h, struct cio_flight *f, struct cio_mem *m)
{
	if (!h || !f || !m)
		return CIO_LOOP_WAIT;
	h->steps++;
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
CIO_INLINE int cio_loop_place(struct cio_flight *f, struct cio_loop_slot *s, struct cio_next *next)
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

/* Writes the SQE of the chain's read `number` when it may go out now. */
CIO_GLOBAL int cio_loop_issue(struct cio_loop_head *h, struct cio_flight *f, struct cio_next *next, struct cio_loop_sqe *sqe, u64 which)
{
	if (!h || !f || !next || !sqe)
		return 0;
	u64 at = which >> 32;
	u32 number = which;
	u64 slot = number & CIO_AT(window_mask);
	struct cio_loop_slot *s = &f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)];
	if (number >= f->issued) {
		f->issued = number + 1;
		if (!cio_loop_place(f, s, next))
			return 0;
	} else if (s->state != CIO_LOOP_AGAIN) {
		return 0;
	}
	s->state = CIO_LOOP_ON_DEVICE;
	sqe->opcode = CIO_AT(opcode);
	sqe->flags = CIO_FIXED_FILE;
	sqe->ioprio = 0;
	sqe->fd = f->files[cio_mask(next->file, CIO_LOOP_FILES - 1)].slot;
	sqe->offset = s->offset + s->got;
	sqe->address = CIO_AT(frames_address) + (at * (CIO_AT(window_mask) + 1) + slot) * CIO_AT(frame_bytes) + s->got;
	sqe->length = s->io_length - s->got;
	sqe->rw_flags = 0;
	sqe->user_data = at | slot << 32;
	sqe->rest[0] = sqe->rest[1] = sqe->rest[2] = 0;
	f->on_device++;
	h->sqes++;
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

CIO_INLINE struct cio_flight *cio_loop_flight(u8 *memory, u64 at)
{
	at &= CIO_AT(flight_mask);
	return (void *)(memory + CIO_AT(flights_offset) + at * sizeof(struct cio_flight));
}

CIO_INLINE struct cio_next *cio_loop_queue(u8 *memory, u64 at, u64 number)
{
	at &= CIO_AT(flight_mask);
	number &= CIO_AT(queue_mask);
	return (void *)(memory + CIO_AT(queues_offset) + at * CIO_AT(queue_stride) + number * sizeof(struct cio_next));
}

#ifdef CIO_SERVE
CIO_INLINE void cio_serve_chain_ended(u8 *memory, u64 at, struct cio_flight *f);
CIO_INLINE void cio_serve_event(u8 *memory, u64 token, u64 code, u64 flags);
CIO_INLINE int cio_serve_turn(u8 *memory, u8 *sqes, u64 at, struct cio_flight *f);
CIO_INLINE void cio_serve_standing(u8 *memory, u8 *sqes);
CIO_INLINE int cio_serve_patience(u8 *memory, u64 pending);
#endif

/* Puts a chain where its state says: among the ready ones, or the ended ones. */
CIO_INLINE void cio_loop_put(u8 *memory, u64 at, int what)
{
	struct cio_loop_head *h = (void *)memory;
	struct cio_flight *f = cio_loop_flight(memory, at);
#ifdef CIO_SERVE
	if (what == CIO_LOOP_ENDED) {
		h->live[cio_mask(f->level, CIO_LOOP_LEVELS - 1)]--;
		cio_serve_chain_ended(memory, at, f);
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
		f->next = CIO_LOOP_NONE;
		if (h->ready[level].first == CIO_LOOP_NONE)
			h->ready[level].first = at;
		else
			cio_loop_flight(memory, h->ready[level].last)->next = at;
		h->ready[level].last = at;
	}
}

/* What came back since the last call. */
CIO_INLINE void cio_loop_completions(u8 *memory, u8 *rings, u8 *sqes)
{
	struct cio_loop_head *h = (void *)memory;
	struct bpf_iter_num rounds;
	bpf_iter_num_new(&rounds, 0, CIO_LOOP_ROUNDS);
	while (bpf_iter_num_next(&rounds)) {
		volatile u32 *head = (void *)(rings + CIO_AT(cq_head_offset)), *tail = (void *)(rings + CIO_AT(cq_tail_offset));
		u64 token, result, flags = 0;
		if (h->left_from < h->left_to) {
			u64 left = cio_mask(h->left_from, CIO_LOOP_SQES - 1);
			token = ((struct cio_loop_sqe *)sqes)[left].user_data;
			result = -CIO_EAGAIN;
			h->left_from++;
		} else if (*head != *tail) {
			u64 place = *head;
			place &= CIO_AT(cq_mask);
			struct cio_loop_cqe *cqe = (void *)(rings + CIO_AT(cqes_offset) + place * sizeof(*cqe));
			token = cqe->user_data;
			result = cqe->result;
			flags = cqe->flags;
			*head = *head + 1;
		} else {
			break;
		}
#ifdef CIO_SERVE
		if (token & CIO_SERVE_TOKEN) {
			cio_serve_event(memory, token, result, flags);
			continue;
		}
#endif
		u64 at = (u32)token;
		at &= CIO_AT(flight_mask);
		cio_loop_put(memory, at, cio_loop_arrive(h, cio_loop_flight(memory, at), token >> 32, result));
	}
	bpf_iter_num_destroy(&rounds);
}

/* The reads that a program asked for join the chain's queue, as their number says. */
CIO_INLINE void cio_loop_add(u8 *memory, u64 at, struct cio_flight *f, struct cio_mem *m)
{
	u32 count = m->io.next_count, first = f->queued - count;
	for (u64 i = 0; i < CIO_MAX_NEXT; i++) {
		cio_keep(i);
		if (i >= count)
			break;
		*cio_loop_queue(memory, at, first + i) = m->io.next[i];
	}
}

/* The reads that may be under way at once go out. */
CIO_INLINE int cio_loop_issue_all(u8 *memory, u8 *sqes, u64 at, struct cio_flight *f)
{
	struct cio_loop_head *h = (void *)memory;
	for (u64 i = 0; i < CIO_LOOP_WINDOW; i++) {
		cio_keep(i);
		u32 number = f->head + i;
		if (i > CIO_AT(window_mask) || number >= f->queued)
			break;
		u64 sqe = h->sqes;
		sqe = cio_mask(sqe, CIO_LOOP_SQES - 1) * sizeof(struct cio_loop_sqe);
		cio_loop_issue(h, f, cio_loop_queue(memory, at, number), (void *)(sqes + sqe), at << 32 | number);
	}
	return cio_loop_arrived(f);
}

/* The steps of ready chains, the most urgent first. */
CIO_INLINE void cio_loop_run(u8 *memory, u8 *sqes)
{
	struct cio_loop_head *h = (void *)memory;
	struct bpf_iter_num rounds;
	h->bulk = 0;
	bpf_iter_num_new(&rounds, 0, CIO_LOOP_ROUNDS);
	while (bpf_iter_num_next(&rounds)) {
		u64 level = cio_loop_level(h), sqe = h->sqes;
		if (level >= CIO_LOOP_LEVELS || sqe > CIO_LOOP_SQES - CIO_LOOP_ROOM || cio_loop_yields(h, level))
			break;
		level = cio_mask(level, CIO_LOOP_LEVELS - 1);
		u64 at = h->ready[level].first;
		at &= CIO_AT(flight_mask);
		struct cio_flight *f = cio_loop_flight(memory, at);
		h->ready[level].first = f->next;
		f->listed = 0;
#ifdef CIO_SERVE
		if (f->phase == CIO_LOOP_SERVE) {
			cio_loop_put(memory, at, cio_serve_turn(memory, sqes, at, f));
			continue;
		}
#endif
		struct cio_mem *m = (void *)(memory + CIO_AT(steps_offset) + at * CIO_AT(step_stride));
		int what = cio_loop_begin(f, m, cio_loop_queue(memory, at, f->head));
		if (what >= CIO_LOOP_PROGRAM) {
			u64 slot = f->head, skip;
			slot &= CIO_AT(window_mask);
			skip = cio_mask(f->slots[cio_mask(slot, CIO_LOOP_WINDOW - 1)].skip, CIO_LOOP_ALIGN - 1);
			slot += at * (CIO_AT(window_mask) + 1);
			cio_loop_program(what - CIO_LOOP_PROGRAM, m, (void *)(memory + CIO_AT(frames_offset) + slot * CIO_AT(frame_bytes) + skip));
			what = cio_loop_after(h, f, m);
			if (what == CIO_LOOP_ISSUE)
				cio_loop_add(memory, at, f, m);
		}
		if (what == CIO_LOOP_ISSUE)
			what = cio_loop_issue_all(memory, sqes, at, f);
		cio_loop_put(memory, at, what);
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
	if (pending || cio_loop_level(h) < CIO_LOOP_LEVELS)
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
	cio_loop_completions(memory, rings, sqes);
	if (h->left_from >= h->left_to) {
		cio_loop_run(memory, sqes);
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
