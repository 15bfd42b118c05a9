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
	__uint(max_entries, CIO_XDP_SERVICES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct cio_kept_epoch);
} kept_epochs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CIO_PATHS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct cio_path);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CIO_XDP_SERVICES * CIO_KEPT_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} kept_counts SEC(".maps");

/* Where a request is looked at. */
struct scratch {
	__u64 request[WORD_COUNT(CIO_KEPT_REQUEST)]; /* of its begin what is compared, the rest as it came */
	__u64 begin[WORD_COUNT(CIO_KEPT_FIXED) + 2]; /* its begin as it came, between two words of which nothing is wanted */
	__u64 head[WORD_COUNT(CIO_KEPT_HEAD)];	     /* what the reply begins with */
	__u8 headers[64];
	__u64 fence;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* What is read before stays before, on every machine: an exchange orders all where processors do not keep the order of loads. */
static __always_inline void fence(struct scratch *scratch)
{
	if (!constants.ordered)
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

/* `value` where it is in 1 to `most`, a power of two, in a form that every kernel's verifier understands. */
static __always_inline __u32 within(__u32 value, __u32 most)
{
	barrier_var(value);
	value = ((value - 1) & (most - 1)) + 1;
	barrier_var(value);
	return value;
}

/* Takes word `i` of the request: of its begin what is compared. */
static __always_inline __u64 take_word(struct scratch *scratch, const struct cio_kept_service *service, __u32 i, __u64 word, __u64 hash)
{
	const __u64 *compared = (const __u64 *)service->compared;
	if (KEPT_BELOW(i, WORD_COUNT(CIO_KEPT_FIXED))) {
		scratch->begin[1 + i] = word;
		word &= compared[i];
	}
	scratch->request[i & (WORD_COUNT(CIO_KEPT_REQUEST) - 1)] = word;
	return cio_kept_mix(hash, word);
}

/* Takes the request of `length` bytes at `at` word by word; false: it has to be copied first, as it is shorter than a word, or not in one piece. */
static __always_inline bool take_words(struct xdp_md *ctx, struct scratch *scratch, const struct cio_kept_service *service, __u32 at, __u32 length,
				       __u64 *hash)
{
	const void *from = (const void *)(long)ctx->data + at, *end = (const void *)(long)ctx->data_end;
	KEPT_ROUNDS(i, WORD_COUNT(CIO_KEPT_REQUEST), length / 8) {
		const __u64 *word = from + 8 * i;
		if ((const void *)(word + 1) > end)
			return false;
		*hash = take_word(scratch, service, i, *word, *hash);
	}
	if (length % 8 == 0)
		return true;
	/* The last bytes are read with those before them: nothing behind the request need be there. */
	const __u32 behind = within(length, CIO_KEPT_REQUEST);
	const __u64 *last = from + behind - 8;
	if (behind < 8 || (const void *)(last + 1) > end)
		return false;
	*hash = take_word(scratch, service, length / 8, *last >> (64 - length % 8 * 8), *hash);
	return true;
}

/* The hash of the request, which is in `scratch` then; false: it is not all there. */
static __always_inline bool take_request(struct xdp_md *ctx, struct scratch *scratch, const struct cio_kept_service *service, __u32 at, __u32 length,
					 __u64 *hash)
{
	*hash = constants.seed;
	if (!take_words(ctx, scratch, service, at, length, hash)) {
		*hash = constants.seed;
		scratch->request[(length - 1) / 8 & (WORD_COUNT(CIO_KEPT_REQUEST) - 1)] = 0;
		if (bpf_xdp_load_bytes(ctx, at, scratch->request, within(length, CIO_KEPT_REQUEST)) != 0)
			return false;
		KEPT_ROUNDS(i, WORD_COUNT(CIO_KEPT_REQUEST), (length + 7) / 8)
			*hash = take_word(scratch, service, i, scratch->request[i], *hash);
	}
	*hash = cio_kept_mix(*hash, length); /* last: the word before that has its say in every bit by it */
	return true;
}

/* The head of the reply to the request in `scratch`. */
static __always_inline void split(struct scratch *scratch, const struct cio_kept_service *service)
{
	const __u64 *head = (const __u64 *)service->head;
#pragma unroll
	for (int i = 0; i < WORD_COUNT(CIO_KEPT_HEAD); i++)
		scratch->head[i] = head[i];
	KEPT_ROUNDS(i, CIO_KEPT_HEAD, service->repeats) {
		__u32 from = service->repeat[i].from, to = service->repeat[i].to;
		if (!KEPT_BELOW(from, CIO_KEPT_FIXED + 9) || !KEPT_BELOW(to, WORD_COUNT(CIO_KEPT_HEAD)))
			break;
		scratch->head[to] |= *(const __u64 *)((const __u8 *)scratch->begin + from) & service->repeat[i].mask;
	}
}

/* The place of the set that may have the reply. */
static __always_inline struct cio_kept_place *place_in(__u32 number, __u32 tag, __u64 now)
{
	struct cio_kept_set *set = bpf_map_lookup_elem(&kept_sets, &number);
	if (!set)
		return NULL;
	const __u32 tick = (__u32)(now >> CIO_KEPT_TICK);
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

static __always_inline struct cio_kept_place *place_of(const struct cio_kept_service *service, __u64 hash, __u64 now)
{
	struct cio_kept_place *place = NULL;
#pragma unroll
	for (int i = 0; i < CIO_KEPT_SETS; i++) {
		if (!place)
			place = place_in(service->first_set + (cio_kept_set_of(hash, i) & (service->sets - 1)), cio_kept_tag(hash), now);
	}
	return place;
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

static __always_inline __be16 ether_type(const void *headers)
{
	return *(const __be16 *)(headers + offsetof(struct ethhdr, h_proto));
}

static __always_inline void turn_ethernet(__u16 *words)
{
#pragma unroll
	for (int i = 0; i < ETH_ALEN / 2; i++) {
		const __u16 destination = words[i];
		words[i] = words[ETH_ALEN / 2 + i];
		words[ETH_ALEN / 2 + i] = destination;
	}
}

static __always_inline __u64 sum_of(const __u32 *words, int count)
{
	__u64 sum = 0;
#pragma unroll
	for (int i = 0; i < count; i++)
		sum += words[i];
	return sum;
}

/* Sums are of what is about to be written, as a processor waits when it reads at once what it has written in smaller parts. */
static __always_inline void turn_udp(struct udphdr *udp, __u16 length, __u64 sum)
{
	const __be16 source = udp->source, destination = udp->dest, be_length = bpf_htons(length);
	udp->source = destination;
	udp->dest = source;
	udp->len = be_length;
	const __u16 check = ~folded(sum + source + destination + 2ull * be_length + bpf_htons(IPPROTO_UDP));
	udp->check = check ? check : 0xffff;
}

/* The request's headers become those of the reply, whose bytes have the sum `sum`. */
static __always_inline void turn_v4(__u8 *headers, __u16 length, __u64 sum)
{
	struct iphdr *ip = (void *)(headers + sizeof(struct ethhdr));
	const __be32 source = ip->saddr, destination = ip->daddr;
	const __be16 total = bpf_htons(length + sizeof(*ip));
	const __u64 addresses = (__u64)source + destination;
	turn_ethernet((void *)headers);
	ip->tos = 0;
	ip->tot_len = total;
	ip->id = 0;
	ip->frag_off = bpf_htons(0x4000);
	ip->ttl = 64;
	ip->check = ~folded(addresses + bpf_htons(0x4500) + total + bpf_htons(0x4000) + bpf_htons(64 << 8 | IPPROTO_UDP));
	ip->saddr = destination;
	ip->daddr = source;
	turn_udp((void *)(ip + 1), length, sum + addresses);
}

static __always_inline void turn_v6(__u8 *headers, __u16 length, __u64 sum)
{
	struct ipv6hdr *ip = (void *)(headers + sizeof(struct ethhdr));
	turn_ethernet((void *)headers);
	__u32 words[8];
	__builtin_memcpy(words, &ip->saddr, sizeof(words));
	__builtin_memcpy(&ip->saddr, words + 4, 16);
	__builtin_memcpy(&ip->daddr, words, 16);
	ip->priority = 0;
	ip->flow_lbl[0] = ip->flow_lbl[1] = ip->flow_lbl[2] = 0;
	ip->hop_limit = 64;
	ip->payload_len = bpf_htons(length);
	turn_udp((void *)(ip + 1), length, sum + sum_of(words, 8));
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

/* The reply leaves in the packet's place, whose length it has. Where its head belongs there are zeros. */
static __always_inline bool turn(struct xdp_md *ctx, const struct scratch *scratch, const struct cio_kept_service *service,
				 __u32 at, __u16 reply, __u64 sum)
{
	__u8 *headers = (void *)(long)ctx->data;
	const void *end = (const void *)(long)ctx->data_end;
	if ((void *)(headers + at) > end)
		return false;
	sum += sum_of((const __u32 *)scratch->head, CIO_KEPT_HEAD / 4);
	if (at == sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
		turn_v4(headers, reply + sizeof(struct udphdr), sum);
	else
		turn_v6(headers, reply + sizeof(struct udphdr), sum);
	if ((void *)(headers + at + CIO_KEPT_HEAD) > end)
		return service->head_length == 0 || bpf_xdp_store_bytes(ctx, at, (void *)scratch->head, within(service->head_length, CIO_KEPT_HEAD)) == 0;
#pragma unroll
	for (int i = 0; i < WORD_COUNT(CIO_KEPT_HEAD); i++)
		((__u64 *)(headers + at))[i] |= scratch->head[i];
	return true;
}

/* Copies the place's reply over the request, in whose packet there is room. False: the place was written meanwhile, and the request is
 * there again. */
static __always_inline bool copy(struct xdp_md *ctx, struct scratch *scratch, const struct cio_kept_place *place, __u32 version, __u32 at,
				 __u32 length, __u32 reply)
{
	/* Here, since older verifiers forget it on the way; unless the place is being written, it is so. */
	barrier_var(reply);
	if (reply > CIO_KEPT_REPLY)
		return false;
	bpf_xdp_store_bytes(ctx, at, (void *)place->reply, reply);
	if (unchanged(scratch, place, version))
		return true;
	__builtin_memcpy(scratch->request, scratch->begin + 1, CIO_KEPT_FIXED);
	bpf_xdp_store_bytes(ctx, at, scratch->request, within(length, CIO_KEPT_REQUEST));
	return false;
}

/* Whether the way back is known to take a packet of that many bytes, from its IP header on. */
static __always_inline bool path_takes(struct xdp_md *ctx, struct scratch *scratch, __u32 at, __u32 bytes, __u64 now)
{
	const void *data = (const void *)(long)ctx->data;
	__u64 peer[2] = {}, own[2] = {};
	if (data + at > (const void *)(long)ctx->data_end)
		return false;
	if (at == sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr)) {
		const struct iphdr *ip = data + sizeof(struct ethhdr);
		peer[1] = 0xffff0000ull | (__u64)ip->saddr << 32;
		own[1] = 0xffff0000ull | (__u64)ip->daddr << 32;
	} else {
		const struct ipv6hdr *ip = data + sizeof(struct ethhdr);
		__builtin_memcpy(peer, &ip->saddr, sizeof(peer));
		__builtin_memcpy(own, &ip->daddr, sizeof(own));
	}
	__u32 slot = cio_path_slot(constants.seed, peer, own);
	const struct cio_path *path = bpf_map_lookup_elem(&paths, &slot);
	if (!path)
		return false;
	const __u32 version = *(volatile const __u32 *)&path->version;
	fence(scratch);
	const __u64 differ = (path->peer[0] ^ peer[0]) | (path->peer[1] ^ peer[1]) | (path->own[0] ^ own[0]) | (path->own[1] ^ own[1]);
	const bool takes = differ == 0 && path->expires_ns > now && path->mtu >= bytes;
	fence(scratch);
	return takes && (version & 1) == 0 && *(volatile const __u32 *)&path->version == version;
}

/* What becomes of the request of `length` bytes at `at`. */
static __always_inline enum cio_kept_count reply_to(struct xdp_md *ctx, const struct cio_kept_service *service, struct scratch *scratch,
						    __u32 at, __u32 length)
{
	__u64 hash;
	if (!take_request(ctx, scratch, service, at, length, &hash))
		return CIO_KEPT_MISS;
	/* Behind by a few milliseconds, and cheap. */
	const __u64 now = bpf_ktime_get_coarse_ns();
	const struct cio_kept_place *place = place_of(service, hash, now);
	if (!place)
		return CIO_KEPT_MISS;
	const __u32 version = *(volatile const __u32 *)&place->version;
	fence(scratch);
	const enum cio_kept_count found = (version & 1) != 0 ? CIO_KEPT_MISS : has(scratch, place, service, length, now);
	const __u32 reply = within(place->reply_length, LONGEST_REPLY);
	const __u64 sum = place->sum;
	if (found != CIO_KEPT_HIT)
		return found;
	const __u32 bytes = at - sizeof(struct ethhdr) + reply;
	if (bytes > CIO_PATH_ALWAYS && !path_takes(ctx, scratch, at, bytes, now))
		return CIO_KEPT_NO_ROOM;
	const int more = (int)(at + reply) - (int)bpf_xdp_get_buff_len(ctx);
	if (more > 0 && !make_room(ctx, scratch, more, at))
		return CIO_KEPT_NO_ROOM;
	if (!copy(ctx, scratch, place, version, at, length, reply))
		return CIO_KEPT_MISS;
	split(scratch, service);
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
	if (!scratch || data + sizeof(struct ethhdr) > end)
		return false;
	if (ether_type(data) == bpf_htons(ETH_P_IPV6))
		return reply_at(ctx, service, scratch, sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + sizeof(struct udphdr));
	return reply_at(ctx, service, scratch, sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr));
}
