// The places in a program's files where the probes of a spec go.
#pragma once
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "runtime/probe/arguments.h"
#include "runtime/probe/libraries.h"

namespace chainio::probe {

struct Site {
    std::string file;             // empty for a system call
    std::uint64_t offset = 0;     // into the file; of a system call, its number
    std::uint64_t semaphore = 0;  // offset of the USDT's counter in the file; 0: it has none
    Cost cost = Cost::stepped;
    cio_probe_site arguments{};
};

// Usually one; a USDT that the compiler has copied into several places has as many. The error says what is there
// instead.
std::expected<std::vector<Site>, std::string> find_sites(const ir::Probe& probe, const Libraries& libraries);

// Parts of it, for tests: the sites in one file's bytes, whose name is for messages.
std::expected<std::vector<Site>, std::string> usdt_sites(const ir::Probe& probe, std::string_view provider,
                                                         std::string_view name, std::span<const std::uint8_t> bytes,
                                                         const std::string& file);
std::expected<Site, std::string> function_site(const ir::Probe& probe, std::string_view symbol,
                                               std::span<const std::uint8_t> bytes, const std::string& file);
std::expected<Site, std::string> system_call_site(const ir::Probe& probe);
// Empty: the kernel's header did not know it when ChainIO was built.
std::string_view system_call_name(std::uint64_t number);

}  // namespace chainio::probe
