#include "tests/support/kernel_bpf.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "compiler/backends/backends.h"
#include "compiler/backends/quiet_libbpf.h"

namespace chainio::tests {
namespace {

std::uint8_t* map_memory(bpf_object* object, const char* name, std::size_t& size) {
    bpf_map* map = bpf_object__find_map_by_name(object, name);
    if (map == nullptr) return nullptr;
    auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    size = (bpf_map__value_size(map) + page - 1) / page * page;
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory);
}

// Linux 6.12 writes more than the counts for programs of some 70,000 steps, and refuses those whose log has no room.
constexpr std::size_t kLogSize = 64 * 1024, kBigLogSize = 4 * 1024 * 1024;

void have_counted(bpf_object* object, KernelBpf::Logs& logs, std::size_t log_size) {
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object) {
        std::vector<char>& log = logs[bpf_program__name(program)];
        log.resize(log_size);
        bpf_program__set_log_level(program, backends::kLogStats);
        bpf_program__set_log_buf(program, log.data(), log.size());
    }
}

}  // namespace

std::expected<KernelBpf, KernelBpf::Refusal> KernelBpf::load(std::span<const std::uint8_t> artifact, Logs* logs) {
    auto kernel = load(artifact, logs, kLogSize);
    const bool is_log_full = !kernel && logs != nullptr && kernel.error().number == ENOSPC;
    return is_log_full ? load(artifact, logs, kBigLogSize) : std::move(kernel);
}

std::expected<KernelBpf, KernelBpf::Refusal> KernelBpf::load(std::span<const std::uint8_t> artifact, Logs* logs,
                                                             std::size_t log_size) {
    backends::QuietLibbpf quiet;
    KernelBpf kernel;
    kernel.object_ = bpf_object__open_mem(artifact.data(), artifact.size(), nullptr);
    if (kernel.object_ == nullptr)
        return std::unexpected(
            Refusal{false, fmt::format("libbpf does not open the artifact: {}", std::strerror(errno))});
    if (logs != nullptr) have_counted(kernel.object_, *logs, log_size);
    if (int error = bpf_object__load(kernel.object_); error != 0) {
        if (error == -EPERM)
            return std::unexpected(
                Refusal{true, "loading BPF programs is not permitted here (CAP_BPF and CAP_PERFMON are needed)"});
        return std::unexpected(
            Refusal{false, fmt::format("the kernel refuses the programs: {}", std::strerror(-error)), -error});
    }
    kernel.io_ = map_memory(kernel.object_, "cio_io_map", kernel.io_size_);
    kernel.block_ = map_memory(kernel.object_, "cio_block_map", kernel.block_size_);
    if (kernel.io_ == nullptr || kernel.block_ == nullptr)
        return std::unexpected(Refusal{false, "the artifact's maps cannot be mapped"});
    return kernel;
}

KernelBpf::KernelBpf(KernelBpf&& other) noexcept
    : object_(std::exchange(other.object_, nullptr)),
      io_(std::exchange(other.io_, nullptr)),
      block_(std::exchange(other.block_, nullptr)),
      io_size_(other.io_size_),
      block_size_(other.block_size_),
      programs_(std::move(other.programs_)) {}

KernelBpf::~KernelBpf() {
    if (io_ != nullptr) munmap(io_, io_size_);
    if (block_ != nullptr) munmap(block_, block_size_);
    bpf_object__close(object_);
}

bool KernelBpf::run(std::size_t program) {
    while (programs_.size() <= program) {
        bpf_program* found =
            bpf_object__find_program_by_name(object_, fmt::format("cio_run_{}", programs_.size()).c_str());
        programs_.push_back(found == nullptr ? -1 : bpf_program__fd(found));
    }
    bpf_test_run_opts options{};
    options.sz = sizeof options;
    return bpf_prog_test_run_opts(programs_[program], &options) == 0;
}

}  // namespace chainio::tests
