#include "compiler/backends/helpers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/backends/templates.h"

namespace chainio::backends {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
    std::string out;
    std::size_t at = 0;
    for (std::size_t hit; (hit = text.find(from, at)) != text.npos; at = hit + from.size()) {
        out.append(text.substr(at, hit - at)).append(to);
    }
    return out.append(text.substr(at));
}

// CRC-32C of each byte followed by 0 to 7 zero bytes. BPF goes byte by byte and keeps the first table only.
std::string crc32c_tables() {
    std::array<std::array<std::uint32_t, 256>, 8> tables{};
    for (std::uint32_t byte = 0; byte < 256; byte++) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
        tables[0][byte] = crc;
    }
    std::string text = "static const u32 cio_crc32c_table[] = {\n";
    for (std::size_t t = 0; t < tables.size(); t++) {
        if (t == 1) text += "#ifndef CIO_BPF\n";
        for (std::size_t byte = 0; byte < 256; byte++) {
            if (t > 0) tables[t][byte] = (tables[t - 1][byte] >> 8) ^ tables[0][tables[t - 1][byte] & 255];
            text += fmt::format("{:#x},{}", tables[t][byte], byte % 16 == 15 ? "\n" : "");
        }
    }
    return text + "#endif\n};\n";
}

}  // namespace

std::string_view space_word(ir::Space space) {
    switch (space) {
        case ir::Space::block: return "block";
        case ir::Space::args: return "args";
        case ir::Space::state: return "state";
        case ir::Space::literal: return "literal";
        case ir::Space::result: break;
    }
    return "result";
}

void Helpers::need(std::string name, ir::Space first, ir::Space second, std::uint32_t max) {
    if (name == "compare") need("bytes8");
    if (name == "xxh64") need("xxh64_common");
    std::uint32_t& known = wanted_[{std::move(name), first, second}];
    known = std::max({known, max, 1u});
}

bool Helpers::needs(const std::string& name) const {
    return std::ranges::any_of(wanted_, [&](const auto& row) { return std::get<0>(row.first) == name; });
}

std::string Helpers::text() const {
    std::string out;
    if (needs("crc32c")) out += crc32c_tables() + std::string(template_text("op_crc32c_common.h"));
    // "bytes8" sorts before "compare", and "xxh64_common" has to come before "xxh64".
    if (needs("xxh64_common")) out += template_text("op_xxh64_common.h");
    for (const auto& [key, max] : wanted_) {
        const auto& [name, first, second] = key;
        if (name == "xxh64_common") continue;
        std::string text = replaced(template_text("op_" + name + ".h"), "SPACE", space_word(first));
        text = replaced(text, "OTHER", space_word(second));
        out += replaced(text, "MAXIMUM", std::to_string(max));
    }
    return out;
}

}  // namespace chainio::backends
