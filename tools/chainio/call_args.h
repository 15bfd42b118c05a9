// Arguments of a chain as people write them on a command line or in a file of keys.
#pragma once
#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::tool {

struct Value {
    std::uint64_t scalar = 0;
    std::vector<std::uint8_t> bytes;
};

// `42`, `-7`, `0x2a`; checked against the parameter's width and sign.
std::expected<std::uint64_t, std::string> parse_scalar(const ir::Param& param, std::string_view text);
// Text as it is, `hex:00ff`, or `text:…` for text that begins with one of these words.
std::expected<std::vector<std::uint8_t>, std::string> parse_bytes(const ir::Param& param, std::string_view text);
// These bytes, whatever they begin with.
std::expected<Value, std::string> bytes_value(const ir::Param& param, std::string_view text);
// The bytes that these digits say.
std::expected<Value, std::string> hex_value(const ir::Param& param, std::string_view digits);
std::expected<Value, std::string> parse_value(const ir::Param& param, std::string_view text);

// What the words behind `chainio call` say: artifact and chain, then parameters by name.
struct CallWords {
    std::string artifact, chain;
    std::map<std::string, std::string> named;  // --NAME VALUE and --NAME=VALUE
};
std::expected<CallWords, std::string> read_words(const std::vector<std::string>& words);

// "lookup(db: file pages, key: u64) -> bytes(max 64)"
std::string signature(const ir::Module& module, const ir::Chain& chain);

// ", did you mean 'lookup'?" when there is a name near, else what there is.
std::string suggestion(std::string_view word, const std::vector<std::string>& names, std::string_view what);

}  // namespace chainio::tool
