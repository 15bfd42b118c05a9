/* SPDX-License-Identifier: BSD-2-Clause */
/* libchainio-call: run the call chains of a ChainIO artifact from C. One handle belongs to one thread at a time, with io_uring
 * to the one that reaps first; different handles are independent. A child made by fork(2) opens handles of its own. Functions return 0 or a count, or a negative errno; chainio_error() then says what went wrong and what to do.
 * Structs that may grow begin with `size`, which the caller sets to sizeof. Each function has a man page in section 3. */
#ifndef CHAINIO_H
#define CHAINIO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CHAINIO_API __attribute__((visibility("default")))

typedef struct chainio_handle chainio_handle;

/* How a chain ends. A chain's own `fail REASON` words count from CHAINIO_USER; chainio_outcome_name() gives them back. */
enum chainio_outcome {
	CHAINIO_OK = 0,
	CHAINIO_MALFORMED = 1,
	CHAINIO_NOT_FOUND = 2,
	CHAINIO_OVERFLOW = 3,
	CHAINIO_SHORT_READ = 4,
	CHAINIO_IO_ERROR = 5,
	CHAINIO_HOP_LIMIT = 6,
	CHAINIO_NO_MEMORY = 7,
	CHAINIO_CANCELLED = 8,
	CHAINIO_NO_RESULT = 9,
	CHAINIO_FANOUT = 10,
	CHAINIO_BAD_ARGUMENT = 11,
	CHAINIO_UNSUPPORTED = 12,
	CHAINIO_USER = 32
};

enum chainio_open_flags {
	CHAINIO_INTERPRET = 1,     /* do not load native step code */
	CHAINIO_NO_RING = 2,       /* plain preads instead of io_uring */
	CHAINIO_NO_HUGE_PAGES = 4,
	CHAINIO_KERNEL_ENGINE = 8, /* steps run inside io_uring_enter (Linux 7.1, CAP_BPF), or the open fails; chainio_reap() of many chains
	                              is one system call */
	CHAINIO_AUTO_ENGINE = 16   /* begins in user space, and goes on inside the kernel where a trial of the chains at hand found that no worse;
	                              chainio_describe() says what came of it */
};

struct chainio_options {
	size_t size;
	uint32_t in_flight; /* chains at once, at most 65,536; 0: 64 */
	uint32_t max_files; /* open files at once, at most 4,096; 0: 64 */
	uint64_t memory;    /* bytes for blocks, 256 KiB and more; 0: chosen by in_flight */
	uint32_t flags;     /* enum chainio_open_flags */
	uint32_t spin_us;   /* looks that many microseconds (at most 1,000,000) for completions before it sleeps; 0: sleeps at once */
};

enum chainio_file_flags {
	CHAINIO_FILE_DIRECT = 1,   /* O_DIRECT, whatever the file class says */
	CHAINIO_FILE_BUFFERED = 2  /* through the page cache, whatever the file class says */
};

enum chainio_kind { CHAINIO_FILE = 0, CHAINIO_SCALAR = 1, CHAINIO_BYTES = 2 };

struct chainio_param_info {
	size_t size;
	const char *name;       /* valid as long as the handle */
	const char *file_class; /* of a file parameter, else NULL */
	uint32_t kind;          /* enum chainio_kind */
	uint32_t bits;          /* of a scalar */
	uint32_t is_signed;     /* of a scalar */
	uint32_t max_bytes;     /* of bytes */
};

struct chainio_chain_info {
	size_t size;
	const char *name;     /* valid as long as the handle */
	uint32_t params;
	uint32_t hops;        /* reads that one run may do */
	uint32_t result_kind; /* CHAINIO_SCALAR or CHAINIO_BYTES */
	uint32_t result_bits; /* of a scalar */
	uint32_t result_signed;
	uint32_t result_max;  /* bytes */
};

struct chainio_arg {
	uint32_t kind;     /* enum chainio_kind */
	uint32_t length;   /* of bytes */
	uint64_t value;    /* of a scalar (signed values as two's complement), or a file from chainio_file_open() */
	const void *bytes; /* copied by chainio_submit() */
};

struct chainio_completion {
	uint64_t user_data;
	uint32_t chain;
	uint32_t outcome;  /* enum chainio_outcome */
	uint32_t kind;     /* CHAINIO_SCALAR: `value`; CHAINIO_BYTES: `bytes` */
	uint32_t length;   /* of `bytes` */
	uint64_t value;
	const void *bytes; /* valid until the next chainio_reap(), chainio_call() or chainio_close() of the handle */
	uint64_t ns;       /* from submit to the end of the chain */
	uint32_t hops;     /* blocks that the chain asked for */
	uint32_t reserved[3];
};

struct chainio_counters {
	size_t size;
	uint64_t syscalls;
	uint64_t ring_reads;         /* read by io_uring */
	uint64_t fixed_reads;        /* of those, into registered memory */
	uint64_t plain_reads;        /* read by pread, one chain in flight */
	uint64_t page_cache_reads;   /* taken from the page cache without waiting */
	uint64_t block_cache_hits;
	uint64_t block_cache_misses;
	uint64_t bytes_read;
	uint64_t retries;            /* EINTR and EAGAIN */
	uint64_t continued_reads;    /* short reads that were carried on */
	uint64_t frame_waits;        /* reads that waited for memory */
};

struct chainio_fallback {
	size_t size;
	const char *name;   /* "unregistered-buffers"; valid until the next call with the handle */
	const char *reason; /* one sentence */
	uint64_t count;
};

CHAINIO_API const char *chainio_version(void);

/* Where they fail, *out is NULL. */
CHAINIO_API int chainio_open(const char *artifact, const struct chainio_options *options, chainio_handle **out);
CHAINIO_API int chainio_open_bytes(const void *artifact, size_t length, const struct chainio_options *options,
				   chainio_handle **out);
CHAINIO_API void chainio_close(chainio_handle *handle);
/* What the last failing call with this handle said, valid until the next one; with NULL, the last failing open of this thread, or
 * call of it whose handle was NULL (-EINVAL; 0 or "" of what gives no error). Never NULL. */
CHAINIO_API const char *chainio_error(const chainio_handle *handle);
/* Which engine runs, in one line; valid until the next call with the handle. */
CHAINIO_API const char *chainio_describe(chainio_handle *handle);

CHAINIO_API int chainio_file_open(chainio_handle *handle, const char *file_class, const char *path, uint32_t flags,
				  uint64_t *file);
CHAINIO_API int chainio_file_close(chainio_handle *handle, uint64_t file);

/* The number of a call chain. */
CHAINIO_API int chainio_find_chain(chainio_handle *handle, const char *name);
CHAINIO_API int chainio_get_chain(chainio_handle *handle, uint32_t chain, struct chainio_chain_info *info);
CHAINIO_API int chainio_get_param(chainio_handle *handle, uint32_t chain, uint32_t param, struct chainio_param_info *info);

/* Starts a chain; the arguments are in the order of its parameters. Does not wait. */
CHAINIO_API int chainio_submit(chainio_handle *handle, uint32_t chain, const struct chainio_arg *args, uint32_t count,
			       uint64_t user_data);
/* Waits until `min` chains have ended (0: does not wait) and returns how many, at most `max`, were written to `out`. */
CHAINIO_API int chainio_reap(chainio_handle *handle, struct chainio_completion *out, uint32_t max, uint32_t min);
/* submit and reap of one chain, while no other is in flight. */
CHAINIO_API int chainio_call(chainio_handle *handle, uint32_t chain, const struct chainio_arg *args, uint32_t count,
			     struct chainio_completion *out);
/* Ends the chains that were submitted with `user_data` and have not ended; gives how many, or -ENOENT. chainio_reap() hands them
 * over with the outcome CHAINIO_CANCELLED. */
CHAINIO_API int chainio_cancel(chainio_handle *handle, uint64_t user_data);
CHAINIO_API uint32_t chainio_in_flight(const chainio_handle *handle);

/* The text is valid until the next call with the handle: copy it to print several. */
CHAINIO_API const char *chainio_outcome_name(chainio_handle *handle, uint32_t outcome);
/* How many runs of a chain ended so. */
CHAINIO_API uint64_t chainio_count_outcome(const chainio_handle *handle, uint32_t chain, uint32_t outcome);
/* Nanoseconds that `percent` of a chain's runs did not exceed. */
CHAINIO_API uint64_t chainio_latency(const chainio_handle *handle, uint32_t chain, double percent);
CHAINIO_API int chainio_get_counters(const chainio_handle *handle, struct chainio_counters *counters);
/* Number `index` of what went another way than it was meant to; -ENOENT when there are no more. */
CHAINIO_API int chainio_get_fallback(chainio_handle *handle, uint32_t index, struct chainio_fallback *fallback);

#ifdef __cplusplus
}
#endif

#endif
