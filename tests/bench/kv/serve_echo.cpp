// The ceiling: a driver that sends each request back as it is.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "tests/bench/kv/bench_kv.h"

namespace chainio::bench_kv {

// Attached by a link, which the kernel closes with this process. Its socket takes nothing: it says that the port is
// served.
int serve_echo(const Serve& serve) {
    const std::unique_ptr<bpf_object, void (*)(bpf_object*)> object(bpf_object__open_file(CHAINIO_ECHO_OBJECT, nullptr),
                                                                    bpf_object__close);
    const std::uint16_t port = htons(serve.port);
    bpf_map* constants = object ? bpf_object__find_map_by_name(object.get(), ".rodata") : nullptr;
    if (constants == nullptr || bpf_map__set_initial_value(constants, &port, sizeof port) != 0 ||
        bpf_object__load(object.get()) != 0) {
        std::perror("bench_kv serve-echo: " CHAINIO_ECHO_OBJECT);
        return 3;
    }
    bpf_program* program = bpf_object__find_program_by_name(object.get(), "bench_echo");
    bpf_link_create_opts options{};
    options.sz = sizeof options;
    options.flags = XDP_FLAGS_DRV_MODE;
    const auto interface = static_cast<int>(if_nametoindex(serve.interface.c_str()));
    const int link = bpf_link_create(bpf_program__fd(program), interface, BPF_XDP, &options);
    const int fd = link < 0 ? -1 : bound_socket(serve);
    if (fd < 0) {
        std::perror("bench_kv serve-echo");
        return 3;
    }
    announce();
    while (!g_stop) pause();
    return 0;
}

}  // namespace chainio::bench_kv
