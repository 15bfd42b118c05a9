// Any bytes as a program whose system calls are looked for: what is found lies in bounds.
#include <cstdlib>

#include "runtime/sites/scan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto found = chainio::sites::scan({data, size});
    if (!found.refused.empty() && !found.sites.empty()) std::abort();
    for (const auto& site : found.sites) {
        if (site.bytes < chainio::shim::kJumpBytes || site.bytes > chainio::shim::kMaxWindow) std::abort();
        if (site.call_at + 2 > site.bytes || site.code[site.call_at] != 0x0f || site.code[site.call_at + 1] != 0x05)
            std::abort();
    }
    return 0;
}
