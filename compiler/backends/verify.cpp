// Loading every program of an artifact into the running kernel. Nothing is pinned; all of it is gone when the objects
// close.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <regex>

#include "compiler/backends/backends.h"
#include "compiler/backends/bpf_object.h"
#include "compiler/backends/elf_file.h"
#include "compiler/backends/emit_probes.h"
#include "compiler/backends/line_table.h"
#include "compiler/backends/quiet_libbpf.h"

namespace chainio::backends {
namespace {

constexpr std::uint32_t kLogTrace = 1;
constexpr std::size_t kSmallLog = 64 * 1024, kBigLog = 32 * 1024 * 1024;

bool has_capability(unsigned number) {
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    if (syscall(SYS_capget, &head, data) != 0) return false;
    return (data[number / 32].effective >> (number % 32) & 1) != 0;
}

// What this process lacks; empty when it may load programs.
std::string missing_privilege() {
    if (has_capability(CAP_SYS_ADMIN)) return "";
    std::string missing;
    if (!has_capability(CAP_BPF)) missing = "CAP_BPF";
    if (!has_capability(CAP_PERFMON)) missing += missing.empty() ? "CAP_PERFMON" : " and CAP_PERFMON";
    if (missing.empty()) return "";
    return fmt::format("loading BPF programs needs {}, which this process does not have", missing);
}

struct ObjectCloser {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
};
using Object = std::unique_ptr<bpf_object, ObjectCloser>;

// What one attempt to load one program gave.
struct Attempt {
    int error = 0;
    std::string log;
    std::vector<bpf_insn> instructions;
};

Attempt attempt(const std::vector<std::uint8_t>& artifact, const std::string& entry, std::uint32_t level,
                std::size_t log_size) {
    Attempt result;
    bpf_object_open_opts options{};
    options.sz = sizeof options;
    options.object_name = "chainio";
    Object object(bpf_object__open_mem(artifact.data(), artifact.size(), &options));
    if (!object) {
        result.error = errno;
        return result;
    }
    std::vector<char> log(log_size);
    bpf_program* wanted = nullptr;
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object.get()) {
        bool is_it = entry == bpf_program__name(program);
        bpf_program__set_autoload(program, is_it);
        if (is_it) wanted = program;
    }
    if (wanted == nullptr) {
        result.error = ENOENT;
        return result;
    }
    bpf_program__set_log_level(wanted, level);
    bpf_program__set_log_buf(wanted, log.data(), log.size());
    if (int error = bpf_object__load(object.get()); error != 0) result.error = -error;
    result.log = log.data();
    const bpf_insn* code = bpf_program__insns(wanted);
    if (code != nullptr) result.instructions.assign(code, code + bpf_program__insn_cnt(wanted));
    return result;
}

std::vector<std::string> program_names(const std::vector<std::uint8_t>& bytes) {
    std::vector<std::string> names;
    Object object(bpf_object__open_mem(bytes.data(), bytes.size(), nullptr));
    bpf_program* program = nullptr;
    if (object) bpf_object__for_each_program(program, object.get()) names.emplace_back(bpf_program__name(program));
    return names;
}

// Whether there is any use in trying.
VerifyResult may_load() {
    VerifyResult result;
    result.why = missing_privilege();
    result.permitted = result.why.empty();
    if (!result.permitted) result.remedy = "run it as root, or once: `setcap cap_bpf,cap_perfmon+ep` on the program";
    return result;
}

std::uint64_t number_after(const std::string& log, std::string_view word) {
    std::size_t at = log.rfind(word);
    if (at == log.npos) return 0;
    std::uint64_t value = 0;
    const char* from = log.c_str() + at + word.size();
    std::from_chars(from, log.c_str() + log.size(), value);
    return value;
}

// The verifier prints each function's own depth, in the order of the program: the deepest chain of calls is what
// counts.
std::uint32_t verified_stack(const Attempt& loaded, const BpfObject& object, const std::string& entry) {
    constexpr std::uint32_t round = 32;
    std::size_t at = loaded.log.rfind("stack depth ");
    if (at == loaded.log.npos) return 0;
    std::map<std::size_t, std::size_t> placed = placed_functions(object, entry, loaded.instructions);
    std::map<std::size_t, std::uint32_t> own, deepest;  // by function of the object
    const char* text = loaded.log.c_str() + at + std::strlen("stack depth ");
    for (const auto& [start, number] : placed) {
        std::uint32_t depth = 0;
        auto parsed = std::from_chars(text, loaded.log.c_str() + loaded.log.size(), depth);
        own[number] = (std::max(depth, 1u) + round - 1) / round * round;
        if (*parsed.ptr != '+') break;
        text = parsed.ptr + 1;
    }
    deepest = own;
    for (std::size_t pass = 0; pass < placed.size(); pass++)
        for (const auto& [number, depth] : own)
            for (const auto& [call, callee] : object.functions[number].calls)
                deepest[number] = std::max(deepest[number], depth + deepest[callee]);
    const BpfFunction* main = object.find(entry);
    return main == nullptr ? 0 : deepest[static_cast<std::size_t>(main - object.functions.data())];
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        std::size_t end = std::min(text.find('\n'), text.size());
        lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

bool is_statistic(std::string_view line) {
    return line.starts_with("processed ") || line.starts_with("verification time") || line.starts_with("stack depth") ||
           line.starts_with("insns processed") || line.starts_with("-- ") || line.empty();
}

// `17: (85) call bpf_loop#181 …`: what the verifier was looking at.
std::optional<std::size_t> listed_instruction(std::string_view line) {
    std::size_t number = 0;
    const char* end = line.data() + line.size();
    const auto parsed = std::from_chars(line.data(), end, number);
    if (parsed.ec != std::errc() || !std::string_view(parsed.ptr, end).starts_with(": (")) return std::nullopt;
    return number;
}

// The instruction that the verifier was at when it gave up.
std::size_t failing_instruction(const std::vector<std::string_view>& lines) {
    for (std::size_t i = lines.size(); i-- > 0;) {
        if (const auto listed = listed_instruction(lines[i])) return *listed;
        std::size_t number = 0;
        std::size_t word = lines[i].rfind(" insn ");
        if (word == lines[i].npos) continue;
        const char* from = lines[i].data() + word + 6;
        if (std::from_chars(from, lines[i].data() + lines[i].size(), number).ec == std::errc()) return number;
    }
    return 0;
}

VerifyFailure explain(const Attempt& refused, const BpfObject& object, const std::string& entry) {
    VerifyFailure failure;
    failure.log = refused.log;
    std::vector<std::string_view> lines = lines_of(failure.log);
    failure.message = verifier_complaint(failure.log);
    if (failure.message.empty()) failure.message = std::strerror(refused.error);
    std::size_t instruction = failing_instruction(lines);
    std::map<std::size_t, std::size_t> placed = placed_functions(object, entry, refused.instructions);
    auto after = placed.upper_bound(instruction);
    if (after == placed.begin()) return failure;
    const auto& [start, number] = *std::prev(after);
    const BpfFunction& function = object.functions[number];
    SourceLine line =
        LineTable(object).find(function.section, function.section_offset + (instruction - start) * sizeof(bpf_insn));
    failure.file = line.file;
    failure.line = line.line;
    return failure;
}

void verify_program(const std::vector<std::uint8_t>& artifact, const BpfObject& object, const std::string& name,
                    const std::string& entry, VerifyResult& result) {
    const auto is_loaded = [&](const Attempt& made) {
        if (made.error != 0) return false;
        result.loaded.push_back(verified_program(name, made.log));
        result.loaded.back().stack = verified_stack(made, object, entry);
        return true;
    };
    const Attempt first = attempt(artifact, entry, kLogStats, kSmallLog);
    if (is_loaded(first)) return;
    if (first.error == EPERM && first.log.empty()) {
        result.permitted = false;
        result.why =
            "the kernel refuses to load BPF programs here (EPERM); a container or lockdown forbids the bpf system call";
        result.remedy = "verify outside of it; `--check` needs no right";
        return;
    }
    // A log that has no room for what the kernel says is an error of its own (ENOSPC), whatever the program is.
    if (first.error == ENOSPC && is_loaded(attempt(artifact, entry, kLogStats, kBigLog))) return;
    const Attempt again = attempt(artifact, entry, kLogTrace | kLogStats, kBigLog);
    if (is_loaded(again)) return;
    VerifyFailure failure = explain(again, object, entry);
    failure.program = name;
    result.failed.push_back(std::move(failure));
}

}  // namespace

VerifiedProgram verified_program(const std::string& name, const std::string& log) {
    return {name, number_after(log, "processed "), 0, number_after(log, "peak_states "),
            number_after(log, "max_states_per_insn ")};
}

std::string verifier_complaint(std::string_view log) {
    const std::vector<std::string_view> lines = lines_of(log);
    const auto last = std::find_if_not(lines.rbegin(), lines.rend(), is_statistic);
    if (last == lines.rend()) return {};
    if (listed_instruction(*last)) return fmt::format("it stopped at instruction `{}`", *last);
    return std::string(*last);
}

VerifyResult verify(const std::vector<std::uint8_t>& artifact) {
    VerifyResult result = may_load();
    if (!result.permitted) return result;
    auto unreadable = [&](const std::string& why) {
        result.failed.push_back({"", "", 0, "not an artifact: " + why, ""});
        return result;
    };
    auto file = ElfFile::open(artifact);
    if (!file) return unreadable(file.error());
    auto spec = ir::deserialize(find_section(*file, ".chainio.spec"));
    if (!spec) return unreadable(spec.error());
    auto object = read_bpf_object(artifact);
    if (!object) return unreadable(object.error());
    QuietLibbpf quiet;
    for (std::size_t i = 0; i < spec->module.programs.size() && result.permitted; i++) {
        if (spec->module.programs[i].kind == ir::ProgramKind::handler) continue;
        verify_program(artifact, *object, spec->module.programs[i].name, fmt::format("cio_run_{}", i), result);
    }
    for (const std::string& name : probe_programs(spec->module))
        if (result.permitted) verify_program(artifact, *object, name, name, result);
    return result;
}

VerifyResult verify_object(const std::vector<std::uint8_t>& bytes) {
    VerifyResult result = may_load();
    if (!result.permitted) return result;
    auto object = read_bpf_object(bytes);
    if (!object) {
        result.failed.push_back({"", "", 0, "not a BPF object: " + object.error(), ""});
        return result;
    }
    QuietLibbpf quiet;
    for (const std::string& name : program_names(bytes))
        if (result.permitted) verify_program(bytes, *object, name, name, result);
    return result;
}

}  // namespace chainio::backends
