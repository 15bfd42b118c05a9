#include "runtime/sites/scan.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "runtime/probe/elf_view.h"
#include "runtime/shim/numbers.h"
#include "runtime/sites/code.h"
#include "runtime/sites/go_functions.h"

namespace chainio::sites {
namespace {

using probe::Code;
using Bytes = std::span<const std::uint8_t>;

constexpr std::uint64_t kLongestFunction = 1 << 20;
constexpr std::uint64_t kShortJump = 130;  // no two-byte jump reaches further
constexpr std::size_t kMostBefore = 6;
constexpr std::uint64_t kMostDecoded = 64 << 20;  // bytes, of all functions together: damaged files name any

struct Range {
    std::uint64_t begin = 0, end = 0;
};

// A program's code with all that says where its parts begin.
struct Program {
    std::vector<Code> code;
    std::vector<Range> functions;        // by where they begin
    std::vector<std::uint64_t> entries;  // where anybody may come in, sorted
    std::uint64_t may_decode = kMostDecoded;
};

// The bytes at [address, end); empty unless one segment holds all of them.
Bytes bytes_at(const Program& program, std::uint64_t address, std::uint64_t end) {
    for (const Code& code : program.code)
        if (address >= code.address && end >= address && end - code.address <= code.bytes.size())
            return code.bytes.subspan(address - code.address, end - address);
    return {};
}

// Those that no symbol names: all of a stripped Go program.
void take_go_functions(const probe::ElfView& elf, Program& program) {
    const auto begins = go_functions(elf);
    const std::size_t named = program.functions.size();
    for (std::size_t i = 0; i + 1 < begins.size(); i++) {
        const auto symbols = std::span(program.functions).first(named);
        if (std::ranges::binary_search(symbols, begins[i], {}, &Range::begin)) continue;
        const std::uint64_t end = std::min(begins[i + 1], begins[i] + kLongestFunction);
        if (!bytes_at(program, begins[i], end).empty()) program.functions.push_back({begins[i], end});
    }
}

Program program_of(const probe::ElfView& elf) {
    Program out;
    out.code = elf.code();
    for (const probe::Symbol& symbol : elf.functions()) {
        const std::uint64_t end = symbol.address + std::min(symbol.size, kLongestFunction);
        if (symbol.size != 0 && !bytes_at(out, symbol.address, end).empty())
            out.functions.push_back({symbol.address, end});
    }
    const auto by_place = [](const Range& range) { return std::pair(range.begin, range.end); };
    std::ranges::sort(out.functions, {}, by_place);
    take_go_functions(elf, out);
    std::ranges::sort(out.functions, {}, by_place);
    out.entries = elf.labels();
    for (const Range& function : out.functions) out.entries.push_back(function.begin);
    std::ranges::sort(out.entries);
    return out;
}

std::optional<std::vector<Instruction>> decoded(Program& program, const Range& function) {
    const std::uint64_t size = function.end - function.begin;
    if (size > program.may_decode) return std::nullopt;
    program.may_decode -= size;
    return instructions_of(function.begin, bytes_at(program, function.begin, function.end));
}

// The innermost function around an address: the last to begin of those that reach so far.
const Range* function_at(const Program& program, std::uint64_t address) {
    auto after = std::ranges::upper_bound(program.functions, address, {}, &Range::begin);
    while (after != program.functions.begin()) {
        --after;
        if (address < after->end) return &*after;
        if (address - after->begin > kLongestFunction) break;
    }
    return nullptr;
}

// A function that holds a call, and where jumps lead to in it.
struct Function {
    Range range;
    std::vector<Instruction> instructions;
    std::set<std::uint64_t> targets;
    bool by_table = false;
};

bool inside(const Range& range, std::uint64_t address) { return address >= range.begin && address < range.end; }

void take_targets(const std::vector<Instruction>& instructions, std::set<std::uint64_t>& targets) {
    for (const Instruction& each : instructions)
        if (each.target) targets.insert(*each.target);
}

// Jumps with four bytes of distance can come from anywhere. Every byte that could begin one is taken for one.
void take_far_jumps(const Program& program, std::map<std::uint64_t, Function>& functions) {
    for (const Code& code : program.code) {
        for (std::size_t i = 0; i + 6 <= code.bytes.size(); i++) {
            const std::uint8_t first = code.bytes[i];
            const bool conditional = first == 0x0f && (code.bytes[i + 1] & 0xf0) == 0x80;
            if (first != 0xe8 && first != 0xe9 && !conditional) continue;
            const std::size_t at = i + (conditional ? 2 : 1);
            std::int32_t distance = 0;
            std::memcpy(&distance, code.bytes.data() + at, sizeof distance);
            const std::uint64_t target =
                code.address + at + sizeof distance + static_cast<std::uint64_t>(std::int64_t{distance});
            auto found = functions.upper_bound(target);
            if (found == functions.begin()) continue;
            --found;
            if (inside(found->second.range, target)) found->second.targets.insert(target);
        }
    }
}

// False when something there is no instruction, so that nobody can say where it jumps.
bool take_short_jumps(Program& program, Function& function) {
    for (const Range& other : program.functions) {
        if (other.begin > function.range.end + kShortJump) break;
        if (other.end + kShortJump < function.range.begin) continue;
        const auto instructions = decoded(program, other);
        if (!instructions) return false;
        take_targets(*instructions, function.targets);
    }
    return true;
}

class Windows {
  public:
    Windows(const Program& program, const Function& function) : program_(program), function_(function) {}

    // The instructions that make room for a jump around the call at `index`: as few as can be before it.
    std::optional<shim::Site> around(std::size_t index) {
        const auto& all = function_.instructions;
        for (std::size_t before = 0; before <= std::min(index, kMostBefore); before++) {
            const Instruction& first = all[index - before];
            if (before != 0 && (!first.movable || first.address < free_from_)) break;
            const auto end = end_of(first.address, index);
            if (!end || entered(first.address, *end)) continue;
            const Bytes code = bytes_at(program_, first.address, *end);
            if (code.empty() || code.size() > shim::kMaxWindow) continue;
            free_from_ = *end;
            shim::Site site{};
            site.address = first.address;
            site.bytes = static_cast<std::uint8_t>(code.size());
            site.call_at = static_cast<std::uint8_t>(all[index].address - first.address);
            std::ranges::copy(code, site.code);
            return site;
        }
        return std::nullopt;
    }

    bool entered(std::uint64_t begin, std::uint64_t end) const {
        const auto target = function_.targets.upper_bound(begin);
        if (target != function_.targets.end() && *target < end) return true;
        const auto entry = std::ranges::upper_bound(program_.entries, begin);
        return entry != program_.entries.end() && *entry < end;
    }

  private:
    // Where a window that begins at `begin` ends: as soon as a jump fits.
    std::optional<std::uint64_t> end_of(std::uint64_t begin, std::size_t call) const {
        const auto& all = function_.instructions;
        std::uint64_t end = all[call].end();
        for (std::size_t i = call + 1; end - begin < shim::kJumpBytes; i++) {
            if (i == all.size() || !(all[i].movable || all[i].returns)) return std::nullopt;
            end = all[i].end();
            if (all[i].returns) return padded(begin, end);
        }
        return end;
    }
    // Behind a return nothing is executed that nobody jumps to; what the compiler filled up with may go.
    std::optional<std::uint64_t> padded(std::uint64_t begin, std::uint64_t end) const {
        while (end - begin < shim::kJumpBytes) {
            const Bytes next = bytes_at(program_, end, end + 1);
            if (next.empty() || (next[0] != 0xcc && next[0] != 0x90)) return std::nullopt;
            end++;
        }
        return end;
    }

    const Program& program_;
    const Function& function_;
    std::uint64_t free_from_ = 0;
};

// The number that the instruction right before a call puts into eax.
std::optional<std::uint64_t> number_before(const Function& function, std::size_t index, const Windows& windows) {
    if (index == 0) return std::nullopt;
    const Instruction &call = function.instructions[index], &before = function.instructions[index - 1];
    if (windows.entered(before.address, call.end())) return std::nullopt;
    const Bytes b = before.bytes;
    if (b.size() == 2 && (b[0] == 0x31 || b[0] == 0x33) && b[1] == 0xc0) return 0;  // xor eax, eax
    const bool narrow = b.size() == 5 && b[0] == 0xb8;
    const bool wide = b.size() == 7 && b[0] == 0x48 && b[1] == 0xc7 && b[2] == 0xc0;
    if (!narrow && !wide) return std::nullopt;
    std::uint32_t number = 0;
    std::memcpy(&number, b.data() + b.size() - 4, sizeof number);
    return number;
}

void take_sites(const Program& program, Function& function, Scan& out) {
    Windows windows(program, function);
    for (std::size_t i = 0; i < function.instructions.size(); i++) {
        const Instruction& call = function.instructions[i];
        if (!call.is_call) continue;
        if (const auto number = number_before(function, i, windows);
            !function.by_table && number && shim::care_of(*number) == shim::Care::none) {
            out.others++;
            continue;
        }
        const auto site = function.by_table || call.bytes.size() != 2 ? std::nullopt : windows.around(i);
        if (!site) {
            out.refused = fmt::format("there is no room for a jump at the system call at {:#x}", call.address);
            return;
        }
        out.sites.push_back(*site);
    }
}

// The functions that hold the bytes of a call; of those outside of functions it is not known what they are.
std::map<std::uint64_t, Function> functions_with_calls(const Program& program, Scan& out) {
    std::map<std::uint64_t, Function> functions;
    for (const Code& code : program.code) {
        for (std::size_t i = 0; i + 2 <= code.bytes.size(); i++) {
            if (code.bytes[i] != 0x0f || code.bytes[i + 1] != 0x05) continue;
            const Range* found = function_at(program, code.address + i);
            if (found != nullptr)
                functions[found->begin].range = *found;
            else
                out.unknown++;
        }
    }
    return functions;
}

bool decode(Program& program, Function& function) {
    auto all = decoded(program, function.range);
    if (!all) return false;
    function.instructions = std::move(*all);
    function.by_table = std::ranges::any_of(function.instructions, &Instruction::jumps_by_table);
    return std::ranges::none_of(function.instructions, &Instruction::is_call) || take_short_jumps(program, function);
}

}  // namespace

Scan scan(std::span<const std::uint8_t> file) {
    Scan out;
    const auto elf = probe::ElfView::read(file);
    if (!elf || elf->machine() != EM_X86_64) {
        out.refused = elf ? "it is not a program for x86-64" : elf.error();
        return out;
    }
    Program program = program_of(*elf);
    auto functions = functions_with_calls(program, out);
    for (auto& [begin, function] : functions) {
        if (!decode(program, function)) {
            out.refused = fmt::format("the function at {:#x} does not disassemble", begin);
            return out;
        }
    }
    take_far_jumps(program, functions);
    for (auto& [begin, function] : functions) {
        take_sites(program, function, out);
        if (!out.refused.empty()) break;
    }
    if (out.refused.empty() && out.sites.size() > shim::kMaxSites)
        out.refused = fmt::format("it has more than {} system calls", shim::kMaxSites);
    if (!out.refused.empty()) out.sites.clear();
    return out;
}

}  // namespace chainio::sites
