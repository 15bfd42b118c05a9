// From Chain IR to files: C, ELF, graph, configuration.
#pragma once
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/artifact.h"

namespace chainio::backends {

// The one C text that is compiled for BPF and for the native step code (the prelude differs by -D).
std::string emit_c(const ir::Artifact&);
// The same text in two parts: `head`, which is types and macros only, and `body`, which has the programs.
struct StepText {
    std::string head, body;
};
StepText emit_steps(const ir::Artifact&);
// The C of the services' handlers behind the same head, for native code only; empty without any.
std::string emit_handlers(const ir::Artifact&, std::string_view head);
// The C of the kernel engine's BPF program (bpf-templates/chainio_loop_bpf.h), of modules that have call chains, behind
// the head of their steps' C. It calls the programs; they come from the object that the whole C is compiled to.
bool has_loop(const ir::Module&);
std::string emit_loop(const ir::Artifact&, std::string head);
// That of modules with services that the kernel can answer (compiler/ir/kernel_handlers.h): the loop with sockets.
bool has_serving(const ir::Module&);
std::string emit_serving(const ir::Artifact&, std::string head);
std::string emit_dot(const ir::Module&);       // the chain graph
std::string emit_config(const ir::Artifact&);  // --emit=config: the .chainio.spec section as JSON

struct BuildOptions {
    std::string clang;                       // program; empty: found on PATH (clang-19 … clang)
    std::vector<std::string> native_arches;  // "x86_64", "aarch64"; the host's by default; "none" stands for nothing
    int optimize = 2;
};
// The whole artifact. `bounds` are filled in from the compiled code. The error is a message with cause and remedy.
std::expected<std::vector<std::uint8_t>, std::string> build_artifact(ir::Artifact&, const BuildOptions&);

struct VerifyFailure {
    std::string program;
    std::string file;        // canonical source name
    std::uint32_t line = 0;  // in it; 0: unknown
    std::string message;     // the verifier's last words
    std::string log;
};
struct VerifiedProgram {
    std::string program;
    std::uint64_t instructions_processed = 0;
    std::uint32_t stack = 0;
    std::uint64_t peak_states = 0;                  // that the verifier held at once
    std::uint64_t most_states_per_instruction = 0;  // of one instruction
};
struct VerifyResult {
    bool permitted = true;  // false: this process may not load BPF programs; `why` says what is missing
    std::string why, remedy;
    std::vector<VerifiedProgram> loaded;
    std::vector<VerifyFailure> failed;
};
VerifyResult verify(const std::vector<std::uint8_t>& artifact);
// What the verifier said of a program in a log of statistics, which is what that level asks for; without its stack.
inline constexpr std::uint32_t kLogStats = 4;
VerifiedProgram verified_program(const std::string& name, const std::string& log);
// Like verify(), of a BPF object that is no artifact, as the runtime's own; sources are not named.
VerifyResult verify_object(const std::vector<std::uint8_t>& object);
// What a log of the verifier complains of, in words; empty when it says nothing.
std::string verifier_complaint(std::string_view log);

}  // namespace chainio::backends
