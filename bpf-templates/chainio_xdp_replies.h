/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The part of the XDP program that answers requests whose replies are kept: chainio_xdp.h says what lies where. Of
 * chainio_xdp.bpf.c, which includes it once. */
#define WORD_COUNT(bytes) ((bytes) / 8)
#define LONGEST_REPLY 2048 /* CIO_KEPT_REPLY as a power of two */

/* Sizes are set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct cio_kept_set);
} kept_sets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct cio_kept_place);
} kept_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct cio_kept_epoch);
} kept_epochs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS * CIO_KEPT_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} kept_counts SEC(".maps");

/* Where a request is looked at. */
struct scratch {
	__u64 request[WORD_COUNT(CIO_KEPT_REQUEST)]; /* of its begin what is compared, the rest as it came */
	__u64 begin[WORD_COUNT(CIO_KEPT_FIXED)];     /* its begin as it came */
	__u8 head[CIO_KEPT_HEAD];                    /* what the reply begins with */
	__u8 headers[64];
	__u64 fence;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* What is read or written before stays before, on every machine: an exchange orders all. */
static __always_inline void fence(struct scratch *scratch)
{
	__sync_lock_test_and_set(&scratch->fence, 1);
	barrier();
}

static __always_inline void count_kept(__u32 service, __u32 what)
{
	__u32 which = service * CIO_KEPT_COUNTS + what;
	__u64 *counter = bpf_map_lookup_elem(&kept_counts, &which);
	if (counter)
		(*counter)++;
}

static __always_inline __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)((sum & 0xffff) + (sum >> 16));
}

/* A loop's counter that the compiler does not see through, so that both of its bounds stay for the verifier. */
#define KEPT_BELOW(i, bound) ({ barrier_var(i); i < (bound); })
#define KEPT_ROUNDS(i, limit, count) for (__u32 i = 0; KEPT_BELOW(i, limit) && KEPT_BELOW(i, count); i++)

/* The head of the reply to the request in `scratch`; of the request's begin what is compared stays. */
static __always_inline void split(struct scratch *scratch, const struct cio_kept_service *service)
{
	__builtin_memcpy(scratch->begin, scratch->request, sizeof(scratch->begin));
	__builtin_memset(scratch->head, 0, sizeof(scratch->head));
	const __u8 *begin = (const __u8 *)scratch->begin;
	KEPT_ROUNDS(i, CIO_KEPT_HEAD, service->head_length) {
		__u32 from = service->head[i];
		scratch->head[i] = from < CIO_KEPT_FIXED ? begin[from & (CIO_KEPT_FIXED - 1)] : (__u8)from;
	}
	const __u64 *compared = (const __u64 *)service->compared;
#pragma unroll
	for (int i = 0; i < WORD_COUNT(CIO_KEPT_FIXED); i++)
		scratch->request[i] &= compared[i];
}

/* The place that may have the reply. */
static __always_inline struct cio_kept_place *place_of(const struct scratch *scratch, const struct cio_kept_service *service,
						       __u32 length, __u64 now)
{
	__u64 hash = cio_kept_mix(constants.seed, length);
	KEPT_ROUNDS(i, WORD_COUNT(CIO_KEPT_REQUEST), (length + 7) / 8)
		hash = cio_kept_mix(hash, scratch->request[i]);
	__u32 number = service->first_set + ((__u32)hash & (service->sets - 1));
	struct cio_kept_set *set = bpf_map_lookup_elem(&kept_sets, &number);
	if (!set)
		return NULL;
	const __u32 tag = cio_kept_tag(hash), tick = (__u32)(now >> CIO_KEPT_TICK);
	__u32 way = CIO_KEPT_WAYS;
#pragma unroll
	for (__u32 i = 0; i < CIO_KEPT_WAYS; i++)
		way = set->tag[i] == tag ? i : way;
	if (way >= CIO_KEPT_WAYS)
		return NULL;
	/* Written once a tick, so that a request that is asked for everywhere does not take the line along. */
	if (set->used[way] != tick)
		set->used[way] = tick;
	__u32 place = number * CIO_KEPT_WAYS + way;
	return bpf_map_lookup_elem(&kept_places, &place);
}

static __always_inline bool same_request(const struct scratch *scratch, const struct cio_kept_place *place, __u32 length)
{
	const __u64 *words = (const __u64 *)place->request;
	__u64 differ = 0;
	KEPT_ROUNDS(i, WORD_COUNT(CIO_KEPT_REQUEST), (length + 7) / 8)
		differ |= words[i] ^ scratch->request[i];
	return differ == 0;
}

/* What is known of a place is of one reply if its version is this one behind as well. */
static __always_inline bool unchanged(struct scratch *scratch, const struct cio_kept_place *place, __u32 version)
{
	fence(scratch);
	return *(volatile const __u32 *)&place->version == version;
}

/* Whether the place, whose version was even, has the reply to the request in `scratch`. */
static __always_inline enum cio_kept_count has(const struct scratch *scratch, const struct cio_kept_place *place,
					       const struct cio_kept_service *service, __u32 length, __u64 now)
{
	__u32 number = service->number;
	const struct cio_kept_epoch *epoch = bpf_map_lookup_elem(&kept_epochs, &number);
	if (!epoch || place->service != number || place->request_length != length || !same_request(scratch, place, length))
		return CIO_KEPT_MISS;
	const bool fresh = place->epoch == *(volatile const __u64 *)&epoch->now && place->expires_ns > now;
	return fresh ? CIO_KEPT_HIT : CIO_KEPT_STALE;
}

static __always_inline void turn_ethernet(struct ethhdr *eth)
{
	__u8 mac[ETH_ALEN];
	__builtin_memcpy(mac, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
}

static __always_inline __u64 sum_of(const __u16 *words, int count)
{
	__u64 sum = 0;
#pragma unroll
	for (int i = 0; i < count; i++)
		sum += words[i];
	return sum;
}

static __always_inline void turn_udp(struct udphdr *udp, __u16 length, __u64 sum)
{
	__be16 port = udp->source;
	udp->source = udp->dest;
	udp->dest = port;
	udp->len = bpf_htons(length);
	const __u16 check = ~folded(sum + udp->source + udp->dest + udp->len + bpf_htons(IPPROTO_UDP) + bpf_htons(length));
	udp->check = check ? check : 0xffff;
}

/* The request's headers become those of the reply, whose bytes have the sum `sum`. */
static __always_inline void turn_v4(__u8 *headers, __u16 length, __u64 sum)
{
	struct iphdr *ip = (void *)(headers + sizeof(struct ethhdr));
	turn_ethernet((void *)headers);
	__be32 address = ip->saddr;
	ip->saddr = ip->daddr;
	ip->daddr = address;
	ip->tos = 0;
	ip->id = 0;
	ip->frag_off = bpf_htons(0x4000);
	ip->ttl = 64;
	ip->tot_len = bpf_htons(length + sizeof(*ip));
	ip->check = 0;
	const __u16 *words = (const __u16 *)ip;
	ip->check = ~folded(sum_of(words, 10));
	turn_udp((void *)(ip + 1), length, sum + sum_of(words + 6, 4));
}

static __always_inline void turn_v6(__u8 *headers, __u16 length, __u64 sum)
{
	struct ipv6hdr *ip = (void *)(headers + sizeof(struct ethhdr));
	turn_ethernet((void *)headers);
	__u64 words[4];
	__builtin_memcpy(words, &ip->saddr, sizeof(words));
	__builtin_memcpy(&ip->saddr, words + 2, 16);
	__builtin_memcpy(&ip->daddr, words, 16);
	ip->priority = 0;
	ip->flow_lbl[0] = ip->flow_lbl[1] = ip->flow_lbl[2] = 0;
	ip->hop_limit = 64;
	ip->payload_len = bpf_htons(length);
	turn_udp((void *)(ip + 1), length, sum + sum_of((const __u16 *)words, 16));
}

/* `value` where it is in 1 to `most`, a power of two, in a form that every kernel's verifier understands. */
static __always_inline __u32 within(__u32 value, __u32 most)
{
	barrier_var(value);
	value = ((value - 1) & (most - 1)) + 1;
	barrier_var(value);
	return value;
}

/* Makes the packet `more` bytes longer: behind, or where the driver leaves no room there, in front, whereto the headers go. */
static __always_inline bool make_room(struct xdp_md *ctx, struct scratch *scratch, int more, __u32 at)
{
	if (bpf_xdp_adjust_tail(ctx, more) == 0)
		return true;
	if (bpf_xdp_load_bytes(ctx, 0, scratch->headers, at) != 0 || bpf_xdp_adjust_head(ctx, -more) != 0)
		return false;
	return bpf_xdp_store_bytes(ctx, 0, scratch->headers, at) == 0;
}

/* The reply leaves in the packet's place, whose length it has. */
static __always_inline bool turn(struct xdp_md *ctx, const struct scratch *scratch, const struct cio_kept_service *service,
				 __u32 at, __u16 reply, __u64 sum)
{
	__u8 *headers = (void *)(long)ctx->data;
	if ((void *)(headers + at) > (const void *)(long)ctx->data_end)
		return false;
	sum += sum_of((const __u16 *)scratch->head, CIO_KEPT_HEAD / 2);
	if (at == sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
		turn_v4(headers, reply + sizeof(struct udphdr), sum);
	else
		turn_v6(headers, reply + sizeof(struct udphdr), sum);
	return true;
}

/* Copies the place's reply over the request, in whose packet there is room. False: the place was written meanwhile, and the request is
 * there again. */
static __always_inline bool copy(struct xdp_md *ctx, struct scratch *scratch, const struct cio_kept_service *service,
				 const struct cio_kept_place *place, __u32 version, __u32 at, __u32 length, __u32 reply)
{
	/* Here, since older verifiers forget it on the way; unless the place is being written, it is so. */
	barrier_var(reply);
	if (reply > CIO_KEPT_REPLY)
		return false;
	bpf_xdp_store_bytes(ctx, at, (void *)place->reply, reply);
	if (unchanged(scratch, place, version)) {
		if (service->head_length != 0)
			bpf_xdp_store_bytes(ctx, at, scratch->head, within(service->head_length, CIO_KEPT_HEAD));
		return true;
	}
	__builtin_memcpy(scratch->request, scratch->begin, sizeof(scratch->begin));
	bpf_xdp_store_bytes(ctx, at, scratch->request, within(length, CIO_KEPT_REQUEST));
	return false;
}

/* What becomes of the request of `length` bytes at `at`. */
static __always_inline enum cio_kept_count reply_to(struct xdp_md *ctx, const struct cio_kept_service *service, struct scratch *scratch,
						    __u32 at, __u32 length)
{
	scratch->request[(length - 1) / 8 & (WORD_COUNT(CIO_KEPT_REQUEST) - 1)] = 0;
	if (bpf_xdp_load_bytes(ctx, at, scratch->request, within(length, CIO_KEPT_REQUEST)) != 0)
		return CIO_KEPT_MISS;
	split(scratch, service);
	/* Behind by a few milliseconds, and cheap. */
	const __u64 now = bpf_ktime_get_coarse_ns();
	const struct cio_kept_place *place = place_of(scratch, service, length, now);
	if (!place)
		return CIO_KEPT_MISS;
	const __u32 version = *(volatile const __u32 *)&place->version;
	fence(scratch);
	const enum cio_kept_count found = (version & 1) != 0 ? CIO_KEPT_MISS : has(scratch, place, service, length, now);
	const __u32 reply = within(place->reply_length, LONGEST_REPLY);
	const __u64 sum = place->sum;
	if (found != CIO_KEPT_HIT)
		return found;
	const int more = (int)(at + reply) - (int)bpf_xdp_get_buff_len(ctx);
	if (more > 0 && !make_room(ctx, scratch, more, at))
		return CIO_KEPT_NO_ROOM;
	if (!copy(ctx, scratch, service, place, version, at, length, reply))
		return CIO_KEPT_MISS;
	if (more < 0)
		bpf_xdp_adjust_tail(ctx, more);
	return turn(ctx, scratch, service, at, reply, sum) ? CIO_KEPT_HIT : CIO_KEPT_MISS;
}

/* With `at` the payload's begin, a constant. True: the reply is in the packet's place; the request is there otherwise. */
static __always_inline bool reply_at(struct xdp_md *ctx, const struct cio_kept_service *service, struct scratch *scratch, __u32 at)
{
	const struct udphdr *udp = (const void *)((long)ctx->data + at - sizeof(*udp));
	if ((const void *)(udp + 1) > (const void *)(long)ctx->data_end)
		return false;
	const __u32 length = bpf_ntohs(udp->len) - sizeof(*udp);
	enum cio_kept_count found = CIO_KEPT_MISS;
	if (length >= 1 && length <= CIO_KEPT_REQUEST)
		found = reply_to(ctx, service, scratch, at, length);
	count_kept(service->number, found);
	return found == CIO_KEPT_HIT;
}

static __always_inline bool answered(struct xdp_md *ctx, const struct cio_kept_service *service)
{
	const __u32 zero = 0;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	const void *data = (const void *)(long)ctx->data;
	const void *end = (const void *)(long)ctx->data_end;
	const struct ethhdr *eth = data;
	if (!scratch || (const void *)(eth + 1) > end)
		return false;
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return reply_at(ctx, service, scratch, sizeof(*eth) + sizeof(struct ipv6hdr) + sizeof(struct udphdr));
	return reply_at(ctx, service, scratch, sizeof(*eth) + sizeof(struct iphdr) + sizeof(struct udphdr));
}
