#include "tools/chainio/testing/yaml_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <set>

#include "compiler/diag/diag.h"

namespace chainio::testing {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};
constexpr std::array<Unit, 7> kUnits{{{"B", 1},
                                      {"KiB", 1024},
                                      {"MiB", 1048576},
                                      {"GiB", 1073741824},
                                      {"KB", 1000},
                                      {"MB", 1000000},
                                      {"GB", 1000000000}}};

struct Integer {
    bool is_negative = false;
    std::uint64_t value = 0;  // in two's complement
};

std::optional<Integer> parse_integer(std::string text) {
    std::erase(text, '_');
    const bool negative = text.starts_with('-');
    std::string_view digits = std::string_view(text).substr(negative ? 1 : 0);
    const int base = digits.starts_with("0x") || digits.starts_with("0X") ? 16 : 10;
    if (base == 16) digits.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc{} || digits.empty()) return std::nullopt;
    const std::string_view unit(end, digits.data() + digits.size());
    if (!unit.empty()) {
        const auto* found = std::ranges::find(kUnits, unit, &Unit::name);
        if (found == kUnits.end() || value > std::numeric_limits<std::uint64_t>::max() / found->factor)
            return std::nullopt;
        value *= found->factor;
    }
    if (!negative) return Integer{false, value};
    if (value > std::uint64_t{1} << 63) return std::nullopt;
    return Integer{value != 0, 0 - value};
}

Bytes from_hex(const YAML::Node& node) {
    Bytes bytes;
    int high = -1;
    for (const char c : read_string(node, "hex")) {
        if (std::isspace(static_cast<unsigned char>(c)) != 0) continue;
        if (std::isxdigit(static_cast<unsigned char>(c)) == 0)
            wrong(node, fmt::format("'{}' is not a hexadecimal digit", c));
        const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        if (high < 0) {
            high = digit;
        } else {
            bytes.push_back(static_cast<std::uint8_t>(high * 16 + digit));
            high = -1;
        }
    }
    if (high >= 0) wrong(node, "an odd number of hexadecimal digits; every byte takes two");
    return bytes;
}

// As a number of that many bits, or a negative one in two's complement.
bool fits(std::uint64_t value, int bits) {
    return bits == 64 || value >> bits == 0 || static_cast<std::int64_t>(value) >> (bits - 1) == -1;
}

void append_integers(const YAML::Node& node, std::string_view type, Bytes& bytes) {
    int bits = 0;
    const std::string_view digits = type.substr(1, type.find_first_not_of("0123456789", 1) - 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    const bool big = type.ends_with("be");
    const auto values =
        node.IsSequence() ? read_integers(node, type) : std::vector<std::uint64_t>{read_integer(node, type)};
    for (const std::uint64_t value : values) {
        if (!fits(value, bits))
            wrong(node,
                  fmt::format("{} does not fit {}",
                              static_cast<std::int64_t>(value) < 0 ? std::to_string(static_cast<std::int64_t>(value))
                                                                   : std::to_string(value),
                              type));
        for (int i = 0; i < bits / 8; i++) {
            bytes.push_back(static_cast<std::uint8_t>(value >> (big ? bits - 8 * (i + 1) : 8 * i)));
        }
    }
}

void append_part(const std::string& key, const YAML::Node& node, Bytes& bytes) {
    static constexpr std::array<std::string_view, 11> kIntegers{"u8",    "u16le", "u16be", "u24le", "u24be", "u32le",
                                                                "u32be", "u48le", "u48be", "u64le", "u64be"};
    Bytes part;
    if (key == "hex") {
        part = from_hex(node);
    } else if (key == "text") {
        const std::string text = read_string(node, "text");
        part.assign(text.begin(), text.end());
    } else if (key == "zeros") {
        const std::uint64_t count = read_count(node, "zeros");
        if (count > kMostBytes) wrong(node, "more than 16 MiB of zeros");
        part.resize(count);
    } else if (std::ranges::find(kIntegers, key) != kIntegers.end()) {
        append_integers(node, key, part);
    } else {
        wrong(node, fmt::format("'{}' is no way to write bytes; there are text, hex, zeros, {}", key,
                                fmt::join(kIntegers, ", ")));
    }
    if (bytes.size() + part.size() > kMostBytes)
        wrong(node, "more than 16 MiB of bytes in a test file; make a file with `commands`");
    bytes.insert(bytes.end(), part.begin(), part.end());
}

}  // namespace

void wrong(const YAML::Node& at, const std::string& message) { throw YAML::Exception(at.Mark(), message); }

namespace {

// yaml-cpp has nothing against such a key, of which only one value would count.
void check_unique(const YAML::Node& map) {
    std::set<std::string> seen;
    for (const auto& entry : map) {
        if (!seen.insert(entry.first.Scalar()).second)
            wrong(entry.first, fmt::format("the key '{}' is given twice; keep one of them", entry.first.Scalar()));
    }
}

}  // namespace

void check_named(const YAML::Node& map, std::string_view what) {
    if (!map.IsMap()) wrong(map, fmt::format("{} is a map of names: {{ NAME: … }}", what));
    check_unique(map);
}

void check_keys(const YAML::Node& map, std::initializer_list<std::string_view> known, std::string_view what) {
    if (!map.IsMap()) wrong(map, fmt::format("{} is a map of {}", what, fmt::join(known, ", ")));
    check_unique(map);
    for (const auto& entry : map) {
        const std::string key = entry.first.Scalar();
        if (std::ranges::find(known, key) != known.end()) continue;
        const auto near = diag::nearest(key, std::vector<std::string>(known.begin(), known.end()));
        wrong(entry.first, fmt::format("{} has no '{}'{}", what, key,
                                       near ? fmt::format("; did you mean '{}'?", *near)
                                            : fmt::format("; it has {}", fmt::join(known, ", "))));
    }
}

std::string read_string(const YAML::Node& node, std::string_view what) {
    if (!node.IsScalar()) wrong(node, fmt::format("{} is a text", what));
    return node.Scalar();
}

std::vector<std::string> read_strings(const YAML::Node& node, std::string_view what) {
    if (node.IsScalar()) return {node.Scalar()};
    if (!node.IsSequence()) wrong(node, fmt::format("{} is a list of texts", what));
    std::vector<std::string> texts;
    for (const auto& item : node) texts.push_back(read_string(item, what));
    return texts;
}

std::uint64_t read_integer(const YAML::Node& node, std::string_view what) {
    const std::string text = read_string(node, what);
    const auto value = parse_integer(text);
    if (!value) wrong(node, fmt::format("{} is an integer (12, -3, 0x1f, 4KiB), not '{}'", what, text));
    return value->value;
}

std::uint64_t read_count(const YAML::Node& node, std::string_view what) {
    const std::string text = read_string(node, what);
    if (const auto value = parse_integer(text); value && value->is_negative)
        wrong(node, fmt::format("{} counts from 0 on, and is not '{}'", what, text));
    return read_integer(node, what);
}

std::vector<std::uint64_t> read_integers(const YAML::Node& node, std::string_view what) {
    if (!node.IsSequence()) wrong(node, fmt::format("{} is a list of integers", what));
    std::vector<std::uint64_t> values;
    for (const auto& item : node) values.push_back(read_integer(item, what));
    return values;
}

Bytes read_bytes(const YAML::Node& node, std::string_view what) {
    Bytes bytes;
    if (node.IsScalar()) {
        bytes.assign(node.Scalar().begin(), node.Scalar().end());
    } else if (node.IsMap()) {
        for (const auto& entry : node) append_part(entry.first.Scalar(), entry.second, bytes);
    } else if (node.IsSequence()) {
        for (const auto& item : node) {
            const Bytes part = read_bytes(item, what);
            bytes.insert(bytes.end(), part.begin(), part.end());
        }
    } else {
        wrong(node, fmt::format("{} is a text, {{ hex: … }}, {{ u32le: 5 }}, or a list of these", what));
    }
    return bytes;
}

Value read_value(const YAML::Node& node, std::string_view what) {
    Value value;
    // A number in quotes is a text: YAML says which by the tag "!" of quoted scalars.
    if (node.IsScalar() && node.Tag() != "!") {
        if (const auto integer = parse_integer(node.Scalar())) {
            value.is_negative = integer->is_negative;
            value.integer = integer->value;
            return value;
        }
    }
    value.is_bytes = true;
    value.bytes = read_bytes(node, what);
    return value;
}

}  // namespace chainio::testing
