// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The XDP program of `via xdp`: hands whole, well-formed UDP datagrams for declared ports and addresses to the AF_XDP
// socket of the queue that they came by. Everything else goes to the kernel as it is: what this program is not sure of
// is not its own. A request whose reply is kept (chainio_xdp_replies.h) is answered here. Loadable on Linux 6.1 and later.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bpf-templates/chainio_xdp.h"

#define MAX_QUEUES 64
#define MAX_PORTS 64
#define MAX_ADDRESSES 64

struct address {
	__u8 bytes[16]; /* IPv4: ::ffff:a.b.c.d */
};

const volatile struct cio_xdp_constants constants = {0};
volatile struct cio_xdp_settings settings = {0};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u16); /* network byte order */
	__type(value, struct cio_kept_service);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ADDRESSES);
	__type(key, struct address);
	__type(value, __u8);
} addresses SEC(".maps");

/* 0: handed to a socket, 1: left to the kernel. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

#include "bpf-templates/chainio_xdp_replies.h"

static __always_inline void count(__u32 which)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &which);
	if (counter)
		(*counter)++;
}

static __always_inline const struct cio_kept_service *declared(const struct udphdr *udp, const struct address *destination)
{
	__u16 port = udp->dest;
	if (udp->source == 0 || !bpf_map_lookup_elem(&addresses, destination))
		return NULL;
	return bpf_map_lookup_elem(&ports, &port);
}

static __always_inline bool header_sum_right(const struct iphdr *ip)
{
	const __u16 *words = (const __u16 *)ip;
	__u32 sum = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static __always_inline const struct cio_kept_service *ours_v4(const void *data, const void *end, __u32 length)
{
	const struct iphdr *ip = data + sizeof(struct ethhdr);
	const struct udphdr *udp = (const void *)(ip + 1);
	if ((const void *)(udp + 1) > end)
		return NULL;
	/* Options, fragments (and the bit that is to be zero) are the kernel's. */
	if (ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP || (ip->frag_off & ~bpf_htons(0x4000)) != 0)
		return NULL;
	__u32 total = bpf_ntohs(ip->tot_len), payload = bpf_ntohs(udp->len);
	if (total + sizeof(struct ethhdr) > length || payload < sizeof(*udp) || payload + sizeof(*ip) != total)
		return NULL;
	/* Nobody could be answered there: network 0, loopback, multicast and broadcast. */
	__u8 network = bpf_ntohl(ip->saddr) >> 24;
	if (network == 0 || network == 127 || network >= 224 || !header_sum_right(ip))
		return NULL;
	struct address destination = {.bytes = {[10] = 0xff, [11] = 0xff}};
	__builtin_memcpy(destination.bytes + 12, &ip->daddr, 4);
	return declared(udp, &destination);
}

static __always_inline const struct cio_kept_service *ours_v6(const void *data, const void *end, __u32 length)
{
	const struct ipv6hdr *ip = data + sizeof(struct ethhdr);
	const struct udphdr *udp = (const void *)(ip + 1);
	if ((const void *)(udp + 1) > end)
		return NULL;
	if (ip->version != 6 || ip->nexthdr != IPPROTO_UDP || udp->check == 0)
		return NULL;
	__u32 payload = bpf_ntohs(ip->payload_len);
	if (payload + sizeof(struct ethhdr) + sizeof(*ip) > length || payload < sizeof(*udp) || payload != bpf_ntohs(udp->len))
		return NULL;
	/* Nobody could be answered there: multicast, and what begins with eight zero bytes (::, ::1, mapped IPv4). */
	const __u8 *source = ip->saddr.in6_u.u6_addr8;
	__u64 half;
	__builtin_memcpy(&half, source, 8);
	if (source[0] == 0xff || half == 0)
		return NULL;
	struct address destination;
	__builtin_memcpy(destination.bytes, &ip->daddr, 16);
	return declared(udp, &destination);
}

static __always_inline const struct cio_kept_service *ours(struct xdp_md *ctx)
{
	const void *data = (const void *)(long)ctx->data;
	const void *end = (const void *)(long)ctx->data_end;
	const struct ethhdr *eth = data;
	if ((const void *)(eth + 1) > end)
		return NULL;
	__u32 length = (__u32)bpf_xdp_get_buff_len(ctx);
	if (length > settings.longest_frame)
		return NULL;
	for (int i = 0; i < ETH_ALEN; i++) {
		if (eth->h_dest[i] != constants.own_mac[i])
			return NULL;
	}
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return ours_v4(data, end, length);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return ours_v6(data, end, length);
	return NULL;
}

/* Sockets end with the process. Nobody forgets any more what is kept then, so that it is not to be sent. */
static __always_inline bool looked_after(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	return constants.outlives == 0 || bpf_map_lookup_elem(&sockets, &queue) != NULL;
}

/* A queue without a socket leaves it to the kernel. */
static __always_inline int hand_over(struct xdp_md *ctx)
{
	long verdict = bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
	count(verdict == XDP_REDIRECT ? 0 : 1);
	return (int)verdict;
}

/* The same without kept replies, for a dispatcher: kernels refuse to put what makes packets longer into one that does not. */
SEC("xdp.frags")
int chainio_hand(struct xdp_md *ctx)
{
	if (ours(ctx))
		return hand_over(ctx);
	count(1);
	return XDP_PASS;
}

SEC("xdp.frags")
int chainio_take(struct xdp_md *ctx)
{
	const struct cio_kept_service *service = ours(ctx);
	if (service) {
		if (service->sets != 0 && settings.answering != 0 && looked_after(ctx) && answered(ctx, service))
			return XDP_TX;
		return hand_over(ctx);
	}
	count(1);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
