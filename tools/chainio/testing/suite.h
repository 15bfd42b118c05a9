// A test file of `chainio test`, read from YAML; docs/testing-your-specs.md describes it.
#pragma once
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace chainio::testing {

using Bytes = std::vector<std::uint8_t>;

struct Patch {
    std::uint64_t at = 0;
    Bytes bytes;
};

// A file that the cases read: one on the disk, bytes written in the test file, or a changed copy of another.
struct FileSource {
    std::string path;  // empty: `bytes`, or `of`
    Bytes bytes;
    std::string of;                     // name of the file that this is a copy of
    std::optional<std::uint64_t> size;  // the copy's length: cut off, or filled up with zeros
    std::vector<Patch> patches;
};

struct Value {
    bool is_bytes = false;
    bool is_negative = false;   // below 0, and
    std::uint64_t integer = 0;  // the two's complement of it
    Bytes bytes;
};

struct ExpectedRead {
    std::optional<std::string> file;  // the chain's parameter
    std::optional<std::uint64_t> at, length;
};

struct ExpectedPrefetch {
    std::optional<std::string> chain;  // `prefetch via`
    std::optional<std::vector<std::uint64_t>> args;
    std::optional<std::string> files;    // the class of a sibling or of a path
    std::optional<std::string> sibling;  // the ending
    std::optional<Bytes> path;
    std::optional<std::uint64_t> at, length;
    std::optional<std::uint64_t> mark;    // `mark … with`
    std::optional<std::string> mark_via;  // the chain
    bool same = false;                    // the file of the event
};

struct Expected {
    std::string outcome = "ok";
    std::string place = {};  // LINE:COLUMN of it
    std::optional<std::uint64_t> value = {};
    std::optional<Bytes> bytes = {}, starts_with = {};
    std::optional<std::uint64_t> length = {};
    std::optional<std::vector<std::uint64_t>> integers = {};  // the result is these, 8 bytes little-endian each
    std::optional<std::vector<ExpectedRead>> reads = {};
    std::optional<std::uint64_t> read_count = {}, most_reads = {};
    std::optional<std::vector<ExpectedPrefetch>> prefetches = {};
    std::optional<std::uint64_t> prefetch_count = {};
};

struct Event {         // what an unmodified program has just read
    std::string file;  // empty: `bytes`
    Bytes bytes;
    std::uint64_t at = 0;
    std::optional<std::uint64_t> length, total;
    std::uint64_t mark = 0, last_mark = 0;  // of the place, and of where the chain last said something
};

struct Case {
    std::string name, chain;
    unsigned line = 0;
    std::map<std::string, std::string> files;  // parameter: file
    std::map<std::string, Value> args;
    std::optional<Event> event;
    Expected expected;
};

struct Suite {
    std::string path;  // of the test file
    std::string spec;
    std::vector<std::string> options;   // of chainc
    std::vector<std::string> needs;     // programs without which the file is skipped
    std::vector<std::string> commands;  // run in the temporary folder before the cases
    std::map<std::string, FileSource> files;
    std::vector<Case> cases;
};

struct SuiteError {
    std::string message;  // `FILE:LINE:COLUMN: what is wrong and what is meant`
    bool system = false;  // the file cannot be read
};

std::expected<Suite, SuiteError> read_suite(const std::string& path);

std::string quoted(const Bytes& bytes);  // as text where it is text, else in hexadecimal; shortened when long

}  // namespace chainio::testing
