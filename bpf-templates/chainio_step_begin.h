/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What an engine does to the memory of a step before it runs the program of a shadow chain. */
#ifndef CHAINIO_STEP_BEGIN_H
#define CHAINIO_STEP_BEGIN_H

#include "bpf-templates/chainio_step.h"

/* `length` bytes from `offset` on are in the block; `total` is what the event was about. The arguments stay. */
static inline void cio_begin(struct cio_io *io, __u64 offset, __u64 total, __u32 length)
{
	io->block_offset = offset;
	io->block_tag = total;
	io->block_length = length;
	io->block_file = 0;
	io->outcome = CIO_OK;
	io->finished = io->next_count = io->out_length = io->prefetch_count = 0;
	io->result_kind = CIO_RESULT_NONE;
	io->result = 0;
	io->slice_space = io->slice_offset = io->slice_length = 0;
}

#endif
