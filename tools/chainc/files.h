// Reading sources and writing outputs.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"

namespace chainio::chainc {

// Above what the front ends accept (4 MiB); they report it. What is longer still is cut here, so that memory stays
// bounded.
inline constexpr std::size_t most_read = 5 << 20;

struct ReadError {
    bool missing = false;  // nothing of that name
    std::string reason;
};
// `name` "-" is standard input.
std::expected<std::string, ReadError> read_source(const std::string& name);

// Whether it names standard input or output or an open descriptor, which is used as it stands.
bool is_descriptor(std::string_view path);

struct WriteError {
    std::string reason;
    int number = 0;  // errno of it; 0: it is none of a call's
};
// All or nothing: a temporary file beside `path`, then a rename. "-" is standard output, and what is not a regular file
// (a device, a pipe) is written to directly. What a file that was replaced had and this one could not be given, in
// words.
using Written = std::expected<std::vector<std::string>, WriteError>;
// What helps, by the reason. `otherwise` helps against what has no remedy of its own; where it names another place to
// write to, against all.
std::string remedy_of(const WriteError& error, const std::string& otherwise, bool goes_elsewhere = true);
Written write_output(const std::string& path, std::span<const std::uint8_t> bytes);
Written write_output(const std::string& path, std::string_view text);
// Warns of it.
void report_lost(diag::Diagnostics& diagnostics, const std::string& path, const std::vector<std::string>& lost);

// Opens whatever of descriptors 0-2 is closed in a way that fails on use, so that a file opened later does not get such
// a number and receive what was meant for the terminal.
void reserve_standard_descriptors();

}  // namespace chainio::chainc
