#include "tests/bench/shim/region.h"

#include <unistd.h>

#include <cstring>

#include "runtime/shadow/region.h"

namespace chainio::bench_shim {

shim::Region* make_region(const std::string& path) {
    shim::Region* region = shadow::make_region(path) ? shadow::map_region(path, true) : nullptr;
    if (!region) return nullptr;
    std::strcpy(region->plan.classes[0].pattern, "*.idx");
    std::strcpy(region->plan.classes[1].pattern, "/var/lib/other/*.dat");
    region->plan.class_count = 2;
    region->class_posts[0] = region->class_posts[1] = shim::kPostOpens | shim::kPostReads;
    region->plan.sockets[0] = {.port = 1, .tcp = 1};
    region->plan.sockets[1] = {.port = 2, .tcp = 0};
    region->plan.socket_count = 2;
    region->socket_posts[0] = region->socket_posts[1] = shim::kPostReady;
    region->version = shim::kVersion;
    region->bytes = static_cast<std::uint32_t>(shim::kRegionBytes);
    region->server = static_cast<std::uint32_t>(getpid());
    region->magic = shim::kMagic;
    return region;
}

}  // namespace chainio::bench_shim
