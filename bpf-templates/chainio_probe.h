/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory that probe programs and the process that attaches them share. `cio_probe_<i>` of an artifact looks at its site's row to
 * find the arguments, and puts one record into the ring. All integers are in the byte order of the machine. */
#ifndef CHAINIO_PROBE_H
#define CHAINIO_PROBE_H

#ifndef CIO_HAVE_TYPES
#include <linux/types.h>
#endif

#define CIO_MAX_PROBES 32
#define CIO_PROBE_ARGS 12           /* as many as a USDT note describes */
#define CIO_SYSCALL_ARGS 6
#define CIO_PROBE_SITES 512         /* places in all files where the probes of one artifact are attached */
#define CIO_PROBE_TREE 8192         /* processes of a run */
#define CIO_PROBE_RING (1 << 20)    /* bytes */
#define CIO_NO_SYSCALL 0xffffffffu
#define CIO_NO_INDEX 0xff

enum cio_probe_from {
	CIO_FROM_CONSTANT = 0, /* value */
	CIO_FROM_REGISTER = 1, /* reg */
	CIO_FROM_MEMORY = 2,   /* the process's memory at reg + (index << shift) + value */
};

/* Where one argument is when the site is reached. Registers are numbered as struct pt_regs orders them. */
struct cio_probe_arg {
	__u8 from;
	__u8 reg;
	__u8 index;     /* CIO_NO_INDEX: none */
	__u8 shift;     /* 0..3 */
	__u8 size;      /* bytes of it that count: 1, 2, 4 or 8 */
	__u8 is_signed;
	__u16 reserved;
	__s64 value;
};

struct cio_probe_site {
	struct cio_probe_arg args[CIO_PROBE_ARGS];
};

struct cio_probe_counts {
	__u64 taken;      /* records put into the ring */
	__u64 lost;       /* the ring was full */
	__u64 unreadable; /* an argument was in memory that could not be read just then: no record */
};

/* One of them, in an array that is mapped. The attaching side writes the first group, the programs the rest. */
struct cio_probe_control {
	__u64 device, inode;              /* of the process id namespace that records are to speak of */
	__u32 syscalls[CIO_MAX_PROBES];   /* the number of the call, for probes of system calls */
	__u32 off[CIO_MAX_PROBES];        /* 1: the probe is not wanted just now */
	__u32 asleep;                     /* 1: the reader sleeps; whoever puts a record in sets 0 and wakes it */
	__u32 reserved;
	__u64 untracked;                  /* processes of the run that found no room in the tree */
	struct cio_probe_counts counts[CIO_MAX_PROBES];
};

/* A record: this, then a __u64 for each argument (of a string, its length), then each string's bytes with a NUL, at offsets that the
 * probe's declaration gives (compiler/ir/probe_layout.h). */
struct cio_probe_record {
	__u32 probe;
	__u32 process;
	__u64 values[];
};

#endif
