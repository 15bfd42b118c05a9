#include "tests/bench/shim/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace chainio::bench_shim {

shim::Region* make_region(const std::string& path, const char* sites) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, shim::kRegionBytes) != 0) return nullptr;
    void* memory = mmap(nullptr, shim::kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return nullptr;
    auto* region = static_cast<shim::Region*>(memory);
    std::strcpy(region->plan.classes[0].pattern, "*.idx");
    std::strcpy(region->plan.classes[1].pattern, "/var/lib/other/*.dat");
    region->plan.class_count = 2;
    region->class_posts[0] = region->class_posts[1] = shim::kPostOpens | shim::kPostReads;
    region->plan.sockets[0] = {.port = 1, .tcp = 1};
    region->plan.sockets[1] = {.port = 2, .tcp = 0};
    region->plan.socket_count = 2;
    region->socket_posts[0] = region->socket_posts[1] = shim::kPostReady;
    if (sites) std::strncpy(region->plan.sites_program, sites, shim::kMaxPath - 1);
    region->version = shim::kVersion;
    region->bytes = static_cast<std::uint32_t>(shim::kRegionBytes);
    region->server = static_cast<std::uint32_t>(getpid());
    region->magic = shim::kMagic;
    return region;
}

}  // namespace chainio::bench_shim
