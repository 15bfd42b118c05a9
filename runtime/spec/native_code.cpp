#include "runtime/spec/native_code.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace chainio::spec {
namespace {

#ifndef MFD_EXEC
constexpr unsigned kMemfdExec = 0x10u;
#else
constexpr unsigned kMemfdExec = MFD_EXEC;
#endif

int executable_memfd() {
    // Kernels before 6.3 do not know MFD_EXEC and allow execution without it.
    const int fd = memfd_create("chainio-native", MFD_CLOEXEC | kMemfdExec);
    return fd >= 0 || errno != EINVAL ? fd : memfd_create("chainio-native", MFD_CLOEXEC);
}

// A file that is made larger than that, of memory too, ends the process (SIGXFSZ).
bool may_have(std::size_t bytes) {
    rlimit largest{};
    return getrlimit(RLIMIT_FSIZE, &largest) != 0 || bytes <= largest.rlim_cur;
}

bool write_all(int fd, std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return true;
}

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

// The loader takes a name by which it has loaded something for the same file, without a look at it. The number may have
// been that of other code: of a process that has closed all descriptors, as a child may do. Gives another number of
// the same file then; -1 and errno when there is none.
int with_a_new_name(int fd) {
    while (void* other = dlopen(path_of(fd).c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
        dlclose(other);
        const int next = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
        const int error = errno;
        close(fd);
        errno = error;
        if (next < 0) return -1;
        fd = next;
    }
    return fd;
}

}  // namespace

std::string_view host_arch() {
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "";
#endif
}

std::expected<std::unique_ptr<NativeCode>, std::string> NativeCode::load(std::span<const std::uint8_t> object) {
    if (!may_have(object.size()))
        return std::unexpected("files may not be as large as it, " + std::to_string(object.size()) +
                               " bytes (ulimit -f)");
    int fd = executable_memfd();
    if (fd < 0) return std::unexpected(std::string("memfd_create: ") + std::strerror(errno));
    if (!write_all(fd, object)) {
        std::string error = std::string("cannot write the object to memory: ") + std::strerror(errno);
        close(fd);
        return std::unexpected(std::move(error));
    }
    fd = with_a_new_name(fd);
    if (fd < 0) return std::unexpected(std::string("no descriptor for it: ") + std::strerror(errno));
    void* handle = dlopen(path_of(fd).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* why = dlerror();
        std::string error = std::string("the loader refuses it: ") + (why != nullptr ? why : "no reason given");
        close(fd);
        return std::unexpected(std::move(error));
    }
    return std::unique_ptr<NativeCode>(new NativeCode(handle, fd));
}

NativeCode::~NativeCode() {
    dlclose(handle_);
    close(fd_);
}

ProgramFunction NativeCode::program(std::uint32_t index) const {
    const std::string name = "cio_program_" + std::to_string(index);
    return reinterpret_cast<ProgramFunction>(dlsym(handle_, name.c_str()));
}

}  // namespace chainio::spec
