#include "tools/chainio/results.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/diag/utf8.h"
#include "runtime/spec/outcomes.h"

namespace chainio::tool {
namespace {

std::string scalar_text(const ir::Chain& chain, std::uint64_t value) {
    const unsigned bits = chain.result_bits == 0 ? 64 : chain.result_bits;
    const std::uint64_t mask = bits >= 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1;
    if (!chain.result_signed) return fmt::format("{}", value & mask);
    const unsigned shift = 64 - bits;
    return fmt::format("{}", static_cast<std::int64_t>(value << shift) >> shift);
}

}  // namespace

nlohmann::ordered_json text_json(const std::string& text) {
    try {
        static_cast<void>(nlohmann::json(text).dump());
        return text;
    } catch (const nlohmann::json::exception&) {
        return nullptr;
    }
}

Result keep(const engine::Completion& completion) {
    return {completion.outcome,
            completion.scalar,
            {completion.bytes.begin(), completion.bytes.end()},
            completion.hops,
            completion.ns};
}

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const std::uint8_t byte : bytes) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

std::string printable(std::span<const std::uint8_t> bytes) {
    std::string text;
    text.reserve(bytes.size());
    for (const std::uint8_t byte : bytes) {
        if (byte == '\\')
            text += "\\\\";
        else if (byte == '\n')
            text += "\\n";
        else if (byte == '\t')
            text += "\\t";
        else
            text += static_cast<char>(byte);
    }
    return diag::escaped(text);
}

std::string value_text(const ir::Chain& chain, const Result& result, Output output) {
    if (chain.result == ir::ResultKind::scalar) {
        if (output != Output::raw) return scalar_text(chain, result.scalar);
        std::string bytes;
        for (unsigned bit = 0; bit < std::max<unsigned>(chain.result_bits, 8); bit += 8) {
            bytes += static_cast<char>(result.scalar >> bit);
        }
        return bytes;
    }
    switch (output) {
        case Output::hex: return hexadecimal(result.bytes);
        case Output::raw: return {result.bytes.begin(), result.bytes.end()};
        case Output::text: break;
    }
    return printable(result.bytes);
}

std::string result_json(const ir::Module& module, const ir::Chain& chain, const Result& result, const std::string* args,
                        const nlohmann::ordered_json* origin) {
    nlohmann::ordered_json json;
    if (args != nullptr) {
        json["args"] = text_json(*args);
        if (json["args"].is_null())
            json["args_hex"] = hexadecimal({reinterpret_cast<const std::uint8_t*>(args->data()), args->size()});
    }
    json["outcome"] = spec::outcome_name(result.outcome, module.reasons);
    if (result.outcome == CIO_OK) {
        if (chain.result == ir::ResultKind::scalar) {
            json["value"] = nlohmann::json::parse(scalar_text(chain, result.scalar));
        } else {
            json["hex"] = hexadecimal(result.bytes);
            json["text"] = text_json({result.bytes.begin(), result.bytes.end()});
        }
    }
    json["hops"] = result.hops;
    json["ns"] = result.ns;
    if (origin != nullptr) json["origin"] = *origin;
    return json.dump();
}

}  // namespace chainio::tool
