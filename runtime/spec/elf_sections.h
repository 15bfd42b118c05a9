// The sections that ChainIO puts into an artifact, found in any bytes: the file is not trusted.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chainio::spec {

inline constexpr std::string_view kSpecSection = ".chainio.spec";
inline constexpr std::string_view kNativePrefix = ".chainio.native.";
inline constexpr std::string_view kKernelSection = ".chainio.kernel";
inline constexpr std::string_view kServeSection = ".chainio.serve";

struct NativeSection {
    std::string arch;  // "x86_64"
    std::span<const std::uint8_t> bytes;
};

// Views into the bytes that were given.
struct ElfSections {
    std::span<const std::uint8_t> spec;
    std::vector<NativeSection> natives;
    std::span<const std::uint8_t> serve;    // the one that answers services; empty: there is none
    std::span<const std::uint8_t> kernel;   // the kernel engine's BPF object; empty: there is none
    std::vector<std::string> bpf_programs;  // names of the SEC("syscall") functions
};

// The error says what is wrong with the file, without its name.
std::expected<ElfSections, std::string> read_sections(std::span<const std::uint8_t> file);

}  // namespace chainio::spec
