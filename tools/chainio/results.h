// Results of chains, printed as text, hexadecimal, raw bytes or JSON.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"

namespace chainio::tool {

enum class Output { text, hex, raw };

// A result that outlives the engine's next reap.
struct Result {
    std::uint32_t outcome = 0;
    std::uint64_t scalar = 0;
    std::vector<std::uint8_t> bytes;
    std::uint32_t hops = 0;
    std::uint64_t ns = 0;
};
Result keep(const engine::Completion& completion);

// The value alone: an integer in decimal (raw: its little-endian bytes), bytes as asked for.
std::string value_text(const ir::Chain& chain, const Result& result, Output output);
// {"outcome": …, "value": …} or, for bytes, "hex" and, when they are printable UTF-8, "text"; with a line of --keys,
// which may be empty, that one as "args". `origin`: what origin_json() gave; null: nothing is known of it.
std::string result_json(const ir::Module& module, const ir::Chain& chain, const Result& result, const std::string* args,
                        const nlohmann::ordered_json* origin = nullptr);

// JSON has text in UTF-8 alone: what is none has no text there (null).
nlohmann::ordered_json text_json(const std::string& text);

std::string printable(std::span<const std::uint8_t> bytes);  // non-printing bytes as \xNN
std::string hexadecimal(std::span<const std::uint8_t> bytes);

}  // namespace chainio::tool
