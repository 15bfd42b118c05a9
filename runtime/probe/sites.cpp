#include "runtime/probe/sites.h"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/diag/diag.h"
#include "runtime/probe/elf_view.h"

namespace chainio::probe {
namespace {

constexpr std::size_t kMostSites = 64;    // of one probe
constexpr std::size_t kLongestCode = 16;  // bytes of an instruction, and of a marker before it

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
    const auto near = diag::nearest(word, names);
    return near ? fmt::format(", did you mean `{}`?", *near) : "";
}

std::expected<void, std::string> check_machine(const ElfView& elf, const std::string& file) {
    if (elf.machine() == EM_X86_64) return {};
    return std::unexpected(fmt::format("{} is not for x86-64, the only machine that this version probes", file));
}

// Fills in the cost of the code at `offset`, and moves behind an `endbr64`.
std::expected<void, std::string> look_at_code(const ElfView& elf, const std::string& file, Site& site) {
    const Instruction instruction = classify(elf.bytes_at(site.offset, kLongestCode));
    if (instruction.cost == Cost::refused)
        return std::unexpected(
            fmt::format("{} at {:#x}: the kernel does not probe the instruction there; choose another function", file,
                        site.offset));
    site.cost = instruction.cost;
    site.offset += instruction.skip;
    return {};
}

std::expected<void, std::string> take_arguments(const ir::Probe& probe, std::string_view text, Site& site) {
    const auto described = split_arguments(text);
    if (described.size() < probe.args.size())
        return std::unexpected(fmt::format("it has {} argument{} (\"{}\"), and the spec declares {}", described.size(),
                                           described.size() == 1 ? "" : "s", text, probe.args.size()));
    for (std::size_t k = 0; k < probe.args.size(); k++) {
        auto argument = parse_argument(described[k]);
        if (!argument) return std::unexpected(fmt::format("argument `{}`: {}", probe.args[k].name, argument.error()));
        site.arguments.args[k] = *argument;
    }
    return {};
}

std::vector<std::string> sorted(std::vector<std::string> names) {
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

// What a message shows of many names.
std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 12;
    if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
    return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + most, ", "), names.size() - most);
}

// Why no file of the program has the probe.
std::string usdt_missing(std::string_view provider, std::string_view name, const Libraries& libraries,
                         const std::vector<Library>& looked) {
    std::vector<std::string> providers, names;
    for (const Library& library : looked) {
        auto file = MappedFile::open(library.path);
        if (!file) continue;
        auto elf = ElfView::read(file->bytes());
        if (!elf) continue;
        for (const UsdtNote& note : elf->notes()) {
            providers.emplace_back(note.provider);
            if (note.provider == provider) names.emplace_back(note.name);
        }
    }
    providers = sorted(providers);
    names = sorted(names);
    if (!names.empty())
        return fmt::format("provider `{}` has no probe `{}`{}; it has {}", provider, name, did_you_mean(name, names),
                           some_of(names));
    if (providers.empty())
        return fmt::format("neither {} nor its libraries have USDT probes", libraries.program().name);
    return fmt::format("there is no provider `{}`{}; {} and its libraries have {}", provider,
                       did_you_mean(provider, providers), libraries.program().name, some_of(providers));
}

std::expected<std::vector<Site>, std::string> find_usdt(const ir::Probe& probe, const Libraries& libraries) {
    // "provider:name", or "library:provider:name" for a library that the program loads later.
    std::string_view text = probe.site;
    std::vector<Library> looked = libraries.parts();
    if (std::ranges::count(text, ':') == 2) {
        auto library = libraries.find(text.substr(0, text.find(':')));
        if (!library) return std::unexpected(library.error());
        looked = {*library};
        text.remove_prefix(text.find(':') + 1);
    }
    const auto provider = text.substr(0, text.find(':')), name = text.substr(text.find(':') + 1);
    std::vector<Site> all;
    for (const Library& library : looked) {
        auto file = MappedFile::open(library.path);
        if (!file) return std::unexpected(file.error());
        auto sites = usdt_sites(probe, provider, name, file->bytes(), library.path);
        if (!sites) return std::unexpected(sites.error());
        all.insert(all.end(), sites->begin(), sites->end());
    }
    if (all.empty()) return std::unexpected(usdt_missing(provider, name, libraries, looked));
    if (all.size() > kMostSites)
        return std::unexpected(
            fmt::format("it is at {} places of the program; the limit is {}", all.size(), kMostSites));
    return all;
}

}  // namespace

std::expected<std::vector<Site>, std::string> usdt_sites(const ir::Probe& probe, std::string_view provider,
                                                         std::string_view name, std::span<const std::uint8_t> bytes,
                                                         const std::string& file) {
    std::vector<Site> out;
    auto elf = ElfView::read(bytes);
    if (!elf) return out;  // not something that a loader would take
    for (const UsdtNote& note : elf->notes()) {
        if (note.provider != provider || note.name != name) continue;
        if (auto machine = check_machine(*elf, file); !machine) return std::unexpected(machine.error());
        const std::uint64_t moved = elf->notes_base() && note.base != 0 ? *elf->notes_base() - note.base : 0;
        Site site;
        site.file = file;
        const auto offset = elf->offset_of(note.address + moved, true);
        const auto semaphore =
            note.semaphore != 0 ? elf->offset_of(note.semaphore + moved, false) : std::optional<std::uint64_t>(0);
        if (!offset || !semaphore)
            return std::unexpected(
                fmt::format("{}: its note names {:#x}, where the file has no code", file, note.address));
        site.offset = *offset;
        site.semaphore = *semaphore;
        if (auto taken = take_arguments(probe, note.arguments, site); !taken)
            return std::unexpected(fmt::format("{}: {}", file, taken.error()));
        if (auto looked = look_at_code(*elf, file, site); !looked) return std::unexpected(looked.error());
        out.push_back(std::move(site));
    }
    return out;
}

std::expected<Site, std::string> function_site(const ir::Probe& probe, std::string_view symbol,
                                               std::span<const std::uint8_t> bytes, const std::string& file) {
    auto elf = ElfView::read(bytes);
    if (!elf) return std::unexpected(fmt::format("{}: {}", file, elf.error()));
    if (auto machine = check_machine(*elf, file); !machine) return std::unexpected(machine.error());
    const auto name = symbol.substr(0, symbol.find('@'));
    const auto version = symbol.substr(std::min(symbol.size(), name.size() + 1));
    std::vector<std::string> names, versions;
    std::vector<Symbol> found;
    std::set<std::uint64_t> places;
    const auto functions = elf->functions();
    for (const Symbol& one : functions) {
        if (one.name != name) continue;
        if (!one.version.empty()) versions.emplace_back(one.version);
        if (version.empty() ? one.hidden : one.version != version) continue;
        if (places.insert(one.address).second) found.push_back(one);
    }
    if (found.empty() && !versions.empty())
        return std::unexpected(fmt::format("{} has `{}` in other versions: {}; write \"LIBRARY:{}@VERSION\"", file,
                                           name, some_of(sorted(versions)), name));
    if (found.empty()) {
        for (const Symbol& one : functions) names.emplace_back(one.name);
        names = sorted(names);
        if (names.empty())
            return std::unexpected(
                fmt::format("{} has no symbols of functions; install those of its debug package", file));
        return std::unexpected(fmt::format("{} has no function `{}`{}", file, name, did_you_mean(name, names)));
    }
    if (found.size() > 1) return std::unexpected(fmt::format("{} has {} functions `{}`", file, found.size(), name));
    if (found.front().resolver)
        return std::unexpected(fmt::format(
            "`{}` of {} is chosen when the program starts (IFUNC); name the function that is chosen", name, file));
    const auto offset = elf->offset_of(found.front().address, true);
    if (!offset) return std::unexpected(fmt::format("`{}` of {} lies where the file has no code", name, file));
    Site site;
    site.file = file;
    site.offset = *offset;
    for (std::size_t k = 0; k < probe.args.size() && k < CIO_PROBE_ARGS; k++)
        site.arguments.args[k] = call_argument(static_cast<unsigned>(k));
    if (auto looked = look_at_code(*elf, file, site); !looked) return std::unexpected(looked.error());
    return site;
}

std::expected<std::vector<Site>, std::string> find_sites(const ir::Probe& probe, const Libraries& libraries) {
    if (probe.args.size() > CIO_PROBE_ARGS)
        return std::unexpected(
            fmt::format("it declares {} arguments; the limit is {}", probe.args.size(), CIO_PROBE_ARGS));
    if (probe.kind == "usdt") return find_usdt(probe, libraries);
    if (probe.kind == "syscall") {
        auto site = system_call_site(probe);
        if (!site) return std::unexpected(site.error());
        return std::vector{*site};
    }
    const std::string_view text = probe.site;
    const auto colon = text.rfind(':');
    auto library = libraries.find(text.substr(0, colon));
    if (!library) return std::unexpected(library.error());
    auto file = MappedFile::open(library->path);
    if (!file) return std::unexpected(file.error());
    auto site = function_site(probe, text.substr(colon + 1), file->bytes(), library->path);
    if (!site) return std::unexpected(site.error());
    return std::vector{*site};
}

}  // namespace chainio::probe
