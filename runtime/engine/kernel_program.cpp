#include "runtime/engine/kernel_program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <vector>

namespace chainio::engine {
namespace {

constexpr const char* kLoopProgram = "cio_loop_step";
constexpr std::size_t kLogBytes = std::size_t{256} << 10;
// As the kernel's own header for the types of BPF's objects names it.
struct LoopOps {
    void* loop_step;
    std::uint32_t ring_fd;
    void* priv;
};

// libbpf writes to stderr what the error of ours says.
class Quiet {
  public:
    Quiet() : before_(libbpf_set_print(nullptr)) {}
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
    ~Quiet() { libbpf_set_print(before_); }

  private:
    libbpf_print_fn_t before_;
};

// A signal makes the verifier give up, and a timer might do that for ever; signals wait until the load is over.
class SignalsWait {
  public:
    SignalsWait() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    SignalsWait(const SignalsWait&) = delete;
    SignalsWait& operator=(const SignalsWait&) = delete;
    ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_;
};

bool has_capability(unsigned number) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    if (syscall(SYS_capget, &header, data) != 0) return false;
    return (data[number / 32].effective & (1u << (number % 32))) != 0;
}

// The verifier's last words: its summary comes behind them.
std::string last_words(const std::vector<char>& log) {
    std::string text(log.data());
    if (const std::size_t end = text.rfind("\nprocessed "); end != text.npos) text.resize(end);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const std::size_t line = text.rfind('\n');
    return line == text.npos ? text : text.substr(line + 1);
}

std::string refused(int error, const std::vector<char>& log) {
    std::string why = "the kernel refuses the kernel engine's program: " + std::string(std::strerror(error));
    if (const std::string words = last_words(log); !words.empty()) why += " (" + words + ")";
    return why;
}

// Whether the kernel's own types have that name. They can be mapped since Linux 6.16, so in every kernel with the
// interface; a read() of them goes page by page, thousands of calls.
bool kernel_knows(std::string_view name) {
    const int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    struct stat info{};
    void* types = MAP_FAILED;
    if (fstat(fd, &info) == 0 && info.st_size > 0)
        types = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (types == MAP_FAILED) return false;
    const auto size = static_cast<std::size_t>(info.st_size);
    const bool found = memmem(types, size, name.data(), name.size()) != nullptr;
    munmap(types, size);
    return found;
}

// The object is linked from that of the steps: the programs and maps by which others run them stay where they are.
void leave_out_other_entries(bpf_object* object) {
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object) {
        bpf_program__set_autoload(program, std::string_view(bpf_program__name(program)) == kLoopProgram);
    }
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, object) {
        const bool used = bpf_map__is_internal(map) || bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS;
        bpf_map__set_autocreate(map, used);
    }
}

// False when the object has no such constants, or others.
bool set_constants(const bpf_object* object, const char* name, const void* from, std::size_t size) {
    const bpf_map* map = bpf_object__find_map_by_name(object, name);
    std::size_t bytes = 0;
    void* at = map != nullptr ? bpf_map__initial_value(map, &bytes) : nullptr;
    if (at == nullptr || bytes != size) return false;
    std::memcpy(at, from, size);
    return true;
}

}  // namespace

std::string kernel_engine_obstacle() {
    utsname name{};
    uname(&name);
    if (!kernel_knows("io_uring_bpf_ops")) {
        return "Linux " + std::string(name.release) +
               " has no io_uring_bpf_ops; the kernel engine needs Linux 7.1 or later with CONFIG_IO_URING_BPF_OPS=y";
    }
    const bool admin = has_capability(CAP_SYS_ADMIN);
    if (!admin && !(has_capability(CAP_BPF) && has_capability(CAP_PERFMON))) {
        return "this process may not load BPF programs: the kernel engine needs CAP_BPF and CAP_PERFMON, or root";
    }
    return {};
}

std::expected<KernelProgram, std::string> KernelProgram::attach(std::span<const std::uint8_t> object,
                                                                const cio_loop_layout& layout,
                                                                const cio_serve_layout* serving, int ring_fd) {
    Quiet quiet;
    SignalsWait signals;
    std::vector<char> log(kLogBytes);
    bpf_object_open_opts options{};
    options.sz = sizeof options;
    options.object_name = "chainio_kernel";
    options.kernel_log_buf = log.data();
    options.kernel_log_size = log.size();
    KernelProgram program;
    program.object_ = bpf_object__open_mem(object.data(), object.size(), &options);
    if (program.object_ == nullptr) {
        return std::unexpected("the artifact's kernel engine program cannot be opened: " +
                               std::string(std::strerror(errno)));
    }
    leave_out_other_entries(program.object_);
    bpf_map* ops = bpf_object__find_map_by_name(program.object_, "cio_loop");
    std::size_t ops_bytes = 0;
    void* ops_at = ops != nullptr ? bpf_map__initial_value(ops, &ops_bytes) : nullptr;
    const bool set = set_constants(program.object_, ".rodata.loop", &layout, sizeof layout) &&
                     (serving == nullptr || set_constants(program.object_, ".rodata.serve", serving, sizeof *serving));
    if (ops_at == nullptr || ops_bytes < sizeof(LoopOps) || !set) {
        return std::unexpected(
            std::string("the artifact's kernel engine program is not of this version; compile the spec again"));
    }
    static_cast<LoopOps*>(ops_at)->ring_fd = static_cast<std::uint32_t>(ring_fd);
    if (const int error = bpf_object__load(program.object_); error != 0) {
        return std::unexpected(refused(-error, log));
    }
    program.link_ = bpf_map__attach_struct_ops(ops);
    if (program.link_ == nullptr) {
        return std::unexpected("the kernel engine's program cannot be attached to the ring: " +
                               std::string(std::strerror(errno)));
    }
    return program;
}

std::uint32_t KernelProgram::instructions_processed() const {
    bpf_prog_info info{};
    std::uint32_t size = sizeof info;
    const bpf_program* program = bpf_object__find_program_by_name(object_, kLoopProgram);
    if (program == nullptr || bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size) != 0) return 0;
    return info.verified_insns;
}

KernelProgram::~KernelProgram() {
    if (link_ != nullptr) bpf_link__destroy(link_);
    bpf_object__close(object_);
}

}  // namespace chainio::engine
