#include "tests/support/differential.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "compiler/backends/backends.h"
#include "compiler/backends/bpf_object.h"
#include "compiler/backends/elf_file.h"
#include "compiler/backends/emit_probes.h"
#include "compiler/ir/interpret.h"
#include "compiler/ir/names.h"
#include "tests/support/bpf_machine.h"
#include "tests/support/kernel_bpf.h"
#include "tests/support/native_code.h"

namespace chainio::tests {
namespace {

// Blocks that end at an unreadable page: native code that reads one byte too many does not get away with it.
class GuardedBlock {
  public:
    GuardedBlock() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
        void* memory = mmap(nullptr, CIO_MAX_BLOCK + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return;
        base_ = static_cast<std::uint8_t*>(memory);
        if (mprotect(base_ + CIO_MAX_BLOCK, page_, PROT_NONE) != 0) base_ = nullptr;
    }
    GuardedBlock(const GuardedBlock&) = delete;
    GuardedBlock& operator=(const GuardedBlock&) = delete;
    ~GuardedBlock() {
        if (base_ != nullptr) munmap(base_, CIO_MAX_BLOCK + page_);
    }
    bool ok() const { return base_ != nullptr; }
    std::uint8_t* put(std::span<const std::uint8_t> block) {
        std::uint8_t* at = base_ + CIO_MAX_BLOCK - block.size();
        if (!block.empty()) std::memcpy(at, block.data(), block.size());
        return at;
    }

  private:
    std::size_t page_;
    std::uint8_t* base_ = nullptr;
};

constexpr std::size_t kVars = offsetof(cio_io, vars), kAfterVars = kVars + sizeof(cio_io::vars);
// BPF programs with very many variables keep some behind the areas.
constexpr std::size_t kSpill = 1 << 20;

std::string field_at(const ir::Artifact& artifact, std::size_t at) {
    const ir::IoLayout& io = artifact.layout;
    struct Row {
        std::size_t offset;
        const char* name;
    };
    const Row rows[] = {{0, "input"},
                        {offsetof(cio_io, outcome), "outcome"},
                        {offsetof(cio_io, finished), "finished"},
                        {offsetof(cio_io, next_count), "next_count"},
                        {offsetof(cio_io, result_kind), "result_kind"},
                        {offsetof(cio_io, result), "result"},
                        {offsetof(cio_io, slice_space), "slice_space"},
                        {offsetof(cio_io, slice_offset), "slice_offset"},
                        {offsetof(cio_io, slice_length), "slice_length"},
                        {offsetof(cio_io, out_length), "out_length"},
                        {offsetof(cio_io, prefetch_count), "prefetch_count"},
                        {offsetof(cio_io, next), "next"},
                        {io.state_offset, "state"},
                        {io.arg_bytes_offset, "argument bytes"},
                        {io.out_offset, "out"},
                        {io.prefetch_offset, "prefetch"}};
    const Row* found = rows;
    for (const Row& row : rows)
        if (row.offset <= at) found = &row;
    return fmt::format("{} (byte {})", found->name, at - found->offset);
}

// What the verifier said about each program that it refused.
std::string verifier_words(const std::vector<std::uint8_t>& artifact) {
    std::string text;
    for (const backends::VerifyFailure& failure : backends::verify(artifact).failed) {
        std::size_t tail = failure.log.size() > 2000 ? failure.log.size() - 2000 : 0;
        text += fmt::format("\n{} ({}:{}): {}\n{}", failure.program, failure.file, failure.line, failure.message,
                            failure.log.substr(tail));
    }
    return text;
}

class Engines {
  public:
    Engines(ir::Artifact artifact, NativeCode native, const backends::BpfObject& object,
            std::optional<KernelBpf> kernel)
        : artifact_(std::move(artifact)),
          native_(std::move(native)),
          machine_(object),
          kernel_(std::move(kernel)),
          first_(artifact_.layout.total),
          input_(artifact_.layout.total),
          native_io_(artifact_.layout.total),
          machine_io_(artifact_.layout.total + kSpill),
          block_(CIO_MAX_BLOCK),
          machine_block_(CIO_MAX_BLOCK + CIO_PAD) {
        if (kernel_) std::memset(kernel_->io(), 0, artifact_.layout.total);
    }
    const ir::Artifact& artifact() const { return artifact_; }
    bool ready() const { return guarded_.ok(); }

    // Runs the cases of one program until they are done or two engines differ.
    void run(std::size_t program, const CaseMaker& maker, const DifferentialOptions& options, const Progress& progress,
             ProgramReport& report) {
        NativeCode::Program native = native_.program(program);
        if (native == nullptr) {
            report.disagreement = "the native code lacks the program";
            return;
        }
        report.bound = program < artifact_.bounds.size() ? artifact_.bounds[program].instructions : 0;
        for (std::uint64_t n = options.first; n < options.first + options.blocks && report.disagreement.empty(); n++) {
            Random random(options.seed * 0x100000001b3u + program * 0x9e3779b97f4a7c15u + n * 0xd1342543de82ef95u);
            maker.make(program, random, {std::span(input_).first(artifact_.layout.out_offset), block_});
            one(program, native, report);
            report.blocks++;
            if (!report.disagreement.empty())
                report.disagreement +=
                    fmt::format("; again: --only {} --first {} --blocks 1 --seed {}", report.name, n, options.seed);
            if (progress && report.blocks % 4096 == 0) progress(report.name, report.blocks, options.blocks);
        }
    }

  private:
    void one(std::size_t program, NativeCode::Program native, ProgramReport& report) {
        auto& io = *reinterpret_cast<cio_io*>(input_.data());
        std::uint8_t* block = guarded_.put(std::span(block_).first(io.block_length));
        begin(first_.data());
        ir::Trace trace;
        ir::interpret(artifact_, static_cast<std::uint32_t>(program), *reinterpret_cast<cio_io*>(first_.data()), block,
                      trace);
        if (trace.out_of_range)
            report.disagreement = "the interpreter stopped an access outside of its space that validate() let through";
        begin(native_io_.data());
        native(reinterpret_cast<cio_io*>(native_io_.data()), block);
        compare("native code", native_io_.data(), report);

        std::memcpy(machine_block_.data(), block_.data(), io.block_length);
        begin(machine_io_.data());
        std::uint64_t limit = std::max<std::uint64_t>(4 * report.bound, 1'000'000);
        BpfMachine::Result counted =
            machine_.run(fmt::format("cio_run_{}", program), machine_io_.data(), machine_block_.data(), limit);
        if (!counted.failure.empty()) report.disagreement = "counted BPF: " + counted.failure;
        compare("counted BPF", machine_io_.data(), report);
        report.most_executed = std::max(report.most_executed, counted.executed);
        if (counted.executed > report.bound)
            report.disagreement =
                fmt::format("{} instructions were executed, the bound says {}", counted.executed, report.bound);
        if (kernel_) {
            std::memcpy(kernel_->block(), block_.data(), io.block_length);
            begin(kernel_->io());
            if (!kernel_->run(program)) report.disagreement = "BPF_PROG_TEST_RUN failed";
            compare("BPF in the kernel", kernel_->io(), report);
        }
        auto& done = *reinterpret_cast<cio_io*>(first_.data());
        std::string what = done.outcome != 0          ? ir::outcome_name(artifact_.module, done.outcome)
                           : done.finished != 0       ? "result"
                           : done.prefetch_count != 0 ? "prefetch"
                                                      : "ok";
        report.outcomes[what]++;
    }

    // The out area and the prefetch list keep what earlier cases left there: the same in every engine.
    void begin(std::uint8_t* io) const { std::memcpy(io, input_.data(), artifact_.layout.out_offset); }

    void compare(const char* engine, const std::uint8_t* other, ProgramReport& report) const {
        std::size_t total = artifact_.layout.total;
        if (std::memcmp(first_.data(), other, kVars) == 0 &&
            std::memcmp(first_.data() + kAfterVars, other + kAfterVars, total - kAfterVars) == 0)
            return;
        if (!report.disagreement.empty()) return;
        for (std::size_t i = 0; i < total; i++) {
            if (first_[i] == other[i] || (i >= kVars && i < kAfterVars)) continue;
            report.disagreement = fmt::format(
                "{} differs from the interpreter in {}: {:#04x}, not {:#04x}; outcomes {} and {}", engine,
                field_at(artifact_, i), other[i], first_[i], reinterpret_cast<const cio_io*>(other)->outcome,
                reinterpret_cast<const cio_io*>(first_.data())->outcome);
            return;
        }
    }

    ir::Artifact artifact_;
    NativeCode native_;
    BpfMachine machine_;
    std::optional<KernelBpf> kernel_;
    GuardedBlock guarded_;
    std::vector<std::uint8_t> first_, input_, native_io_, machine_io_, block_, machine_block_;
};

// Those of which there is a log; whoever looks for others does not find them.
std::vector<backends::VerifiedProgram> verified_programs(const ir::Module& module, const KernelBpf::Logs& logs) {
    std::vector<backends::VerifiedProgram> found;
    const auto add = [&](const std::string& name, const std::string& entry) {
        const auto log = logs.find(entry);
        if (log != logs.end() && log->second.front() != '\0')
            found.push_back(backends::verified_program(name, log->second.data()));
    };
    for (std::size_t i = 0; i < module.programs.size(); i++)
        if (module.programs[i].kind != ir::ProgramKind::handler)
            add(module.programs[i].name, fmt::format("cio_run_{}", i));
    for (const std::string& name : backends::probe_programs(module)) add(name, name);
    return found;
}

}  // namespace

std::uint64_t DifferentialReport::blocks() const {
    std::uint64_t sum = 0;
    for (const ProgramReport& program : programs) sum += program.blocks;
    return sum;
}

bool DifferentialReport::agreed() const {
    return std::ranges::all_of(programs, [](const ProgramReport& p) { return p.disagreement.empty(); });
}

std::expected<DifferentialReport, std::string> run_differential(const std::vector<std::uint8_t>& artifact,
                                                                const Inputs& inputs,
                                                                const DifferentialOptions& options,
                                                                const Progress& progress) {
    auto file = backends::ElfFile::open(artifact);
    if (!file) return std::unexpected(file.error());
    auto spec = ir::deserialize(backends::find_section(*file, ".chainio.spec"));
    if (!spec) return std::unexpected("section .chainio.spec: " + spec.error());
    auto native = NativeCode::load(artifact);
    if (!native) return std::unexpected(native.error());
    auto object = backends::read_bpf_object(artifact);
    if (!object) return std::unexpected(object.error());

    DifferentialReport report;
    std::optional<KernelBpf> kernel;
    if (options.kernel) {
        KernelBpf::Logs logs;
        auto loaded = KernelBpf::load(artifact, options.verified ? &logs : nullptr);
        if (loaded) {
            kernel.emplace(std::move(*loaded));
            report.verified = verified_programs(spec->module, logs);
        } else if (loaded.error().not_permitted) {
            report.kernel_skipped = loaded.error().why;
        } else {
            return std::unexpected(loaded.error().why + verifier_words(artifact));
        }
    } else {
        report.kernel_skipped = "switched off by --no-kernel";
    }
    auto engines = std::make_unique<Engines>(std::move(*spec), std::move(*native), *object, std::move(kernel));
    if (!engines->ready()) return std::unexpected("no memory for a guarded block");
    CaseMaker maker(engines->artifact(), inputs);
    const auto& programs = engines->artifact().module.programs;
    for (std::size_t i = 0; i < programs.size(); i++) {
        if (programs[i].kind == ir::ProgramKind::handler || (!options.only.empty() && options.only != programs[i].name))
            continue;
        ProgramReport& row = report.programs.emplace_back();
        row.name = programs[i].name;
        engines->run(i, maker, options, progress, row);
    }
    if (!options.only.empty() && report.programs.empty())
        return std::unexpected("the artifact has no program " + options.only);
    return report;
}

}  // namespace chainio::tests
