// The command line of chainc.
#pragma once
#include <expected>
#include <map>
#include <string>
#include <vector>

#include "compiler/diag/diag.h"

namespace chainio::chainc {

enum class Format { text, json, sarif };
enum class FmtMode { off, print, in_place, check };
enum class ReportMode { off, table, json };
enum class VerifyMode { off, on, log };

struct Options {
    std::vector<std::string> inputs;
    std::string output;  // empty: not given
    std::vector<std::string> include_dirs;
    std::vector<std::string> defines;   // NAME=VALUE, as given
    std::vector<std::string> warnings;  // what follows -W, as given
    std::vector<std::string> emit;      // ast ir c config dot bpf chain yaml; empty: not given
    int optimize = 2;
    bool check = false;
    FmtMode fmt = FmtMode::off;
    ReportMode report = ReportMode::off;
    VerifyMode verify = VerifyMode::off;
    std::string explain;
    Format format = Format::text;
    std::string source_map;
    std::string target;
    std::vector<std::string> native;  // empty: the host's architecture; "none": no native code
    std::string stdlib;
    std::string clang;
    bool write_deps = false;
    std::string deps_file;
    bool time_report = false;
    std::string colour = "auto";
};

struct ParseStop {  // nothing to compile: help or version was asked for, or the usage is wrong
    int exit_code = 0;
    std::string to_stdout, to_stderr;
};
std::expected<Options, ParseStop> parse_options(int argc, const char* const* argv);

// Values that make no sense are reported without a place.
diag::WarningOptions warning_options(const Options&, diag::Diagnostics& problems);

}  // namespace chainio::chainc
