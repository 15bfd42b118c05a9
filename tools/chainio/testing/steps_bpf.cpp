#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/chainio/testing/steps.h"

namespace chainio::testing {
namespace {

struct CloseObject {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
};
using Object = std::unique_ptr<bpf_object, CloseObject>;

class Mapping {
  public:
    Mapping() = default;
    Mapping(int fd, std::size_t bytes) : bytes_((bytes + page() - 1) / page() * page()) {
        void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        data_ = at == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(at);
    }
    ~Mapping() {
        if (data_ != nullptr) munmap(data_, bytes_);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    std::uint8_t* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }

  private:
    static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
    std::size_t bytes_ = 0;
    std::uint8_t* data_ = nullptr;
};

struct MappedMap {
    int fd;
    std::size_t bytes;
};

class BpfSteps : public Steps {
  public:
    BpfSteps(Object object, MappedMap io, MappedMap block, std::uint32_t io_bytes)
        : object_(std::move(object)), io_(io.fd, io.bytes), block_(block.fd, block.bytes), io_bytes_(io_bytes) {}
    bool mapped() const {
        return io_.data() != nullptr && block_.data() != nullptr && io_.bytes() >= io_bytes_ &&
               block_.bytes() >= CIO_MAX_BLOCK;
    }
    std::string name() const override { return "bpf"; }

    std::expected<void, std::string> run(std::uint32_t program, cio_io& io, const std::uint8_t* block) override {
        const std::string name = fmt::format("cio_run_{}", program);
        bpf_program* found = bpf_object__find_program_by_name(object_.get(), name.c_str());
        if (found == nullptr || bpf_program__fd(found) < 0)
            return std::unexpected(fmt::format("the artifact's BPF code lacks {}", name));
        std::memcpy(io_.data(), &io, io_bytes_);
        std::memcpy(block_.data(), block, io.block_length);
        bpf_test_run_opts options{};
        options.sz = sizeof options;
        if (const int error = bpf_prog_test_run_opts(bpf_program__fd(found), &options); error != 0) {
            return std::unexpected(fmt::format("BPF_PROG_TEST_RUN of {} fails: {}", name, std::strerror(errno)));
        }
        std::memcpy(static_cast<void*>(&io), io_.data(), io_bytes_);
        return {};
    }

  private:
    Object object_;
    Mapping io_, block_;
    std::uint32_t io_bytes_;
};

// What the verifier refused: the last line of its log but for the summary.
std::string refusal_of(const std::string& log) {
    const std::string_view text = std::string_view(log).substr(0, log.find_last_not_of("\n\r ") + 1);
    const auto summary = text.rfind("\nprocessed ");
    const std::string_view before = text.substr(0, summary);
    return std::string(before.substr(before.rfind('\n') + 1));
}

std::expected<MappedMap, NoKernel> map_of(bpf_object* object, const char* name) {
    const bpf_map* map = bpf_object__find_map_by_name(object, name);
    if (map == nullptr)
        return std::unexpected(NoKernel{true, fmt::format("the artifact's BPF code lacks the map {}", name)});
    return MappedMap{bpf_map__fd(map), bpf_map__value_size(map)};
}

}  // namespace

std::expected<std::unique_ptr<Steps>, NoKernel> make_bpf_steps(const std::string& artifact_path,
                                                               const ir::Artifact& artifact,
                                                               const std::set<std::uint32_t>& programs) {
    libbpf_set_print(nullptr);
    Object object(bpf_object__open_file(artifact_path.c_str(), nullptr));
    if (object == nullptr)
        return std::unexpected(
            NoKernel{true, fmt::format("libbpf does not open the artifact: {}", std::strerror(errno))});
    std::string log(1 << 20, '\0');
    bpf_program* program = nullptr;
    std::set<std::string> wanted;
    for (const std::uint32_t index : programs) wanted.insert(fmt::format("cio_run_{}", index));
    bpf_object__for_each_program(program, object.get()) {
        bpf_program__set_autoload(program, wanted.contains(bpf_program__name(program)));
        bpf_program__set_log_buf(program, log.data(), log.size());
    }
    if (bpf_object__load(object.get()) != 0) {
        const int error = errno;
        log.resize(std::strlen(log.c_str()));
        if (error == EPERM || error == EACCES) {
            if (log.empty())
                return std::unexpected(NoKernel{
                    false, "loading BPF programs needs CAP_BPF (and kernel.unprivileged_bpf_disabled is set)"});
        }
        return std::unexpected(NoKernel{true, fmt::format("the kernel refuses the BPF code: {}",
                                                          log.empty() ? std::strerror(error) : refusal_of(log))});
    }
    auto io = map_of(object.get(), "cio_io_map");
    auto block = map_of(object.get(), "cio_block_map");
    if (!io) return std::unexpected(io.error());
    if (!block) return std::unexpected(block.error());
    const auto io_bytes = std::max<std::uint32_t>(artifact.layout.total, sizeof(cio_io));
    auto steps = std::make_unique<BpfSteps>(std::move(object), *io, *block, io_bytes);
    if (!steps->mapped())
        return std::unexpected(NoKernel{true, "the maps of the BPF code cannot be mapped into memory"});
    return steps;
}

}  // namespace chainio::testing
