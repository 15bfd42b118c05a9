#include "tools/chainio/call_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "compiler/diag/diag.h"
#include "tools/chainio/escapes.h"

namespace chainio::tool {
namespace {

// Of a text that is long, as a line of megabytes, the begin says which it is.
std::unexpected<std::string> wrong(const ir::Param& param, std::string_view text, const std::string& why) {
    constexpr std::size_t kShown = 200;
    std::size_t shown = std::min(text.size(), kShown);
    const auto amid_character = [&] { return (static_cast<unsigned char>(text[shown]) & 0xc0) == 0x80; };
    while (shown < text.size() && shown + 3 > kShown && amid_character()) shown--;
    return std::unexpected(fmt::format("'{}{}' for parameter '{}': {}", text.substr(0, shown),
                                       shown < text.size() ? "…" : "", param.name, why));
}

// `text` is how they were given.
std::expected<std::vector<std::uint8_t>, std::string> parse_hex(const ir::Param& param, std::string_view digits,
                                                                std::string_view text) {
    if (digits.size() % 2 != 0) return wrong(param, text, "hexadecimal bytes come in pairs of digits");
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
        const int high = hex_digit(digits[i]), low = hex_digit(digits[i + 1]);
        if (high < 0 || low < 0) return wrong(param, text, "it has a character that is no hexadecimal digit");
        bytes.push_back(static_cast<std::uint8_t>(high * 16 + low));
    }
    if (bytes.size() > param.max) return wrong(param, text, fmt::format("it is longer than {} bytes", param.max));
    return bytes;
}

std::string type_name(const ir::Param& param) { return fmt::format("{}{}", param.is_signed ? "i" : "u", param.bits); }

}  // namespace

std::expected<std::uint64_t, std::string> parse_scalar(const ir::Param& param, std::string_view text) {
    std::string_view digits = text;
    const bool negative = digits.starts_with('-');
    if (negative) digits.remove_prefix(1);
    const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
    if (hex) digits.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
    if (error == std::errc::result_out_of_range) return wrong(param, text, "it does not fit 64 bits");
    if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) {
        return wrong(param, text, "an integer is wanted, such as 42 or 0x2a");
    }
    const std::uint64_t top = std::uint64_t{1} << (param.bits - 1);  // of the signed range, and the largest bit
    const std::uint64_t most = param.is_signed ? top - 1 : top - 1 + top;
    if (negative && !param.is_signed && value != 0)
        return wrong(param, text, type_name(param) + " has no negative values");
    if (negative ? value > top : value > most) return wrong(param, text, "it does not fit " + type_name(param));
    return negative ? 0 - value : value;
}

std::expected<std::vector<std::uint8_t>, std::string> parse_bytes(const ir::Param& param, std::string_view text) {
    if (text.starts_with("hex:")) return parse_hex(param, text.substr(4), text);
    if (text.starts_with("text:")) text.remove_prefix(5);
    std::vector<std::uint8_t> bytes(text.begin(), text.end());
    if (bytes.size() > param.max) return wrong(param, text, fmt::format("it is longer than {} bytes", param.max));
    return bytes;
}

std::expected<Value, std::string> bytes_value(const ir::Param& param, std::string_view text) {
    if (text.size() > param.max) return wrong(param, text, fmt::format("it is longer than {} bytes", param.max));
    Value value;
    value.bytes.assign(text.begin(), text.end());
    return value;
}

std::expected<Value, std::string> hex_value(const ir::Param& param, std::string_view digits) {
    auto bytes = parse_hex(param, digits, digits);
    if (!bytes) return std::unexpected(bytes.error());
    return Value{.scalar = 0, .bytes = std::move(*bytes)};
}

std::expected<Value, std::string> parse_value(const ir::Param& param, std::string_view text) {
    Value value;
    if (param.kind == ir::Param::Kind::scalar) {
        auto scalar = parse_scalar(param, text);
        if (!scalar) return std::unexpected(scalar.error());
        value.scalar = *scalar;
        return value;
    }
    auto bytes = parse_bytes(param, text);
    if (!bytes) return std::unexpected(bytes.error());
    value.bytes = std::move(*bytes);
    return value;
}

std::expected<CallWords, std::string> read_words(const std::vector<std::string>& words) {
    CallWords out;
    std::vector<std::string> positions;
    for (std::size_t i = 0; i < words.size(); i++) {
        const std::string& word = words[i];
        if (!word.starts_with("--")) {
            positions.push_back(word);
            continue;
        }
        const std::size_t equals = word.find('=');
        std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
        std::string value;
        if (equals != std::string::npos) {
            value = word.substr(equals + 1);
        } else if (i + 1 < words.size()) {
            value = words[++i];
        } else {
            return std::unexpected(fmt::format("--{} wants a value", name));
        }
        if (!out.named.emplace(name, value).second) return std::unexpected(fmt::format("--{} is given twice", name));
    }
    if (positions.size() > 2)
        return std::unexpected(
            fmt::format("'{}' is one word too many; parameters are given as --NAME VALUE", positions[2]));
    if (!positions.empty()) out.artifact = positions[0];
    if (positions.size() > 1) out.chain = positions[1];
    return out;
}

std::string signature(const ir::Module& module, const ir::Chain& chain) {
    std::vector<std::string> params;
    for (const auto& param : chain.params) {
        switch (param.kind) {
            case ir::Param::Kind::file:
                params.push_back(fmt::format("{}: file {}", param.name, module.files[param.file_class].name));
                break;
            case ir::Param::Kind::scalar: params.push_back(fmt::format("{}: {}", param.name, type_name(param))); break;
            case ir::Param::Kind::bytes:
                params.push_back(fmt::format("{}: bytes(max {})", param.name, param.max));
                break;
        }
    }
    const std::string result = chain.result == ir::ResultKind::scalar
                                   ? fmt::format("{}{}", chain.result_signed ? "i" : "u", chain.result_bits)
                                   : fmt::format("bytes(max {})", chain.result_max);
    return fmt::format("{}({}) -> {}", chain.name, fmt::join(params, ", "), result);
}

std::string suggestion(std::string_view word, const std::vector<std::string>& names, std::string_view what) {
    if (const auto near = diag::nearest(word, names)) return fmt::format("; did you mean '{}'?", *near);
    if (names.empty()) return fmt::format("; there are no {}", what);
    return fmt::format("; the {} are {}", what, fmt::join(names, ", "));
}

}  // namespace chainio::tool
