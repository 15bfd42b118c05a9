/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the XDP program and the runtime (runtime/net/program.cpp, replies.cpp) have to agree on.
 *
 * Replies that the program keeps are written by the runtime alone. A request leads to two sets of places; the tag says which of them may have
 * its reply, and the request that stands there whether it does. A place that is being written has an odd version, and what was copied out
 * of it counts if its version is the same behind as before. */
#pragma once
#include <linux/types.h>

#define CIO_KEPT_SETS 2      /* that a request leads to */
#define CIO_KEPT_WAYS 8      /* places of a set */
#define CIO_KEPT_REQUEST 256 /* bytes of a request that is looked up, at most */
#define CIO_KEPT_REPLY 1728
#define CIO_KEPT_FIXED 64 /* bytes at a request's begin of which some need not be compared */
#define CIO_KEPT_HEAD 32  /* bytes that a reply begins with and that are its request's own */
#define CIO_KEPT_CONSTANT 256
#define CIO_KEPT_TICK 26 /* a place's last use is known to 2^26 ns */

#define CIO_PATH_ALWAYS 1280 /* bytes of an IP packet that every way takes, says IPv6; a longer one goes by what is known of its way */
#define CIO_PATH_BITS 11
#define CIO_PATHS (1 << CIO_PATH_BITS)

#define CIO_XDP_SERVICES 64
#define CIO_XDP_ADDRESSES 64 /* that are taken */
#define CIO_XDP_OTHERS 64    /* of the machine that are not */
#define CIO_XDP_SLOT_BITS 11
#define CIO_XDP_SLOTS (1 << CIO_XDP_SLOT_BITS)

/* Set before loading. */
struct cio_xdp_constants {
	__u8 own_mac[8]; /* the last two are zero */
	__u64 seed;	 /* so that nobody outside knows which requests share a set */
	__u8 outlives;	 /* whether it stays attached when the process is killed: in a dispatcher */
	__u8 ordered;	 /* whether processors keep the order of loads by themselves */
	__u8 unused[6];
};
#ifdef __x86_64__
#define CIO_XDP_ORDERED 1
#else
#define CIO_XDP_ORDERED 0
#endif

/* What an address is. What says to come from one of the machine's own would be answered to itself. */
enum cio_xdp_whose { CIO_XDP_FOREIGN, CIO_XDP_TAKEN, CIO_XDP_OTHER };

/* What is taken. Addresses lie where their hash says; the runtime looks for a seed with which no two of them lie in one slot, so that nothing is
 * to be searched. */
struct cio_xdp_address {
	__u64 half[2]; /* IPv4: ::ffff:a.b.c.d */
	__u64 whose;   /* cio_xdp_whose */
};
struct cio_xdp_taken {
	__u64 seed;
	struct cio_xdp_address address[CIO_XDP_SLOTS];
	__u8 service[65536]; /* by port, as it stands in a packet: the service's place and 1; 0: the port is not declared */
};

/* How kept replies leave. A veth's XDP_TX wakes its peer only where that has a program; a redirect to the same interface does where it has
 * GRO as well. */
enum cio_xdp_answering { CIO_XDP_SILENT, CIO_XDP_BY_TX, CIO_XDP_BY_REDIRECT };

/* Set while it runs. */
struct cio_xdp_settings {
	__u32 longest_frame;
	__u32 answering; /* cio_xdp_answering; silent: what is sent back from here does not arrive */
};

/* What became of a service's requests. */
enum cio_kept_count { CIO_KEPT_HIT, CIO_KEPT_MISS, CIO_KEPT_STALE, CIO_KEPT_NO_ROOM, CIO_KEPT_COUNTS };

/* Bytes of a request that its reply repeats: those of the word at `from`, less 8, that the mask has, in the head's word `to`. */
struct cio_kept_repeat {
	__u64 mask;
	__u32 from;
	__u32 to;
};

/* How requests to a port are looked up. */
struct cio_kept_service {
	__u32 number;
	__u32 sets; /* a power of two; 0: nothing is kept */
	__u32 first_set;
	__u32 head_length;
	__u8 compared[CIO_KEPT_FIXED]; /* 0xff, or 0 where replies do not depend on the byte */
	__u8 head[CIO_KEPT_HEAD];      /* what a reply begins with, zero where the request's bytes are repeated */
	__u32 repeats;
	__u32 unused;
	struct cio_kept_repeat repeat[CIO_KEPT_HEAD];
};

struct cio_kept_set {
	__u32 tag[CIO_KEPT_WAYS]; /* 0: nothing is there */
	__u32 used[CIO_KEPT_WAYS];
};

/* The reply begins with a cache line. Packets do in their buffers, and their payload 42 or 62 bytes behind that: some processors (AMD's Zen 4)
 * take fifteen times as long to copy to where the page is 1 to 15 bytes further on than where they copy from. */
struct cio_kept_place {
	__u32 version;
	__u32 service;
	__u32 request_length;
	__u16 reply_length;
	__u16 sum; /* of the reply, its head taken as zeros, as 16-bit words of the machine */
	__u64 epoch;
	__u64 expires_ns; /* of CLOCK_MONOTONIC */
	__u8 request[CIO_KEPT_REQUEST]; /* what is not compared is zero, and so is what is behind it up to a whole word */
	__u8 unused[32];
	__u8 reply[CIO_KEPT_REPLY];
};

/* Of a service: places of another epoch are stale; 0: nothing is answered. A cache line each. */
struct cio_kept_epoch {
	__u64 now;
	__u64 unused[7];
};

/* What the way from one of our addresses to a peer takes, at the place of both. Written by the runtime alone, as a kept place is. */
struct cio_path {
	__u32 version;
	__u32 mtu;
	__u64 expires_ns; /* of CLOCK_MONOTONIC */
	__u64 peer[2];	  /* IPv4: ::ffff:a.b.c.d */
	__u64 own[2];
	__u64 unused[2];
};

static inline __attribute__((always_inline)) __u64 cio_kept_mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static inline __attribute__((always_inline)) __u32 cio_xdp_slot(__u64 seed, __u64 first, __u64 second)
{
	return (__u32)(cio_kept_mix(cio_kept_mix(seed, first), second) >> (64 - CIO_XDP_SLOT_BITS));
}

static inline __attribute__((always_inline)) __u32 cio_path_slot(__u64 seed, const __u64 *peer, const __u64 *own)
{
	return (__u32)(cio_kept_mix(cio_kept_mix(cio_kept_mix(cio_kept_mix(seed, peer[0]), peer[1]), own[0]), own[1]) >> (64 - CIO_PATH_BITS));
}

/* The low bits say which set is the request's first one, or another one. */
static inline __attribute__((always_inline)) __u32 cio_kept_set_of(__u64 hash, int which)
{
	return (__u32)(hash >> 20 * which);
}

static inline __attribute__((always_inline)) __u32 cio_kept_tag(__u64 hash)
{
	return (__u32)(hash >> 32) | 1;
}
