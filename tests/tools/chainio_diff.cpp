// chainio-diff: random and real blocks through every engine of an artifact, which all have to say the same.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "tests/support/differential.h"
#include "tests/tools/verified.h"

namespace {

using namespace chainio::tests;

constexpr int kDiffers = 1, kUsage = 2, kSystem = 3;

std::vector<std::uint8_t> read_bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// FILE[:SIZE[:FROM]]: the file cut into pages of SIZE (4096 by default) bytes from byte FROM on; at most 256 of them,
// spread out.
std::string add_pages(const std::string& text, Inputs& inputs) {
    std::string path = text;
    std::uint64_t numbers[2] = {4096, 0};
    std::vector<std::string> parts = CLI::detail::split(text, ':');
    for (std::size_t i = 1; i < parts.size() && i < 3; i++) {
        auto parsed = std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), numbers[i - 1]);
        if (parsed.ec != std::errc() || *parsed.ptr != '\0') return text + ": FILE:SIZE:FROM with numbers is meant";
    }
    path = parts[0];
    if (numbers[0] == 0 || numbers[0] > 65536) return text + ": a page has 1 to 65536 bytes";
    std::vector<std::uint8_t> bytes = read_bytes(path);
    if (bytes.size() <= numbers[1]) return path + " cannot be read, or is shorter than that";
    std::uint64_t count = (bytes.size() - numbers[1] + numbers[0] - 1) / numbers[0], stride = count / 256 + 1;
    for (std::uint64_t i = 0; i < count; i += stride) {
        std::uint64_t at = numbers[1] + i * numbers[0], end = std::min<std::uint64_t>(at + numbers[0], bytes.size());
        inputs.pages.push_back(
            {{bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin() + static_cast<std::ptrdiff_t>(end)}, at});
    }
    return "";
}

// NAME=V,V,…
std::string add_values(const std::string& text, Inputs& inputs) {
    std::size_t equals = text.find('=');
    if (equals == text.npos) return text + ": NAME=VALUE,VALUE… is meant";
    for (const std::string& part : CLI::detail::split(text.substr(equals + 1), ',')) {
        bool negative = part.starts_with('-');
        std::uint64_t value = 0;
        const char* from = part.data() + (negative ? 1 : 0);
        auto parsed = std::from_chars(from, part.data() + part.size(), value);
        if (parsed.ec != std::errc() || *parsed.ptr != '\0') return text + ": `" + part + "` is not a number";
        inputs.values[text.substr(0, equals)].push_back(negative ? 0 - value : value);
    }
    return "";
}

// NAME=HEX,HEX…
std::string add_bytes(const std::string& text, Inputs& inputs) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos) return text + ": NAME=HEX,HEX… is meant";
    for (const std::string& part : CLI::detail::split(text.substr(equals + 1), ',')) {
        std::vector<std::uint8_t> bytes(part.size() / 2);
        for (std::size_t i = 0; i < bytes.size(); i++) {
            const char* from = part.data() + 2 * i;
            if (std::from_chars(from, from + 2, bytes[i], 16).ptr != from + 2) bytes.clear();
        }
        if (bytes.size() * 2 != part.size()) return text + ": `" + part + "` is not in hexadecimal";
        inputs.bytes[text.substr(0, equals)].push_back(std::move(bytes));
    }
    return "";
}

void print_report(const DifferentialReport& report, double seconds) {
    std::size_t widest = 7;
    for (const ProgramReport& p : report.programs) widest = std::max(widest, p.name.size());
    fmt::print("{:<{}}  {:>9}  {:>12}  {:>12}  outcomes\n", "program", widest, "blocks", "most counted", "bound");
    for (const ProgramReport& p : report.programs) {
        fmt::print("{:<{}}  {:>9}  {:>12}  {:>12} ", p.name, widest, p.blocks, p.most_executed, p.bound);
        for (const auto& [name, count] : p.outcomes) fmt::print(" {} {}", name, count);
        fmt::print("\n");
        if (!p.disagreement.empty()) fmt::print("error: {}: {}\n", p.name, p.disagreement);
    }
    std::size_t engines = report.kernel_skipped.empty() ? 4 : 3;
    if (!report.kernel_skipped.empty())
        fmt::print("skipped: {} blocks in the kernel: {}\n", report.blocks(), report.kernel_skipped);
    fmt::print("{}: {} blocks through {} engines in {:.1f} s, {:.0f} blocks/s\n",
               report.agreed() ? "agreed" : "DIFFERENT", report.blocks(), engines, seconds,
               static_cast<double>(report.blocks()) / std::max(seconds, 1e-9));
}

// Programs that do not load together are loaded one by one, to see which of them does not.
void print_verified(const std::string& artifact, const DifferentialReport* report) {
    using namespace chainio::backends;
    VerifyResult result;
    if (report == nullptr) {
        result = verify(read_bytes(artifact));
    } else {
        result.loaded = report->verified;
        result.permitted = report->kernel_skipped.empty();
        result.why = report->kernel_skipped;
    }
    fmt::print("{}\n", line_of(described(artifact, result)));
}

int run(int argc, char** argv) {
    std::string artifact;
    std::vector<std::string> pages, values, bytes;
    DifferentialOptions options;
    bool no_kernel = false, quiet = false;
    CLI::App app("Runs random and real blocks through every engine of an artifact and compares them.", "chainio-diff");
    app.add_option("artifact", artifact, "what chainc wrote")->required();
    app.add_option("--blocks", options.blocks, "cases for each program")->capture_default_str();
    app.add_option("--first", options.first, "number of the first case")->capture_default_str();
    app.add_option("--seed", options.seed)->capture_default_str();
    app.add_option("--only", options.only, "one program");
    app.add_option("--page", pages, "FILE[:SIZE[:FROM]]: real pages, to be mutated");
    app.add_option("--arg", values, "NAME=V,V…: values for a parameter, a header field (file.field) or the tag");
    app.add_option("--bytes", bytes, "NAME=HEX,HEX…: values for a parameter of bytes");
    app.add_flag("--no-kernel", no_kernel, "leave out BPF_PROG_TEST_RUN");
    app.add_flag("--quiet", quiet, "no progress");
    app.add_flag("--verified", options.verified, "first a line of JSON: what the verifier said of each program");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kUsage;
    }
    options.kernel = !no_kernel;
    Inputs inputs;
    std::string wrong;
    for (std::size_t i = 0; i < pages.size() && wrong.empty(); i++) wrong = add_pages(pages[i], inputs);
    for (std::size_t i = 0; i < values.size() && wrong.empty(); i++) wrong = add_values(values[i], inputs);
    for (std::size_t i = 0; i < bytes.size() && wrong.empty(); i++) wrong = add_bytes(bytes[i], inputs);
    if (!wrong.empty()) {
        fmt::print(stderr, "chainio-diff: {}\n", wrong);
        return kUsage;
    }
    bool show = !quiet && isatty(STDERR_FILENO) != 0;
    auto start = std::chrono::steady_clock::now();
    auto report = run_differential(read_bytes(artifact), inputs, options,
                                   [&](const std::string& program, std::uint64_t done, std::uint64_t of) {
                                       if (show) fmt::print(stderr, "\r\x1b[K{} {}/{}", program, done, of);
                                   });
    if (show) fmt::print(stderr, "\r\x1b[K");
    if (options.verified) print_verified(artifact, report ? &*report : nullptr);
    if (!report) {
        fmt::print(stderr, "chainio-diff: {}: {}\n", artifact, report.error());
        return kSystem;
    }
    print_report(*report, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return report->agreed() ? 0 : kDiffers;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "chainio-diff: {}\n", error.what());
        return kSystem;
    }
}
