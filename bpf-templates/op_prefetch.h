/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Appends to the prefetch list; a full list takes no more. */
#define CIO_PREFETCH(kind_, target_, space_, name_offset_, name_length_, offset_, length_, a0, a1, a2, a3)      \
	do {                                                                                                    \
		u64 n_ = m->io.prefetch_count;                                                                  \
		if (n_ < CIO_PREFETCH_COUNT) {                                                                  \
			struct cio_prefetch *p_ = cio_prefetch_slot(n_);                                        \
			p_->offset = (offset_);                                                                 \
			p_->length = (length_);                                                                 \
			p_->kind = (kind_);                                                                     \
			p_->name_space = (space_);                                                              \
			p_->target = (target_);                                                                 \
			p_->name_offset = (u32)(name_offset_);                                                  \
			p_->name_length = (u32)(name_length_);                                                  \
			p_->args[0] = (a0);                                                                     \
			p_->args[1] = (a1);                                                                     \
			p_->args[2] = (a2);                                                                     \
			p_->args[3] = (a3);                                                                     \
			m->io.prefetch_count = (u32)n_ + 1;                                                     \
		}                                                                                               \
	} while (0)
#ifdef CIO_BPF
#define cio_prefetch_slot(n) \
	((struct cio_prefetch *)((u8 *)m + CIO_PREFETCH_OFFSET) + cio_mask(n, CIO_PREFETCH_MASK))
#else
#define cio_prefetch_slot(n) ((struct cio_prefetch *)((u8 *)m + CIO_PREFETCH_OFFSET) + (n))
#endif
