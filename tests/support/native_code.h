// The native step code of an artifact, loaded as the runtime loads it.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <utility>

#include "bpf-templates/chainio_step.h"

namespace chainio::tests {

class NativeCode {
  public:
    // From the section for this machine.
    static std::expected<NativeCode, std::string> load(std::span<const std::uint8_t> artifact);
    NativeCode(NativeCode&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    NativeCode& operator=(NativeCode&&) = delete;
    ~NativeCode();
    using Program = void (*)(cio_io*, const unsigned char* block);
    Program program(std::size_t index) const;

  private:
    explicit NativeCode(void* handle) : handle_(handle) {}
    void* handle_;
};

}  // namespace chainio::tests
