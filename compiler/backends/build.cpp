// The whole artifact: what clang makes of its C texts, the kernel engine's program linked from that, the bounds from
// what it compiled, and our sections added to the BPF ELF.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "compiler/backends/backends.h"
#include "compiler/backends/bpf_object.h"
#include "compiler/backends/clang.h"
#include "compiler/backends/elf_file.h"
#include "compiler/backends/link.h"
#include "compiler/ir/cost.h"
#include "compiler/ir/seal.h"

namespace chainio::backends {
namespace {

#if defined(__aarch64__)
constexpr std::string_view kHostArch = "aarch64";
#else
constexpr std::string_view kHostArch = "x86_64";
#endif

// Nothing of the machine, the directory or the time may reach the output.
std::vector<std::string> common_arguments(int optimize) {
    return {"-x",
            "c",
            "-std=gnu11",
            fmt::format("-O{}", optimize),
            "-w",
            "-ffreestanding",
            "-fno-builtin",
            "-fno-ident",
            "-fno-stack-protector",
            "-nostdinc",
            "-ffile-compilation-dir=."};
}

ClangJob bpf_job() {
    ClangJob job{"the BPF programs", common_arguments(2), "bpf.o"};
    for (const char* more :
         {"--target=bpfel", "-mcpu=v3", "-g", "-gno-column-info", "-DCIO_BPF", "-c", "step.c", "-o", "bpf.o"})
        job.arguments.push_back(more);
    return job;
}

// Of `name`.c, which is the loop around the step functions.
ClangJob loop_job(const std::string& name) {
    ClangJob job{"the kernel engine's program", common_arguments(2), name + ".o"};
    for (const std::string& more :
         std::vector<std::string>{"--target=bpfel", "-mcpu=v3", "-g", "-gno-column-info", "-DCIO_BPF",
                                  "-DCIO_OWN_ENTRY", "-c", name + ".c", "-o", name + ".o"})
        job.arguments.push_back(more);
    return job;
}

std::expected<ClangJob, std::string> native_job(const std::string& arch, int optimize, bool handlers) {
    std::string target;
    if (arch == "x86_64") target = "x86_64-linux-gnu";
    if (arch == "aarch64") target = "aarch64-linux-gnu";
    if (target.empty())
        return std::unexpected(fmt::format("native code for `{}` is not supported; x86_64 and aarch64 are", arch));
    std::string output = arch + ".so";
    ClangJob job{"the native step code for " + arch, common_arguments(optimize), output};
    for (const std::string& more :
         std::vector<std::string>{"--target=" + target, "-fPIC", "-shared", "-nostdlib", "-fuse-ld=lld",
                                  "-fvisibility=hidden", "-fwrapv", "-fno-strict-aliasing",
                                  "-fno-asynchronous-unwind-tables", "-Wl,--build-id=none", "-Wl,-soname,chainio-step",
                                  "-Wl,--hash-style=gnu", "-Wl,-z,noexecstack", "-Wl,-s", "step.c", "-o", output})
        job.arguments.push_back(more);
    if (handlers) job.arguments.emplace_back("handlers.c");
    return job;
}

std::string write_text(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.close();
    if (out) return "";
    const int error = errno;
    return fmt::format(
        "cannot write {}: {}\nhint: {}", path, std::strerror(error),
        error == EFBIG ? "allow larger files (`ulimit -f`)" : "free some space there, or set TMPDIR to another folder");
}

std::expected<void, std::string> fill_bounds(ir::Artifact& artifact, std::span<const std::uint8_t> bpf) {
    auto object = read_bpf_object(bpf);
    if (!object) return std::unexpected("cannot read back the compiled BPF programs: " + object.error());
    std::vector<std::uint32_t> depths = stack_depths(*object);
    artifact.bounds.assign(artifact.module.programs.size(), {});
    for (std::size_t i = 0; i < artifact.module.programs.size(); i++) {
        if (artifact.module.programs[i].kind == ir::ProgramKind::handler) continue;
        artifact.bounds[i].instructions = ir::instruction_bound(artifact.module.programs[i]);
        const BpfFunction* entry = object->find(fmt::format("cio_run_{}", i));
        if (entry == nullptr)
            return std::unexpected(fmt::format("clang left out program {}", artifact.module.programs[i].name));
        artifact.bounds[i].stack = depths[static_cast<std::size_t>(entry - object->functions.data())];
    }
    return {};
}

// Of a stack that is too large clang tells a line of a template only; asked for it, also what each function needs.
std::string why_it_failed(std::string error, const std::string& clang, const TempDir& dir) {
    if (!error.contains("BPF stack limit")) return error;
    ClangJob job = bpf_job();
    job.arguments.insert(job.arguments.end(), {"-Rpass-analysis=prologepilog", "-ferror-limit=0"});
    auto again = run_clang(clang, dir, {job});
    return again ? error : again.error();
}

}  // namespace

std::expected<std::vector<std::uint8_t>, std::string> build_artifact(ir::Artifact& artifact,
                                                                     const BuildOptions& options) {
    auto clang = find_clang(options.clang);
    if (!clang) return std::unexpected(clang.error());
    std::vector<std::string> arches = options.native_arches;
    if (arches.empty()) arches.emplace_back(kHostArch);
    std::erase(arches, "none");
    std::ranges::sort(arches);
    arches.erase(std::unique(arches.begin(), arches.end()), arches.end());
    StepText text = emit_steps(artifact);
    const std::string handlers = emit_handlers(artifact, text.head);
    std::vector<ClangJob> jobs = {bpf_job()};
    for (const std::string& arch : arches) {
        auto job = native_job(arch, std::clamp(options.optimize, 0, 3), !handlers.empty());
        if (!job) return std::unexpected(job.error());
        jobs.push_back(std::move(*job));
    }
    auto dir = TempDir::make();
    if (!dir) return std::unexpected(dir.error());
    if (std::string failure = handlers.empty() ? "" : write_text(dir->file("handlers.c"), handlers); !failure.empty())
        return std::unexpected(failure);
    if (std::string failure = write_text(dir->file("step.c"), text.head + text.body); !failure.empty())
        return std::unexpected(failure);
    std::vector<std::pair<std::string, std::string>> loops;  // what each is written as, and the section that it becomes
    if (has_loop(artifact.module)) loops.emplace_back("loop", ".chainio.kernel");
    if (has_serving(artifact.module)) loops.emplace_back("serve", ".chainio.serve");
    for (const auto& [name, section] : loops) {
        const std::string loop = name == "loop" ? emit_loop(artifact, text.head) : emit_serving(artifact, text.head);
        if (std::string failure = write_text(dir->file(name + ".c"), loop); !failure.empty())
            return std::unexpected(failure);
        jobs.push_back(loop_job(name));
    }
    auto outputs = run_clang(*clang, *dir, jobs);
    if (!outputs) return std::unexpected(why_it_failed(outputs.error(), *clang, *dir));
    if (auto filled = fill_bounds(artifact, outputs->front()); !filled) return std::unexpected(filled.error());
    std::vector<NewSection> sections = {{".chainio.spec", ir::serialize(artifact)}};
    for (std::size_t i = 0; i < arches.size(); i++)
        sections.push_back({".chainio.native." + arches[i], ir::sealed(std::move((*outputs)[i + 1]))});
    for (const auto& [name, section] : loops) {
        auto linked = link_bpf(*dir, "linked-" + name + ".o", {"bpf.o", name + ".o"});
        if (!linked) return std::unexpected(linked.error());
        sections.push_back({section, ir::sealed(std::move(*linked))});
    }
    return add_sections(outputs->front(), sections);
}

}  // namespace chainio::backends
