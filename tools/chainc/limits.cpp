#include "tools/chainc/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <tuple>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/cost.h"
#include "compiler/ir/size.h"
#include "tools/chainc/pipeline.h"
#include "tools/chainc/places.h"

namespace chainio::chainc {
namespace {

constexpr std::size_t most_header_fields = CIO_MAX_OUT / 8;  // each is 8 bytes of what a program emits

const char* size_hint(ir::ProgramKind kind) {
    return kind == ir::ProgramKind::header ? "a header is read whole; let a step of the chain read what only it needs"
                                           : "split it into two steps, or use a loop or `match` instead of repetition";
}

void report_stack(Compilation& c, const Places& places, std::size_t program, std::uint64_t bytes) {
    c.diagnostics.report(602, places.of_program(program),
                         fmt::format("`{}` needs {} bytes of stack; the limit is {}",
                                     c.artifact.module.programs[program].name, bytes, most_stack),
                         "compute values where they are used, or split it into two steps");
}

const char* instructions_hint(ir::ProgramKind kind) {
    return kind == ir::ProgramKind::handler
               ? "lower the `max` of its loops, of sequences that they filter and of what its text rules capture, "
                 "bound the bytes that it works on where a field says how many they are "
                 "(`key[0..min(key.length, 64)]`), or "
                 "let a chain do the work that it calls in each round"
               : "lower the `max` of its loops, of sequences that they filter and of what its text rules capture, "
                 "bound the bytes that it works on where a field says how many they are "
                 "(`key[0..min(key.length, 64)]`), "
                 "search instead of looping, or split it into two steps";
}

// The lines that a bound comes from. Where a line has several loops, as one that searches in each round, the first says
// it.
std::vector<diag::Note> where_from(const Places& places, const ir::Module& module, const ir::Program& program) {
    std::vector<diag::Note> notes;
    for (const ir::CostlyPart& part : ir::costly_parts(program)) {
        if (part.line.line == 0 || part.line.file >= module.sources.size()) continue;
        const Span place = places.of_line(module.sources[part.line.file], part.line.line);
        if (!notes.empty() && notes.back().span.file == place.file && notes.back().span.line == place.line) continue;
        notes.push_back({place, part.rounds > 1
                                    ? fmt::format("this may take {} rounds of {} instructions", part.rounds, part.each)
                                    : fmt::format("this may take {} instructions", part.each)});
    }
    return notes;
}

void check_instructions(Compilation& c, const Places& places) {
    const ir::Module& module = c.artifact.module;
    std::vector<Span> handlers;  // one is several programs: by udp, by tcp, and for keys of the cache
    for (std::size_t i = 0; i < module.programs.size(); i++) {
        const ir::Program& program = module.programs[i];
        const std::uint64_t bound = ir::instruction_bound(program);
        if (bound <= most_instructions) continue;
        const Span place = places.of_program(i);
        if (program.kind == ir::ProgramKind::handler) {
            const auto same = [&](const Span& other) {
                return std::tie(other.file, other.line, other.col) == std::tie(place.file, place.line, place.col);
            };
            if (std::ranges::any_of(handlers, same)) continue;
            handlers.push_back(place);
        }
        c.diagnostics.report(
            601, place,
            fmt::format("`{}` may execute {} instructions; the limit is {}", program.name, bound, most_instructions),
            instructions_hint(program.kind), where_from(places, module, program));
    }
}

// The first of the IR's own bounds that a program is over; empty when there is none.
std::string excess(const ir::ProgramSize& size) {
    if (size.depth > ir::kMaxDepth) return fmt::format("{} nested blocks; the limit is {}", size.depth, ir::kMaxDepth);
    if (size.variables > ir::kMaxVars)
        return fmt::format("{} variables that change; the limit is {}", size.variables, ir::kMaxVars);
    if (size.statements > ir::kMaxStmts)
        return fmt::format("{} operations; the limit is {}", size.statements, ir::kMaxStmts);
    if (size.registers > ir::kMaxRegs) return fmt::format("{} values; the limit is {}", size.registers, ir::kMaxRegs);
    return {};
}

void check_sizes(Compilation& c, const Places& places) {
    const ir::Module& module = c.artifact.module;
    if (module.programs.size() > ir::kMaxPrograms) {
        c.diagnostics.report(
            607, {},
            fmt::format("the spec makes {} programs; the limit is {}", module.programs.size(), ir::kMaxPrograms),
            "split it into several artifacts");
    }
    if (module.literals.size() > ir::kMaxLiterals) {
        c.diagnostics.report(607, {},
                             fmt::format("the strings that the spec's programs use take {} bytes; the limit is {}",
                                         module.literals.size(), ir::kMaxLiterals),
                             "keep long texts in a file that a chain reads, or split it into several artifacts");
    }
    for (const ir::FileClass& file : module.files) {
        if (file.header_fields.size() <= most_header_fields) continue;
        const auto header = static_cast<std::size_t>(file.header_program);
        if (!excess(ir::size_of(module.programs[header])).empty()) continue;  // and reported
        c.diagnostics.report(607, places.of_program(header),
                             fmt::format("`{}` has {} integers; the limit is {}", module.programs[header].name,
                                         file.header_fields.size(), most_header_fields),
                             size_hint(ir::ProgramKind::header));
    }
    for (std::size_t i = 0; i < module.programs.size(); i++) {
        const std::string what = excess(ir::size_of(module.programs[i]));
        if (what.empty()) continue;
        c.diagnostics.report(607, places.of_program(i), fmt::format("`{}` has {}", module.programs[i].name, what),
                             size_hint(module.programs[i].kind));
    }
}

// The bounds that the compiled code still adds have the same size whatever they are.
void check_serialised(Compilation& c) {
    if (c.diagnostics.has_errors()) return;
    const std::size_t bytes = ir::serialize(c.artifact).size();
    if (bytes <= ir::kMaxSpecBytes) return;
    c.diagnostics.report(
        607, {},
        fmt::format("the spec's programs take {} bytes of the artifact; the limit is {}", bytes, ir::kMaxSpecBytes),
        "split it into several artifacts, or use loops instead of repetition");
}

void check_chains(Compilation& c, const Places& places) {
    for (std::size_t i = 0; i < c.artifact.module.chains.size(); i++) {
        const ir::Chain& chain = c.artifact.module.chains[i];
        const ir::ChainBounds bounds = ir::chain_bounds(c.artifact.module, c.artifact.layout, chain);
        if (bounds.memory <= most_memory) continue;
        c.diagnostics.report(
            603, places.of_chain(i),
            fmt::format("one run of `{}` may need {} KiB: {} reads in flight of {} bytes each; the limit is {} KiB",
                        chain.name, bounds.memory >> 10, bounds.in_flight, bounds.block_bytes, most_memory >> 10),
            "lower `hops`, queue fewer reads a step, or read less with a constant `for`");
    }
}

}  // namespace

void enforce_limits(Compilation& c) {
    const Places places(c);
    check_sizes(c, places);
    check_instructions(c, places);
    check_chains(c, places);
    check_serialised(c);
}

void enforce_lowered_sizes(Compilation& c) {
    const Places places(c);
    const auto& programs = c.artifact.module.programs;
    for (std::size_t i = 0; i < programs.size(); i++) {
        if (programs[i].reg_count < ir::kMostBuiltRegs) continue;
        c.diagnostics.report(607, places.of_program(i),
                             fmt::format("`{}` has more than {} values", programs[i].name, ir::kMostBuiltRegs - 1),
                             size_hint(programs[i].kind));
    }
}

bool report_stack_overflow(Compilation& c, std::string_view compiler_output) {
    static const std::regex needs("([0-9]+) stack bytes in function 'cio_(?:program_|p)([0-9]+)");
    const Places places(c);
    std::map<std::size_t, unsigned long> largest;  // of the functions of each program
    using Match = std::regex_iterator<std::string_view::const_iterator>;
    for (Match at(compiler_output.begin(), compiler_output.end(), needs); at != Match(); ++at) {
        const std::size_t program = std::stoul((*at)[2]);
        const unsigned long bytes = std::stoul((*at)[1]);
        if (bytes <= most_stack || program >= c.artifact.module.programs.size()) continue;
        largest[program] = std::max(largest[program], bytes);
    }
    for (const auto& [program, bytes] : largest) report_stack(c, places, program, bytes);
    return !largest.empty();
}

void enforce_stack(Compilation& c) {
    const Places places(c);
    for (std::size_t i = 0; i < c.artifact.bounds.size(); i++) {
        const std::uint32_t stack = c.artifact.bounds[i].stack;
        if (stack <= most_stack) continue;
        report_stack(c, places, i, stack);
    }
}

}  // namespace chainio::chainc
