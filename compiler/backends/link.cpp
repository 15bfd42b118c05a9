#include "compiler/backends/link.h"

#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "compiler/backends/quiet_libbpf.h"

namespace chainio::backends {
namespace {

struct LinkerFree {
    void operator()(bpf_linker* linker) const { bpf_linker__free(linker); }
};

std::unexpected<std::string> failed(const std::string& what, const TempDir& dir) {
    return std::unexpected(
        fmt::format("libbpf cannot link the kernel engine's program ({}: {}); is the disk of {} full?", what,
                    std::strerror(errno), dir.path()));
}

}  // namespace

std::expected<std::vector<std::uint8_t>, std::string> link_bpf(const TempDir& dir, const std::string& output,
                                                               const std::vector<std::string>& inputs) {
    QuietLibbpf quiet;
    std::unique_ptr<bpf_linker, LinkerFree> linker(bpf_linker__new(dir.file(output).c_str(), nullptr));
    if (!linker) return failed(output, dir);
    for (const std::string& input : inputs)
        if (bpf_linker__add_file(linker.get(), dir.file(input).c_str(), nullptr) != 0) return failed(input, dir);
    if (bpf_linker__finalize(linker.get()) != 0) return failed(output, dir);
    std::vector<std::uint8_t> object = read_bytes(dir.file(output));
    if (object.empty()) return failed(output, dir);
    return object;
}

}  // namespace chainio::backends
