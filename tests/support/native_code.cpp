#include "tests/support/native_code.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/backends/elf_file.h"
#include "compiler/ir/seal.h"

namespace chainio::tests {

std::expected<NativeCode, std::string> NativeCode::load(std::span<const std::uint8_t> artifact) {
#if defined(__aarch64__)
    const char* section = ".chainio.native.aarch64";
#else
    const char* section = ".chainio.native.x86_64";
#endif
    auto file = backends::ElfFile::open(artifact);
    if (!file) return std::unexpected(file.error());
    std::span<const std::uint8_t> code = backends::find_section(*file, section);
    if (code.empty()) return std::unexpected(fmt::format("the artifact has no section {}", section));
    const auto whole = ir::unsealed(code);
    if (!whole) return std::unexpected(fmt::format("{} is damaged", section));
    code = *whole;
    int fd = memfd_create("chainio.native", MFD_CLOEXEC);
    if (fd < 0 || write(fd, code.data(), code.size()) != static_cast<ssize_t>(code.size())) {
        if (fd >= 0) close(fd);
        return std::unexpected("cannot write the native code to a memfd");
    }
    void* handle = dlopen(fmt::format("/proc/self/fd/{}", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
    close(fd);
    if (handle == nullptr) return std::unexpected(fmt::format("the native code does not load: {}", dlerror()));
    return NativeCode(handle);
}

NativeCode::~NativeCode() {
    if (handle_ != nullptr) dlclose(handle_);
}

NativeCode::Program NativeCode::program(std::size_t index) const {
    return reinterpret_cast<Program>(dlsym(handle_, fmt::format("cio_program_{}", index).c_str()));
}

}  // namespace chainio::tests
