// Bytes as people write them where a text has to stand on a line.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace chainio::tool {

// -1: it is none.
inline int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// `\t`, `\n`, `\r`, `\0`, `\\` and `\xHH`. Gives the first escape that means nothing; nothing when all do.
inline std::optional<std::string> unescape(std::string_view text, std::string& out) {
    out.clear();
    for (std::size_t i = 0; i < text.size(); i++) {
        if (text[i] != '\\') {
            out += text[i];
            continue;
        }
        const char kind = i + 1 < text.size() ? text[i + 1] : '\0';
        constexpr std::string_view kinds = "tnr0\\", meant{"\t\n\r\0\\", 5};
        if (const std::size_t found = kinds.find(kind); kind != '\0' && found != std::string_view::npos) {
            out += meant[found];
            i++;
            continue;
        }
        const int high = kind == 'x' && i + 3 < text.size() ? hex_digit(text[i + 2]) : -1;
        const int low = high >= 0 ? hex_digit(text[i + 3]) : -1;
        if (low < 0) return std::string(text.substr(i, kind == 'x' ? 4 : 2));
        out += static_cast<char>(high << 4 | low);
        i += 3;
    }
    return std::nullopt;
}

}  // namespace chainio::tool
