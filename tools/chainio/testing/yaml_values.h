// Values of a YAML test file, with errors that name the place.
#pragma once
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tools/chainio/testing/suite.h"

namespace chainio::testing {

// Thrown and caught inside of the reader only, as yaml-cpp's own errors are.
[[noreturn]] void wrong(const YAML::Node& at, const std::string& message);

// Refuses keys that are not in `known`, with the nearest that is, and those that are given twice.
void check_keys(const YAML::Node& map, std::initializer_list<std::string_view> known, std::string_view what);

// For a map whose keys are names of the author's: it is one, and has none twice.
void check_named(const YAML::Node& map, std::string_view what);

std::string read_string(const YAML::Node& node, std::string_view what);
std::vector<std::string> read_strings(const YAML::Node& node, std::string_view what);
// Decimal, 0x…, negative, or with a unit of the language (4KiB).
std::uint64_t read_integer(const YAML::Node& node, std::string_view what);
// Of bytes or of anything: one that is below 0 would be read as very many.
std::uint64_t read_count(const YAML::Node& node, std::string_view what);
std::vector<std::uint64_t> read_integers(const YAML::Node& node, std::string_view what);
// "text", { text: … }, { hex: … }, or { u64le: [1, 2], … } (several keys follow one another).
Bytes read_bytes(const YAML::Node& node, std::string_view what);
Value read_value(const YAML::Node& node, std::string_view what);

}  // namespace chainio::testing
