// Step code in a shared object that an artifact carries, loaded from memory.
#pragma once
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bpf-templates/chainio_step.h"

namespace chainio::spec {

using ProgramFunction = void (*)(cio_io* io, const unsigned char* block);

std::string_view host_arch();  // "x86_64", "aarch64"; empty on another machine

class NativeCode {
  public:
    // The error names what the loader said.
    static std::expected<std::unique_ptr<NativeCode>, std::string> load(std::span<const std::uint8_t> object);
    ~NativeCode();
    NativeCode(const NativeCode&) = delete;
    NativeCode& operator=(const NativeCode&) = delete;

    ProgramFunction program(std::uint32_t index) const;  // null: the object does not have it

  private:
    NativeCode(void* handle, int fd) : handle_(handle), fd_(fd) {}
    void* handle_;
    // The loader knows objects by path, and the path is this descriptor's number: it stays open as long as the object
    // lives, so that no other object can come by the same path.
    int fd_;
};

}  // namespace chainio::spec
