// The loop_step program of an artifact, loaded into the kernel and attached to one ring.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <utility>

#include "bpf-templates/chainio_loop.h"
#include "bpf-templates/chainio_serve.h"

struct bpf_link;
struct bpf_object;

namespace chainio::engine {

// Empty where the running kernel has io_uring_bpf_ops and this process may use it; otherwise what is missing, and the
// remedy.
std::string kernel_engine_obstacle();

class KernelProgram {
  public:
    // The program answers for the ring's system calls from here on, until this object or the ring is gone. `serving` is
    // for the one that answers services, else null.
    static std::expected<KernelProgram, std::string> attach(std::span<const std::uint8_t> object,
                                                            const cio_loop_layout& layout,
                                                            const cio_serve_layout* serving, int ring_fd);
    KernelProgram(KernelProgram&& other) noexcept
        : object_(std::exchange(other.object_, nullptr)), link_(std::exchange(other.link_, nullptr)) {}
    KernelProgram& operator=(KernelProgram&&) = delete;
    ~KernelProgram();
    // What the verifier went through to load it; 0 where the kernel does not say.
    std::uint32_t instructions_processed() const;

  private:
    KernelProgram() = default;
    bpf_object* object_ = nullptr;
    bpf_link* link_ = nullptr;
};

}  // namespace chainio::engine
