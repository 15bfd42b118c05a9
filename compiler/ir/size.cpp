#include "compiler/ir/size.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/ir/visit.h"

namespace chainio::ir {

ProgramSize size_of(const Program& program) {
    ProgramSize size{.statements = 0, .registers = program.reg_count, .variables = 0, .depth = 0};
    std::map<Reg, std::uint32_t> writes;
    // A list instead of recursion: the depth is what is being measured.
    std::vector<std::pair<const Body*, std::uint32_t>> open{{&program.body, 0}};
    while (!open.empty()) {
        const auto [body, depth] = open.back();
        open.pop_back();
        size.depth = std::max(size.depth, depth);
        size.statements += body->size();
        for (const Stmt& stmt : *body) {
            for_each_def(stmt, [&](Reg r) { writes[r]++; });
            if (const auto* branch = std::get_if<If>(&stmt.node)) {
                open.emplace_back(&branch->yes, depth + 1);
                open.emplace_back(&branch->no, depth + 1);
            } else if (const auto* loop = std::get_if<Loop>(&stmt.node)) {
                open.emplace_back(&loop->body, depth + 1);
            }
        }
    }
    size.variables =
        static_cast<std::uint32_t>(std::ranges::count_if(writes, [](const auto& w) { return w.second > 1; }));
    return size;
}

std::uint32_t width_of(Format format) {
    switch (format) {
        case Format::u8: return 1;
        case Format::u16le:
        case Format::u16be: return 2;
        case Format::u32le:
        case Format::u32be: return 4;
        case Format::u64le:
        case Format::u64be: return 8;
        case Format::dec:
        case Format::hex:
        case Format::bytes: break;
    }
    return 0;
}

}  // namespace chainio::ir
