// Sends each UDP datagram for one port back as it came, from the driver: what no server across this link can surpass.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

const volatile __u16 port = 0; /* network byte order */

SEC("xdp.frags")
int bench_echo(struct xdp_md* ctx) {
    void *data = (void*)(long)ctx->data, *end = (void*)(long)ctx->data_end;
    struct ethhdr* eth = data;
    struct iphdr* ip = (void*)(eth + 1);
    struct udphdr* udp = (void*)(ip + 1);
    if ((void*)(udp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP)) return XDP_PASS;
    if (ip->ihl != 5 || ip->protocol != IPPROTO_UDP || udp->dest != port) return XDP_PASS;
    __u8 mac[ETH_ALEN];
    __builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
    __builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
    __builtin_memcpy(eth->h_source, mac, ETH_ALEN);
    __be32 address = ip->daddr;
    ip->daddr = ip->saddr;
    ip->saddr = address;
    udp->dest = udp->source;
    udp->source = port;
    return XDP_TX;
}

char _license[] SEC("license") = "Dual BSD/GPL";
