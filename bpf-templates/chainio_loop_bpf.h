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
