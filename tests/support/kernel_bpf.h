// The BPF programs of an artifact in the running kernel, run by BPF_PROG_TEST_RUN over mapped maps.
#pragma once
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct bpf_object;

namespace chainio::tests {

class KernelBpf {
  public:
    struct Refusal {
        bool not_permitted = false;  // a reason to skip; anything else is a defect
        std::string why;
        int number = 0;  // of the kernel's error
    };
    using Logs = std::map<std::string, std::vector<char>>;  // of each program, by its name in the object
    // With `logs`, what the verifier counted of each program goes there.
    static std::expected<KernelBpf, Refusal> load(std::span<const std::uint8_t> artifact, Logs* logs = nullptr);
    KernelBpf(KernelBpf&&) noexcept;
    KernelBpf& operator=(KernelBpf&&) = delete;
    ~KernelBpf();
    std::uint8_t* io() const { return io_; }
    std::uint8_t* block() const { return block_; }
    bool run(std::size_t program);  // false: the kernel refused the test run

  private:
    static std::expected<KernelBpf, Refusal> load(std::span<const std::uint8_t> artifact, Logs* logs,
                                                  std::size_t log_size);
    KernelBpf() = default;
    bpf_object* object_ = nullptr;
    std::uint8_t *io_ = nullptr, *block_ = nullptr;
    std::size_t io_size_ = 0, block_size_ = 0;
    std::vector<int> programs_;
};

}  // namespace chainio::tests
