#include "tools/chainc/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/chainc/pipeline.h"
#include "tools/chainc/places.h"

namespace chainio::chainc {
namespace {

// The program's own place, when the verifier named no line.
Span program_place(const Compilation& c, const Places& places, const std::string& name) {
    const auto& programs = c.artifact.module.programs;
    const auto found = std::ranges::find(programs, name, &ir::Program::name);
    return found == programs.end() ? Span{} : places.of_program(static_cast<std::size_t>(found - programs.begin()));
}

std::vector<diag::Note> log_notes(const Options& options, const backends::VerifyFailure& failure) {
    if (options.verify != VerifyMode::log || failure.log.empty()) return {};
    return {{{}, "the verifier's log:\n" + failure.log}};
}

}  // namespace

void verify_programs(Compilation& c) {
    c.verified = backends::verify(c.elf);
    if (!c.verified.permitted) {
        c.diagnostics.report(605, {}, "cannot verify: " + c.verified.why, c.verified.remedy);
        return;
    }
    const Places places(c);
    for (const backends::VerifyFailure& failure : c.verified.failed) {
        Span span = failure.line != 0 ? places.of_line(failure.file, failure.line) : Span{};
        if (span.file == 0) span = program_place(c, places, failure.program);
        c.diagnostics.report(604, span,
                             fmt::format("the kernel's verifier refused `{}`: {}", failure.program, failure.message),
                             c.options.verify == VerifyMode::log ? "simplify the step, or split it into two"
                                                                 : "`--verify=log` prints the verifier's log",
                             log_notes(c.options, failure));
    }
}

std::string verified_table(const Compilation& c) {
    std::size_t widest = 7;
    for (const auto& program : c.verified.loaded) widest = std::max(widest, program.program.size());
    std::string out = fmt::format("{:<{}}  verifier processed  stack\n", "program", widest);
    for (const auto& program : c.verified.loaded) {
        out += fmt::format("{:<{}}  {:>18}  {:>5}\n", program.program, widest, program.instructions_processed,
                           program.stack);
    }
    return out;
}

}  // namespace chainio::chainc
