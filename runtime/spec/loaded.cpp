#include "runtime/spec/loaded.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "compiler/ir/interpret.h"
#include "compiler/ir/seal.h"
#include "runtime/spec/elf_sections.h"

namespace chainio::spec {
namespace {

constexpr off_t kLargestArtifact = off_t{256} << 20;

std::expected<std::vector<std::uint8_t>, OpenError> read_file(const std::string& path) {
    const auto fail = [&](int error, const std::string& why) {
        return std::unexpected(OpenError{error, "cannot read artifact '" + path + "': " + why});
    };
    // A named pipe would wait for its writer; regular files are read all the same.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        const int error = errno;
        const bool is_source = path.ends_with(".chain") || path.ends_with(".yaml");
        return fail(error, std::strerror(error) +
                               std::string(is_source ? "; `chainc SOURCE -o app.bpf.o` makes one of a source" : ""));
    }
    struct stat info{};
    std::vector<std::uint8_t> bytes;
    int error = 0;
    std::string why;
    if (fstat(fd, &info) != 0) {
        error = errno;
    } else if (!S_ISREG(info.st_mode)) {
        error = S_ISDIR(info.st_mode) ? EISDIR : ENODEV;
        why = "it is not a regular file";
    } else if (info.st_size > kLargestArtifact) {
        error = EFBIG;
        why = "it is larger than 256 MiB, which no artifact is";
    } else {
        bytes.resize(static_cast<std::size_t>(info.st_size));
    }
    std::size_t at = 0;
    while (error == 0 && at < bytes.size()) {
        const ssize_t got = ::read(fd, bytes.data() + at, bytes.size() - at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) error = errno;
        if (got <= 0) break;
        at += static_cast<std::size_t>(got);
    }
    close(fd);
    if (error != 0) return fail(error, why.empty() ? std::strerror(error) : why);
    bytes.resize(at);
    return bytes;
}

bool runs_here(ir::ProgramKind kind) {
    return kind == ir::ProgramKind::entry || kind == ir::ProgramKind::step || kind == ir::ProgramKind::done ||
           kind == ir::ProgramKind::header || kind == ir::ProgramKind::shadow;
}

}  // namespace

std::expected<std::shared_ptr<const Loaded>, OpenError> Loaded::open(const std::string& path, OpenOptions options) {
    auto bytes = read_file(path);
    if (!bytes) return std::unexpected(bytes.error());
    return from_bytes(*bytes, path, options);
}

std::expected<std::shared_ptr<const Loaded>, OpenError> Loaded::from_bytes(std::span<const std::uint8_t> file,
                                                                           const std::string& name,
                                                                           OpenOptions options) {
    const auto fail = [&](const std::string& why) {
        return std::unexpected(OpenError{0, "'" + name + "' is not a ChainIO artifact: " + why});
    };
    auto sections = read_sections(file);
    if (!sections) return fail(sections.error());
    auto artifact = ir::deserialize(sections->spec, options.programs);
    if (!artifact) return fail("its .chainio.spec cannot be read: " + artifact.error());

    std::shared_ptr<Loaded> loaded(new Loaded(std::move(*artifact)));
    loaded->name_ = name;
    if (!loaded->artifact_.module.probes.empty()) loaded->probe_object_.assign(file.begin(), file.end());
    for (const auto& [from, to] :
         {std::pair(sections->kernel, &loaded->kernel_object_), std::pair(sections->serve, &loaded->serve_object_)}) {
        if (from.empty() || !options.for_kernel) continue;
        const auto kernel = ir::unsealed(from);
        if (!kernel)
            return fail(
                "its program for the kernel engine is damaged: the checksum does not match; compile the spec again");
        to->assign(kernel->begin(), kernel->end());
    }
    loaded->bpf_programs_ = std::move(sections->bpf_programs);
    std::span<const std::uint8_t> object;
    for (const auto& native : sections->natives) {
        loaded->arches_.push_back(native.arch);
        if (native.arch != host_arch()) continue;
        const auto code = ir::unsealed(native.bytes);
        if (!code) return fail("its native code is damaged: the checksum does not match; compile the spec again");
        object = *code;
    }
    if (!options.use_native) {
        loaded->reason_ = "native code was not asked for";
    } else if (object.empty()) {
        loaded->reason_ =
            "the artifact has no native code for " + std::string(host_arch()) + " (`chainc --native` adds it)";
    } else {
        loaded->load_native(object);
    }
    if (options.programs == ir::Programs::proven && !loaded->native()) {
        if (const std::string problem = ir::validate(loaded->module()); !problem.empty())
            return fail("its .chainio.spec is not valid: " + problem);
    }
    return loaded;
}

std::shared_ptr<const Loaded> Loaded::from_artifact(ir::Artifact artifact) {
    std::shared_ptr<Loaded> loaded(new Loaded(std::move(artifact)));
    loaded->name_ = loaded->artifact_.module.app;
    loaded->reason_ = "the artifact was built in memory";
    return loaded;
}

void Loaded::load_native(std::span<const std::uint8_t> object) {
    auto native = NativeCode::load(object);
    if (!native) {
        reason_ = "its native code does not load: " + native.error();
        return;
    }
    std::vector<ProgramFunction> functions(functions_.size());
    std::vector<ir::CompiledHandler> handlers(handlers_.size());
    for (std::uint32_t i = 0; i < functions.size(); i++) {
        const ir::Program& program = artifact_.module.programs[i];
        const bool handler = program.kind == ir::ProgramKind::handler;
        if (!runs_here(program.kind) && !handler) continue;
        const ProgramFunction function = (*native)->program(i);
        // A handler may be run by the interpreter beside native steps: they share nothing but the results.
        if (handler && function != nullptr) handlers[i] = {function, ir::stops_of(program)};
        if (!handler) functions[i] = function;
        if (function != nullptr || handler) continue;
        // Half native, half interpreted would be hard to reason about: one missing program means the interpreter for
        // all.
        reason_ =
            "its native code lacks program " + std::to_string(i) + " ('" + artifact_.module.programs[i].name + "')";
        return;
    }
    functions_ = std::move(functions);
    handlers_ = std::move(handlers);
    native_ = std::move(*native);
    if (std::ranges::any_of(module().chains, [](const ir::Chain& one) { return one.mode == ir::ChainMode::on_ready; }))
        native_object_.assign(object.begin(), object.end());
}

void Loaded::run(std::uint32_t program, cio_io& io, const std::uint8_t* block) const {
    if (ProgramFunction function = functions_[program]; function != nullptr) return function(&io, block);
    ir::interpret(artifact_, program, io, block);
}

std::optional<std::uint32_t> Loaded::find_chain(std::string_view name) const {
    const auto& chains = artifact_.module.chains;
    for (std::uint32_t i = 0; i < chains.size(); i++) {
        if (chains[i].name == name) return i;
    }
    return std::nullopt;
}

std::optional<std::uint32_t> Loaded::find_file_class(std::string_view name) const {
    const auto& files = artifact_.module.files;
    for (std::uint32_t i = 0; i < files.size(); i++) {
        if (files[i].name == name) return i;
    }
    return std::nullopt;
}

}  // namespace chainio::spec
