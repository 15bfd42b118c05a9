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

const volatile struct cio_xdp_constants constants = {0};
volatile struct cio_xdp_settings settings = {0};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cio_xdp_taken);
} taken SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CIO_XDP_SERVICES);
	__type(key, __u32);
	__type(value, struct cio_kept_service);
} services SEC(".maps");

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

static __always_inline __u64 whose(const struct cio_xdp_taken *there, const __u64 *half)
{
	const struct cio_xdp_address *address = &there->address[cio_xdp_slot(there->seed, half[0], half[1])];
	return address->half[0] == half[0] && address->half[1] == half[1] ? address->whose : CIO_XDP_FOREIGN;
}

/* The service at the datagram's port, if its destination is one of the interface's addresses. Its source is none of the machine's: the answer
 * would come back as a request, again and again, from a router or by the other interface. */
static __always_inline const struct cio_kept_service *declared(const struct udphdr *udp, const __u64 *source, const __u64 *destination)
{
	const __u32 zero = 0;
	const struct cio_xdp_taken *there = bpf_map_lookup_elem(&taken, &zero);
	if (!there || udp->source == 0)
		return NULL;
	if (whose(there, destination) != CIO_XDP_TAKEN || whose(there, source) != CIO_XDP_FOREIGN)
		return NULL;
	const __u32 place = (__u32)there->service[udp->dest] - 1; /* there is none at the place of an undeclared port */
	return bpf_map_lookup_elem(&services, &place);
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
	if (network == 0 || network == 127 || network >= 224 || folded(sum_of((const __u32 *)ip, 5)) != 0xffff)
		return NULL;
	const __u64 source[2] = {0, 0xffff0000ull | (__u64)ip->saddr << 32}, destination[2] = {0, 0xffff0000ull | (__u64)ip->daddr << 32};
	return declared(udp, source, destination);
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
	/* Nobody could be answered there: multicast, and what begins with eight zero bytes (::, ::1, mapped IPv4). Of the
	 * table, what begins so is IPv4's. */
	const __u64 *source = (const __u64 *)&ip->saddr, *destination = (const __u64 *)&ip->daddr;
	if ((__u8)source[0] == 0xff || source[0] == 0 || destination[0] == 0)
		return NULL;
	return declared(udp, source, destination);
}

static __always_inline const struct cio_kept_service *ours(struct xdp_md *ctx)
{
	const void *data = (const void *)(long)ctx->data;
	const void *end = (const void *)(long)ctx->data_end;
	if (data + sizeof(struct ethhdr) > end)
		return NULL;
	if (*(const __u64 *)data << 16 != *(const volatile __u64 *)constants.own_mac << 16)
		return NULL;
	__u32 length = (__u32)bpf_xdp_get_buff_len(ctx);
	if (length > settings.longest_frame)
		return NULL;
	switch (ether_type(data)) {
	case bpf_htons(ETH_P_IP):
		return ours_v4(data, end, length);
	case bpf_htons(ETH_P_IPV6):
		return ours_v6(data, end, length);
	default:
		return NULL;
	}
}

/* Sockets end with the process. Nobody forgets any more what is kept then, so that it is not to be sent. */
static __always_inline bool looked_after(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	return constants.outlives == 0 || bpf_map_lookup_elem(&sockets, &queue) != NULL;
}

/* The reply that stands in the packet's place. The kernel counts at the interface what it cannot deliver. */
static __always_inline int send_back(struct xdp_md *ctx)
{
	return settings.answering == CIO_XDP_BY_REDIRECT ? (int)bpf_redirect(ctx->ingress_ifindex, 0) : XDP_TX;
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
		if (service->sets != 0 && settings.answering != CIO_XDP_SILENT && looked_after(ctx) && answered(ctx, service))
			return send_back(ctx);
		return hand_over(ctx);
	}
	count(1);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
