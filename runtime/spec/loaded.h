// An artifact that is ready to run: its configuration, and for every program the native code or the interpreter.
#pragma once
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/artifact.h"
#include "compiler/ir/handler_run.h"
#include "runtime/spec/native_code.h"

namespace chainio::spec {

struct OpenError {
    int system = 0;       // the errno of what the system refused; 0: its content is wrong
    std::string message;  // with the file's name
};

struct OpenOptions {
    bool use_native = true;
    ir::Programs programs = ir::Programs::to_prove;  // proven: the native code runs without another proof
    bool for_kernel = true;                          // false: kernel_object() and serve_object() stay empty
};

class Loaded {
  public:
    static std::expected<std::shared_ptr<const Loaded>, OpenError> open(const std::string& path,
                                                                        OpenOptions options = {});
    static std::expected<std::shared_ptr<const Loaded>, OpenError> from_bytes(std::span<const std::uint8_t> file,
                                                                              const std::string& name,
                                                                              OpenOptions options = {});
    // For tests and tools that have the parts already; everything runs by the interpreter.
    static std::shared_ptr<const Loaded> from_artifact(ir::Artifact artifact);

    void run(std::uint32_t program, cio_io& io, const std::uint8_t* block) const;

    // The native code of a handler; null: the interpreter runs it.
    const ir::CompiledHandler* handler(std::uint32_t program) const {
        return handlers_[program].run != nullptr ? &handlers_[program] : nullptr;
    }

    const ir::Artifact& artifact() const { return artifact_; }
    const ir::Module& module() const { return artifact_.module; }
    const std::string& name() const { return name_; }
    // The artifact itself, when its spec has probes: their BPF programs are attached from it. Else empty.
    std::span<const std::uint8_t> probe_object() const { return probe_object_; }
    // The kernel engine's BPF object; empty when the artifact has none.
    std::span<const std::uint8_t> kernel_object() const { return kernel_object_; }
    // The one that answers services; empty when the artifact has none.
    std::span<const std::uint8_t> serve_object() const { return serve_object_; }
    // The shared object of the steps, where native() holds and a chain runs on readiness; else empty.
    std::span<const std::uint8_t> native_object() const { return native_object_; }
    bool native() const { return native_ != nullptr; }
    // Empty when native code runs; otherwise why the interpreter does.
    const std::string& interpreter_reason() const { return reason_; }
    const std::vector<std::string>& native_arches() const { return arches_; }
    const std::vector<std::string>& bpf_programs() const { return bpf_programs_; }

    std::optional<std::uint32_t> find_chain(std::string_view name) const;
    std::optional<std::uint32_t> find_file_class(std::string_view name) const;

  private:
    explicit Loaded(ir::Artifact artifact)
        : artifact_(std::move(artifact)),
          functions_(artifact_.module.programs.size()),
          handlers_(artifact_.module.programs.size()) {}
    void load_native(std::span<const std::uint8_t> object);

    ir::Artifact artifact_;
    std::string name_;
    std::vector<std::uint8_t> probe_object_, kernel_object_, serve_object_, native_object_;
    std::string reason_;
    std::vector<std::string> arches_;
    std::vector<std::string> bpf_programs_;
    std::unique_ptr<NativeCode> native_;
    std::vector<ProgramFunction> functions_;  // one a program; null: the interpreter
    std::vector<ir::CompiledHandler> handlers_;
};

}  // namespace chainio::spec
